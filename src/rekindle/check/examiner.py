"""One examination of an agent: who it is, what was found, and the errands that scenarios share.

A process of the agent serves several scenarios, as starting one may take seconds. A scenario that
needs another one restarts it, and what goes wrong ends it.
"""

import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from rekindle import __version__
from rekindle.check.judges import shapes
from rekindle.check.judges.replays import Opening
from rekindle.check.judges.turns import Turn
from rekindle.check.peer import Peer
from rekindle.check.requirements import of_version
from rekindle.check.telling import Item, of_turn
from rekindle.check.traffic import Answer, Json, Line
from rekindle.check.verdicts import Ledger, Verdict
from rekindle.core.secrets import mask
from rekindle.wire import methods
from rekindle.wire.envelope import AUTH_REQUIRED, rows, table, text

PROMPT = "Reply with one word."
LONG_PROMPT = "Count to 1000, one number a line."
PATIENCE = 60.0
HIGHEST_VERSION = 65_535
_INFO: Json = {"name": "rekindle-check", "title": "Rekindle's check", "version": __version__}
_NO_FILES: Json = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}


class Settings(Struct, frozen=True, kw_only=True):
    """What an examination is done with."""

    command: tuple[str, ...]
    folder: Path
    protocol: int = 1
    prompt: str = PROMPT
    long_prompt: str = LONG_PROMPT
    login: str | None = None
    patience: float = PATIENCE
    settling: float = 0.4
    """For how long nothing must come until nothing more is expected."""
    grace: float = 3.0
    """How long the agent may take to end when its input is closed."""
    environ: Mapping[str, str] | None = None


class Stopped(Exception):
    """A scenario cannot go on. `verdict` is that on what it has not judged yet."""

    def __init__(self, reason: str, verdict: Verdict = Verdict.SKIPPED) -> None:
        super().__init__(reason)
        self.reason = reason
        self.verdict = verdict


class CannotBeChecked(Exception):
    """Nothing of an agent can be judged, and why."""


class Talk(Struct):
    """A session of the agent, and what was said in it."""

    id: str
    folder: Path
    peer: Peer
    """The process that has it open."""
    items: list[Item]


def hello(protocol: object) -> Json:
    """Return the parameters of `initialize`, which fit both versions where it is neither."""
    v1: Json = {"clientInfo": _INFO, "clientCapabilities": _NO_FILES}
    v2: Json = {"info": _INFO, "capabilities": {}}
    return {"protocolVersion": protocol, **{1: v1, 2: v2}.get(_as_key(protocol), v1 | v2)}


def _as_key(protocol: object) -> int:
    return protocol if isinstance(protocol, int) else 0


class Examiner:
    """Does what scenarios have in common, and keeps what they find."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.protocol = settings.protocol
        self.ledger = Ledger(of_version(settings.protocol))
        self.peers: list[Peer] = []
        self.peer: Peer | None = None
        self.greeting: Answer | None = None
        self.offers: frozenset[str] = frozenset()
        self.asked: list[tuple[Peer, Answer]] = []
        """What was asked as it should be, and so has to be answered."""
        self.opened: list[Answer] = []
        """The answers that have named new sessions."""
        self.turns: list[Turn] = []
        self.unknown: list[Answer] = []
        """Refusals of sessions that there are not."""
        self.outlives_kill = True
        """Whether what was said is still there after the agent was killed, so far as is known."""
        self._broken: set[str] = set()
        self._no_turns = ""
        self._began_at = time.monotonic()
        self._talk: Talk | None = None
        self._folders = 0
        self._left: list[str] = []
        """Sessions to be deleted at the end."""

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return time.monotonic() - self._began_at

    # -- processes ----------------------------------------------------------------------

    async def start(self) -> Peer:
        """Start a process of the agent that nobody has greeted yet. Raises AgentNotStarted."""
        settings = self.settings
        peer = await Peer.start(settings.command, self._began_at, settings.environ)
        self.peers.append(peer)
        return peer

    async def agent(self) -> Peer:
        """Return the agent, started, greeted and signed in to."""
        if self.peer is not None and self.peer.ended is None:
            return self.peer
        self.peer = peer = await self.start()
        request = peer.request(methods.INITIALIZE, hello(self.protocol))
        answer = await peer.answer(request, self.settings.patience)
        self.greeting = self.greeting or answer
        if answer.line is None:
            why = f": {peer.in_words()}" if peer.in_words() else " in time"
            raise CannotBeChecked(f"`initialize` was not answered{why}")
        if answer.is_refused:
            raise CannotBeChecked(f"`initialize` fails: {answer.in_words()}")
        if (version := answer.result.get("protocolVersion")) != self.protocol:
            raise CannotBeChecked(f"it speaks version {version} of ACP, and not {self.protocol}")
        if self.protocol > 1 and "agentCapabilities" in answer.result:
            raise CannotBeChecked("it says version 2, and means version 1")
        self.offers = frozenset(_offers(answer.result, self.protocol))
        if self.settings.login is not None:
            await self._sign_in(peer, self.settings.login)
        return peer

    async def _sign_in(self, peer: Peer, method_id: str) -> None:
        method = methods.AUTHENTICATE if self.protocol == 1 else methods.AUTH_LOGIN
        answer = await self.ask(peer, method, {"methodId": method_id})
        if not answer.is_result:
            raise CannotBeChecked(f"signing in with {method_id} failed: {answer.in_words()}")

    async def restart(self, *, kill: bool) -> Peer:
        """End the agent, by SIGKILL or as clients do, and start it again."""
        await self.leave(kill=kill)
        return await self.agent()

    async def leave(self, *, kill: bool = False) -> None:
        """End the agent, if there is one."""
        if self.peer is not None:
            await (self.peer.kill() if kill else self.peer.end(self.settings.grace))
            self.peer = None

    async def tidy_up(self) -> None:
        """Delete what was made, as far as the agent can."""
        for session_id in self._left if self.has(methods.DELETE) else ():
            if self.peer is None or self.peer.ended is not None:
                break
            await self.probe(methods.DELETE, {"sessionId": session_id})
        await self.leave()

    async def end(self) -> None:
        """Leave no process behind."""
        for peer in self.peers:
            await peer.kill()

    # -- asking -------------------------------------------------------------------------

    async def ask(self, peer: Peer, method: str, params: Json) -> Answer:
        """Send a request that has to be answered, and return the answer, if one comes."""
        answer = await peer.answer(peer.request(method, params), self.settings.patience)
        self.asked.append((peer, answer))
        return answer

    async def call(self, method: str, params: Json) -> Answer:
        """Return the answer to a request. Raises Stopped if none comes."""
        peer = await self.agent()
        answer = await self.ask(peer, method, params)
        if answer.line is None:
            self.give_up(method)
            await self.leave(kill=True)
            raise Stopped(f"{method} was not answered")
        return answer

    def has(self, method: str) -> bool:
        """Tell whether a method of sessions is offered, and has not failed yet."""
        return method.removeprefix("session/") in self.offers and method not in self._broken

    def give_up(self, method: str) -> None:
        """Note that a method does not work, and need not be tried again."""
        self._broken.add(method)

    async def probe(self, method: str, params: Json) -> Answer:
        """Return what becomes of a request that is wrong on purpose; the agent may die of it."""
        peer = await self.agent()
        answer = await peer.answer(peer.request(method, params), self.settings.patience)
        if answer.line is None:
            await self.leave(kill=True)
        return answer

    # -- sessions -----------------------------------------------------------------------

    def folder(self, name: str = "") -> Path:
        """Return a new folder."""
        self._folders += 1
        path = self.settings.folder / (name or f"project-{self._folders}")
        path.mkdir(parents=True, exist_ok=True)
        return path

    def fresh(self, folder: Path) -> Json:
        """Return the parameters of `session/new`."""
        servers: Json = {"mcpServers": []} if self.protocol == 1 else {}
        return {"cwd": str(folder), **servers}

    async def new(self, folder: Path, **params: object) -> Talk:
        """Make a session. Raises Stopped, and CannotBeChecked if that needs signing in."""
        answer = await self.call(methods.NEW, {**self.fresh(folder), **params})
        session_id = self.named(answer)
        if answer.code == AUTH_REQUIRED:
            raise CannotBeChecked(f"it wants to be signed in to first{self._ways_to_sign_in()}")
        self.ledger.judge("session.works", shapes.no_session(answer))
        if "mcpServers" not in answer.request.params:
            self.ledger.judge("session.no-servers", shapes.no_session(answer))
        if session_id is None:
            raise Stopped(f"no session could be made: {answer.in_words()}")
        return Talk(session_id, folder, await self.agent(), [])

    def named(self, answer: Answer) -> str | None:
        """Return the id of the session that an answer gives, to be deleted at the end."""
        session_id = text(answer.result.get("sessionId")) if answer.is_result else None
        if session_id:
            self.opened.append(answer)
            self._left.append(session_id)
        return session_id or None

    def forget(self, session_id: str) -> None:
        """Note that a session needs not be deleted any more."""
        self._left = [it for it in self._left if it != session_id]

    def _ways_to_sign_in(self) -> str:
        told = self.greeting.result if self.greeting else {}
        methods_told = [table(it) for it in rows(told.get("authMethods"))]
        ids = [text(it.get("id")) or text(it.get("methodId")) or "?" for it in methods_told]
        return f": --login {mask(' or '.join(ids))} does that" if ids else ""

    async def talk(self) -> Talk:
        """Return a session in which a turn was had, open in the process that runs now."""
        peer = await self.agent()
        if self._talk is None or self._talk.peer is not peer:
            talk = await self.new(self.folder())
            await self.say(talk)
            self._talk = talk
        return self._talk

    async def talk_anew(self) -> Talk:
        """Return another such session."""
        self._talk = None
        return await self.talk()

    async def say(self, talk: Talk) -> Turn:
        """Have a turn, and remember what was said. Raises Stopped if the agent has none."""
        turn = await self.prompt(talk.id, self.settings.prompt)
        if turn.answer.is_refused:
            raise Stopped(f"a turn failed: {turn.answer.in_words()}")
        if turn.end is None:
            raise Stopped("a turn did not end in time")
        talk.items += of_turn(self.settings.prompt, turn.updates)
        return turn

    async def prompt(self, session_id: str, prompt: str, *before: Json) -> Turn:
        """Send a prompt, and wait until its turn is over."""
        peer, request = await self.begin(session_id, prompt, *before)
        return await self.finish(peer, request)

    async def begin(self, session_id: str, prompt: str, *before: Json) -> tuple[Peer, Line]:
        """Send a prompt. Raises Stopped if the agent has shown that it cannot run a turn."""
        if self._no_turns:
            raise Stopped(self._no_turns)
        peer = await self.agent()
        blocks = [*before, {"type": "text", "text": prompt}]
        params = {"sessionId": session_id, "prompt": blocks}
        return peer, peer.request(methods.PROMPT, params)

    async def finish(self, peer: Peer, request: Line, *, is_cancelled: bool = False) -> Turn:
        """Wait until a turn is over. Raises Stopped if it shows that the agent cannot run any."""
        patience = self.settings.patience
        since = peer.lines.index(request)
        answer = await peer.answer(request, patience)
        self.asked.append((peer, answer))
        end = answer.line
        if self.protocol > 1 and answer.is_result:
            end = await _idle(peer, request.session_id, since, patience)
        turn = Turn(request.session_id, answer, _until(peer.lines[since:], end), end)
        if answer.is_refused and not self.turns and not is_cancelled:
            self._no_turns = f"the agent cannot run a turn: {answer.in_words()}"
            raise Stopped(self._no_turns)
        self.turns.append(turn)
        if end is None:
            await self.leave(kill=True)
        return turn

    # -- opening again ------------------------------------------------------------------

    def again(self, talk: Talk, *, replayed: bool) -> tuple[str, Json]:
        """Return the method and the parameters that open a session again."""
        params = {"sessionId": talk.id, **self.fresh(talk.folder)}
        if self.protocol > 1:
            start: Json = {"replayFrom": {"type": "start"}} if replayed else {}
            return methods.RESUME, params | start
        return (methods.LOAD if replayed else methods.RESUME), params

    async def open(self, talk: Talk, *, replayed: bool, **more: object) -> Opening:
        """Open a session again, and hear what is told, also what comes late."""
        method, params = self.again(talk, replayed=replayed)
        peer = await self.agent()
        since = len(peer.lines)
        answer = await self.call(method, params | more)
        assert answer.line is not None  # noqa: S101 - `call` has seen to that
        await peer.settle(self.settings.settling)
        lines = peer.lines[since:]
        place = lines.index(answer.line)
        talk.peer = peer
        return Opening(talk.id, answer, tuple(lines[:place]), tuple(lines[place + 1 :]))


async def _idle(peer: Peer, session_id: str, since: int, patience: float) -> Line | None:
    """Wait for the state that ends a turn: idle, once it has been running."""
    has_run = False

    def is_end(line: Line) -> bool:
        nonlocal has_run
        if line.session_id != session_id or line.kind != methods.STATE_UPDATE:
            return False
        state = line.update.get("state")
        has_run = has_run or state == "running"
        return state == "idle" and (has_run or "stopReason" in line.update)

    return await peer.first(is_end, since, patience)


def _until(lines: list[Line], end: Line | None) -> tuple[Line, ...]:
    return tuple(lines if end is None else lines[: lines.index(end) + 1])


def _offers(result: Json, protocol: int) -> set[str]:
    if protocol > 1:
        session = table(table(result.get("capabilities")).get("session"))
        always = {"list", "resume", "close", "replay"}
        return always | {name for name, it in session.items() if it is not None}
    told = table(result.get("agentCapabilities"))
    session = table(told.get("sessionCapabilities"))
    replay = {"replay"} if told.get("loadSession") is True else set[str]()
    return replay | {name for name, it in session.items() if it is not None}
