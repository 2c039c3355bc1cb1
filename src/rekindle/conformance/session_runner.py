"""One examination of an agent: who it is, what was found, and the errands that scenarios share.

A process of the agent serves several scenarios, as starting one may take seconds. A scenario that
needs another one restarts it, and what goes wrong ends it. Sessions are never shared: what one
scenario does to a session must not be held against the agent in the next.
"""

import time
from pathlib import Path

from msgspec import Struct

from rekindle import __version__
from rekindle.acp import methods
from rekindle.acp.jsonrpc import AUTH_REQUIRED, UNSUPPORTED_VERSION
from rekindle.conformance.digest import Item, of_turn
from rekindle.conformance.peer import Peer
from rekindle.conformance.report import Ledger, Verdict
from rekindle.conformance.requirements import of_version
from rekindle.conformance.rules import responses
from rekindle.conformance.rules.names import CONVERSATION, USER_MESSAGES
from rekindle.conformance.rules.replays import Opening
from rekindle.conformance.rules.turns import Turn
from rekindle.conformance.trace import Answer, Json, Line
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.text.redact.secrets import mask

PROMPT = "Reply with one word."
LONG_PROMPT = "Count to 1000, one number a line."
PATIENCE = 60.0
HIGHEST_VERSION = 65_535
_SHORT_PATIENCE = 10.0
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
        self.greeting: Answer | None = None
        self.offers: frozenset[str] = frozenset()
        """What the agent advertises, whether it works or not: see `can`."""
        self.asked: list[tuple[Peer, Answer]] = []
        """What was asked as it should be, and so has to be answered."""
        self.opened: list[Answer] = []
        """The answers that have named new sessions."""
        self.turns: list[Turn] = []
        """The turns that were had."""
        self.unknown: list[Answer] = []
        """Refusals of sessions that there are not."""
        self.no_turns = ""
        """Why the agent cannot run a turn, if that is so."""
        self._peer: Peer | None = None
        self._broken: set[str] = set()
        self._silent: set[str] = set()
        self._probes_patience = settings.patience
        self._began_at = time.monotonic()
        self._folders = 0
        self._left: list[str] = []
        """Sessions to be deleted at the end."""

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return time.monotonic() - self._began_at

    # -- processes ----------------------------------------------------------------------

    async def start(self) -> Peer:
        """Start a process of the agent that nobody has greeted yet.

        Raises AgentNotStarted, and CannotBeChecked if the one before wrote without end.
        """
        if self.peers and self.peers[-1].is_flooding:
            raise CannotBeChecked(self.peers[-1].in_words())
        peer = await Peer.start(self.settings.command, self._began_at)
        self.peers.append(peer)
        return peer

    async def agent(self) -> Peer:
        """Return the agent, started, greeted and signed in to."""
        if self._peer is not None and self._peer.ended is None:
            return self._peer
        self._peer = peer = await self.start()
        answer = await self.ask(peer, methods.INITIALIZE, hello(self.protocol))
        self.greeting = self.greeting or answer
        if why := self._cannot_talk(peer, answer):
            raise CannotBeChecked(f"started again, {why}" if self.offers else why)
        self.offers = frozenset(_offers(answer.result, self.protocol))
        if self.settings.login is not None:
            await self._sign_in(peer, self.settings.login)
        return peer

    def _cannot_talk(self, peer: Peer, answer: Answer) -> str:
        if peer.is_echo:
            return "it repeats what it is told, and is no agent"
        if answer.line is None:
            return f"`initialize` was not answered: {peer.in_words() or 'not in time'}"
        supported = as_array(as_object(answer.error.get("data")).get("supported"))
        told = supported if answer.code == UNSUPPORTED_VERSION else []
        if answer.is_refused and self.protocol in (told or [self.protocol]):
            return f"`initialize` fails: {answer.in_words()}"
        versions = told or [answer.result.get("protocolVersion")]
        if self.protocol not in versions:
            spoken = " and ".join(map(str, versions))
            return f"it speaks version {spoken} of ACP, and not {self.protocol}"
        if self.protocol > 1 and responses.is_of_v1(answer.result):
            return "it says version 2, and means version 1"
        return ""

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
        if self._peer is not None:
            await (self._peer.kill() if kill else self._peer.end(self.settings.grace))
            self._peer = None

    async def tidy_up(self) -> None:
        """Delete what was made, as far as the agent can."""
        for session_id in self._left if self.can("delete") else ():
            if self._peer is None or self._peer.ended is not None:
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
        """Return the answer to a request. Raises Stopped if none comes, or none ever came."""
        if method in self._silent:
            raise Stopped(f"{method} was not answered")
        peer = await self.agent()
        answer = await self.ask(peer, method, params)
        if answer.line is None:
            self.give_up(method)
            self._silent.add(method)
            await self.leave(kill=True)
            raise Stopped(f"{method} was not answered")
        return answer

    def can(self, name: str) -> bool:
        """Tell whether a method of sessions is offered, and has not failed yet."""
        return name in self.offers and f"session/{name}" not in self._broken

    @property
    def reopens(self) -> bool:
        """Whether it offers a way to open a session again."""
        return bool({"replay", "resume"} & self.offers)

    def give_up(self, method: str) -> None:
        """Note that a method does not work, and need not be tried again."""
        self._broken.add(method)

    async def probe(self, method: str, params: Json) -> Answer:
        """Return what becomes of a request that is wrong on purpose; the agent may die of it."""
        peer = await self.agent()
        answer = await peer.answer(peer.request(method, params), self._probes_patience)
        if answer.line is None:
            # Who does not answer such things is not waited for as long another time.
            self._probes_patience = min(self.settings.patience, _SHORT_PATIENCE)
            await self.leave(kill=True)
        return answer

    async def let_end(self, prompted: Answer) -> None:
        """Wait for the end of a turn that should not have begun."""
        peer = await self.agent()
        if self.protocol == 1 or not prompted.is_result or prompted.request not in peer.lines:
            return
        patience = min(self.settings.patience, _SHORT_PATIENCE)
        if await self.end_of_turn(peer, prompted.request, patience) is None:
            await self.leave(kill=True)

    # -- sessions -----------------------------------------------------------------------

    async def ready(self) -> None:
        """See whether sessions can be made at all. Raises CannotBeChecked if not."""
        await self.agent()
        if self.protocol > 1 and not self.offers:
            raise CannotBeChecked("it has no sessions: `capabilities.session` is left out")
        if not self.opened:
            await self._made(self.fresh(self.folder()))

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

    async def new(self, folder: Path) -> Talk:
        """Make a session. Raises Stopped, and CannotBeChecked if that needs signing in."""
        answer = await self._made(self.fresh(folder))
        self.ledger.judge("session.works", responses.no_session(answer))
        if "mcpServers" not in answer.request.params:
            self.ledger.judge("session.no-servers", responses.no_session(answer))
        session_id = as_str(answer.result.get("sessionId"))
        if not session_id:
            raise Stopped(f"no session could be made: {answer.in_words()}")
        return Talk(session_id, folder, [])

    async def _made(self, params: Json) -> Answer:
        answer = await self.call(methods.NEW, params)
        self.named(answer)
        if answer.code == AUTH_REQUIRED:
            raise CannotBeChecked(f"it wants to be signed in to first{self._ways_to_sign_in()}")
        return answer

    def named(self, answer: Answer) -> str | None:
        """Return the id of the session that an answer gives, to be deleted at the end."""
        session_id = as_str(answer.result.get("sessionId")) if answer.is_result else None
        if session_id:
            self.opened.append(answer)
            self._left.append(session_id)
        return session_id or None

    def forget(self, session_id: str) -> None:
        """Note that a session needs not be deleted any more."""
        self._left = [it for it in self._left if it != session_id]

    def _ways_to_sign_in(self) -> str:
        told = self.greeting.result if self.greeting else {}
        methods_told = [as_object(it) for it in as_array(told.get("authMethods"))]
        ids = [as_str(it.get("id")) or as_str(it.get("methodId")) or "?" for it in methods_told]
        return f": --login {mask(' or '.join(ids))} does that" if ids else ""

    # -- turns --------------------------------------------------------------------------

    async def talk(self) -> Talk:
        """Return a new session in which a turn was had."""
        talk = await self.new(self.folder())
        await self.say(talk)
        return talk

    async def say(self, talk: Talk) -> Turn:
        """Have a turn, and remember what was said. Raises Stopped if the agent has none."""
        turn = await self.prompt(talk.id, self.settings.prompt)
        if not turn.is_had:
            raise Stopped(f"a turn could not be had: {turn.in_words()}")
        talk.items += of_turn(self.settings.prompt, turn.updates)
        return turn

    async def prove_turns(self) -> None:
        """See that the agent can run a turn. Raises Stopped if it cannot."""
        if not self.turns:
            await self.talk()

    async def prompt(self, session_id: str, prompt: str, *before: Json) -> Turn:
        """Send a prompt, and wait until its turn is over. Raises Stopped as `begin` does."""
        peer, request = await self.begin(session_id, prompt, *before)
        return await self.finish(peer, request)

    async def begin(self, session_id: str, prompt: str, *before: Json) -> tuple[Peer, Line]:
        """Send a prompt. Raises Stopped if the agent has shown that it cannot run a turn."""
        if self.no_turns:
            raise Stopped(self.no_turns)
        peer = await self.agent()
        blocks = [*before, {"type": "text", "text": prompt}]
        params = {"sessionId": session_id, "prompt": blocks}
        return peer, peer.request(methods.PROMPT, params)

    async def finish(self, peer: Peer, request: Line, *, is_cancelled: bool = False) -> Turn:
        """Wait until a turn is over."""
        patience = self.settings.patience
        since = peer.lines.index(request)
        answer = await peer.answer(request, patience)
        self.asked.append((peer, answer))
        end = answer.line
        if self.protocol > 1 and answer.is_result:
            end = await self.end_of_turn(peer, request, patience)
        turn = Turn(request.session_id, answer, _until(peer.lines[since:], end), end)
        if turn.is_had:
            self.turns.append(turn)
        elif not self.turns and not is_cancelled:
            self.no_turns = f"the agent cannot run a turn: {turn.in_words()}"
        if end is None:
            await self.leave(kill=True)
        return turn

    async def end_of_turn(self, peer: Peer, request: Line, seconds: float) -> Line | None:
        """Return what ends a turn, if it comes so soon: the answer, and in version 2 a state."""
        since = peer.lines.index(request)
        if self.protocol == 1:
            return (await peer.answer(request, seconds)).line
        return await _idle(peer, request.session_id, since, seconds)

    # -- opening again ------------------------------------------------------------------

    def again(self, talk: Talk, *, replayed: bool) -> tuple[str, Json]:
        """Return the method and the parameters that open a session again."""
        params = {"sessionId": talk.id, **self.fresh(talk.folder)}
        if self.protocol > 1:
            start: Json = {"replayFrom": {"type": "start"}} if replayed else {}
            return methods.RESUME, params | start
        return (methods.LOAD if replayed else methods.RESUME), params

    async def open(self, talk: Talk, *, replayed: bool) -> Opening:
        """Open a session again, and hear what is told, also what comes late."""
        method, params = self.again(talk, replayed=replayed)
        peer = await self.agent()
        since = len(peer.lines)
        answer = await self.call(method, params)
        assert answer.line is not None  # noqa: S101 - `call` has seen to that
        await peer.settle(talk.id, self.settings.settling)
        lines = peer.lines[since:]
        place = lines.index(answer.line)
        return Opening(talk.id, answer, tuple(lines[:place]), tuple(lines[place + 1 :]))


async def _idle(peer: Peer, session_id: str, since: int, patience: float) -> Line | None:
    """Wait for the state that ends a turn: idle, once there was any work."""
    has_worked = False

    def is_end(line: Line) -> bool:
        nonlocal has_worked
        if line.session_id != session_id:
            return False
        has_worked = has_worked or line.kind in CONVERSATION - USER_MESSAGES
        if line.kind != methods.STATE_UPDATE:
            return False
        state = line.update.get("state")
        has_worked = has_worked or state in ("running", "requires_action")
        return state == "idle" and (has_worked or "stopReason" in line.update)

    return await peer.first(is_end, since, patience)


def _until(lines: list[Line], end: Line | None) -> tuple[Line, ...]:
    return tuple(lines if end is None else lines[: lines.index(end) + 1])


def _offers(result: Json, protocol: int) -> set[str]:
    if protocol > 1:
        session = as_object(result.get("capabilities")).get("session")
        always = {"list", "resume", "close", "replay"} if session is not None else set[str]()
        return always | {name for name, it in as_object(session).items() if it is not None}
    told = as_object(result.get("agentCapabilities"))
    session = as_object(told.get("sessionCapabilities"))
    replay = {"replay"} if told.get("loadSession") is True else set[str]()
    return replay | {name for name, it in session.items() if it is not None}
