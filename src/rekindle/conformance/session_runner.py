"""Shared by the scenarios: the agent's processes, sessions and turns, and the results so far.

One process of the agent serves several scenarios, because starting one may take seconds. A scenario
that needs a new one restarts it, and a failure ends it. Sessions are never shared: the effects of
one scenario on a session must not count against the agent in the next.
"""

import time
from pathlib import Path

from msgspec import Struct, field

from rekindle import __version__
from rekindle.acp import methods
from rekindle.acp.jsonrpc import AUTH_REQUIRED, UNSUPPORTED_VERSION
from rekindle.conformance.digest import DigestItem, digest_turn
from rekindle.conformance.peer import Peer
from rekindle.conformance.report import CheckResults, Verdict
from rekindle.conformance.requirements import of_version
from rekindle.conformance.rules import responses
from rekindle.conformance.rules.replays import OpeningTrace
from rekindle.conformance.rules.turns import TurnTrace
from rekindle.conformance.rules.vocabulary import CONVERSATION, STATE_UPDATE, USER_MESSAGES
from rekindle.conformance.trace import Exchange, TraceLine
from rekindle.jsonvalue import Json, as_array, as_object, as_str
from rekindle.text.redact.detect import mask

PROMPT = "Reply with one word."
LONG_PROMPT = "Count to 1000, one number a line."
TIMEOUT = 60.0
HIGHEST_VERSION = 65_535
_SHORT_TIMEOUT = 10.0
_INFO: Json = {"name": "rekindle-check", "title": "Rekindle's check", "version": __version__}
_NO_FILES: Json = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}


class CheckSettings(Struct, frozen=True, kw_only=True):
    """The settings of a check."""

    command: tuple[str, ...]
    folder: Path
    protocol: int = 1
    prompt: str = PROMPT
    long_prompt: str = LONG_PROMPT
    login: str | None = None
    timeout: float = TIMEOUT
    quiet_seconds: float = 0.4
    """After a silence of this length, no more updates are expected."""
    grace: float = 3.0
    """The time that the agent may take to exit when its input is closed."""
    allow_logout: bool = False
    """Whether the agent may be logged out."""


class ScenarioStopped(Exception):
    """A scenario cannot go on. `verdict` is the one for its remaining requirements."""

    def __init__(self, reason: str, verdict: Verdict = Verdict.SKIPPED) -> None:
        super().__init__(reason)
        self.reason = reason
        self.verdict = verdict


class AgentNotCheckable(Exception):
    """Nothing more of the agent can be checked. The message is the reason."""


class CheckedSession(Struct):
    """A session of the agent, and a digest of its conversation."""

    id: str
    folder: Path
    items: list[DigestItem]


class Observations(Struct):
    """Data of all scenarios, for the rules that apply to the whole check."""

    opened: list[Exchange] = field(default_factory=list[Exchange])
    """The exchanges that have created sessions."""
    turns: list[TurnTrace] = field(default_factory=list[TurnTrace])
    """The complete turns."""
    unknown_sessions: list[Exchange] = field(default_factory=list[Exchange])
    """Requests for sessions that do not exist."""
    replays: list[OpeningTrace] = field(default_factory=list[OpeningTrace])
    """Sessions that were opened again with a replay."""


def initialize_params(protocol: object, *, has_terminal: bool = False) -> Json:
    """Return the parameters of `initialize`. For an unknown version they fit both versions.

    `has_terminal` is whether the client offers a terminal for a login.
    """
    login_v1: Json = {"auth": {"terminal": True}} if has_terminal else {}
    login_v2: Json = {"auth": {"terminal": {}}} if has_terminal else {}
    v1: Json = {"clientInfo": _INFO, "clientCapabilities": _NO_FILES | login_v1}
    v2: Json = {"info": _INFO, "capabilities": login_v2}
    version = protocol if isinstance(protocol, int) else 0
    return {"protocolVersion": protocol, **{1: v1, 2: v2}.get(version, v1 | v2)}


class AgentProcesses:
    """The processes of the agent, at most one of them current, and the handshake with each."""

    def __init__(self, settings: CheckSettings) -> None:
        self.settings = settings
        self.peers: list[Peer] = []
        self.requests: list[tuple[Peer, Exchange]] = []
        """Valid requests, which the agent must answer."""
        self.handshake: Exchange | None = None
        """The first `initialize`."""
        self.offered: frozenset[str] = frozenset()
        """The capabilities that the agent advertises."""
        self.scenario = ""
        """The scenario that runs."""
        self._current: Peer | None = None
        self._started_at = time.monotonic()

    @property
    def elapsed(self) -> float:
        """The seconds since the check started."""
        return time.monotonic() - self._started_at

    @property
    def running(self) -> Peer | None:
        """The current process, if it has not exited."""
        peer = self._current
        return peer if peer is not None and peer.exit is None else None

    async def start(self) -> Peer:
        """Start a process without a handshake.

        Raises AgentNotStarted, and AgentNotCheckable if the previous one wrote without end.
        """
        if self.peers and self.peers[-1].is_flooding:
            raise AgentNotCheckable(self.peers[-1].describe_exit())
        peer = await Peer.start(self.settings.command, self._started_at)
        self.peers.append(peer)
        self._note_scenario(peer)
        return peer

    def _note_scenario(self, peer: Peer) -> None:
        if self.scenario and self.scenario not in peer.notes.scenarios:
            peer.notes.scenarios.append(self.scenario)

    async def current(self) -> Peer:
        """Return the current process; start and initialize one if none is running."""
        if self.running is not None:
            self._note_scenario(self.running)
            return self.running
        self._current = peer = await self.start()
        exchange = await self.ask(peer, methods.INITIALIZE, initialize_params(self._protocol))
        self.handshake = self.handshake or exchange
        if obstacle := self._find_obstacle(peer, exchange):
            raise AgentNotCheckable(f"started again, {obstacle}" if self.offered else obstacle)
        self.offered = frozenset(_read_offered(exchange.result, self._protocol))
        if self.settings.login is not None:
            await self._log_in(peer, self.settings.login)
        return peer

    @property
    def _protocol(self) -> int:
        return self.settings.protocol

    def _find_obstacle(self, peer: Peer, exchange: Exchange) -> str:
        """Return why the agent cannot be checked after this handshake; empty if it can."""
        protocol = self._protocol
        if peer.is_echo:
            return "it echoes its input, so it is not an agent"
        if exchange.response is None:
            return f"`initialize` was not answered: {peer.describe_exit() or 'not in time'}"
        supported = as_array(as_object(exchange.error.get("data")).get("supported"))
        supported = supported if exchange.code == UNSUPPORTED_VERSION else []
        if exchange.is_refused and protocol in (supported or [protocol]):
            return f"`initialize` failed: {exchange.describe()}"
        versions = supported or [exchange.result.get("protocolVersion")]
        if protocol not in versions:
            spoken = " and ".join(map(str, versions))
            return f"it supports version {spoken} of ACP, not {protocol}"
        if protocol > 1 and responses.has_v1_form(exchange.result):
            return "its answer has version 2, but the form of version 1"
        return ""

    async def _log_in(self, peer: Peer, method_id: str) -> None:
        method = methods.AUTHENTICATE if self._protocol == 1 else methods.AUTH_LOGIN
        exchange = await self.ask(peer, method, {"methodId": method_id})
        if not exchange.is_result:
            raise AgentNotCheckable(f"logging in with {method_id} failed: {exchange.describe()}")

    async def ask(self, peer: Peer, method: str, params: Json) -> Exchange:
        """Send a request that must be answered, and wait for its response."""
        exchange = await peer.response_to(peer.request(method, params), self.settings.timeout)
        self.requests.append((peer, exchange))
        return exchange

    async def restart(self, *, kill: bool) -> Peer:
        """End the current process, by SIGKILL or by closing its input, and start another."""
        await self.stop(kill=kill)
        return await self.current()

    async def stop(self, *, kill: bool = False) -> None:
        """End the current process, if any."""
        if self._current is not None:
            await (self._current.kill() if kill else self._current.end(self.settings.grace))
            self._current = None

    async def kill_all(self) -> None:
        """Kill all processes."""
        for peer in self.peers:
            await peer.kill()


class SessionRunner:
    """Creates sessions and runs turns for the scenarios, and collects the results."""

    def __init__(self, settings: CheckSettings) -> None:
        self.settings = settings
        self.protocol = settings.protocol
        self.results = CheckResults(of_version(settings.protocol), settings.protocol)
        self.processes = AgentProcesses(settings)
        self.observed = Observations()
        self.no_turns = ""
        """Why the agent cannot run a turn; empty if it can."""
        self._broken: set[str] = set()
        self._unanswered: set[str] = set()
        self._probe_timeout = settings.timeout
        self._folders = 0
        self._created: list[str] = []
        """Sessions to delete at the end."""

    @property
    def offered(self) -> frozenset[str]:
        """The capabilities that the agent advertises, whether they work or not: see `works`."""
        return self.processes.offered

    @property
    def can_reopen(self) -> bool:
        """Whether the agent advertises a way to open a session again."""
        return bool({"replay", "resume"} & self.offered)

    @property
    def capabilities(self) -> Json:
        """The capabilities that the agent advertises."""
        name = "agentCapabilities" if self.protocol == 1 else "capabilities"
        return as_object(self._greeting.get(name))

    @property
    def session_capabilities(self) -> Json:
        """The session capabilities that the agent advertises."""
        return _session_capabilities(self._greeting, self.protocol)

    @property
    def prompt_capabilities(self) -> Json:
        """The kinds of content that the agent accepts in prompts."""
        if self.protocol > 1:
            return as_object(self.session_capabilities.get("prompt"))
        capabilities = as_object(self._greeting.get("agentCapabilities"))
        return as_object(capabilities.get("promptCapabilities"))

    @property
    def _greeting(self) -> Json:
        handshake = self.processes.handshake
        return handshake.result if handshake is not None else {}

    def works(self, name: str) -> bool:
        """Return whether a session method is advertised and has not failed so far."""
        return name in self.offered and f"session/{name}" not in self._broken

    def mark_broken(self, method: str) -> None:
        """Note that a method does not work."""
        self._broken.add(method)

    # -- requests -----------------------------------------------------------------------

    async def call(self, method: str, params: Json) -> Exchange:
        """Send a request and wait for its response.

        Raises ScenarioStopped if none comes, or if an earlier request of the method had none.
        """
        if method in self._unanswered:
            raise ScenarioStopped(f"{method} was not answered")
        peer = await self.processes.current()
        exchange = await self.processes.ask(peer, method, params)
        if exchange.response is None:
            self.mark_broken(method)
            self._unanswered.add(method)
            await self.processes.stop(kill=True)
            raise ScenarioStopped(f"{method} was not answered")
        return exchange

    async def probe(self, method: str, params: Json) -> Exchange:
        """Send a request that is invalid on purpose. The agent may exit because of it."""
        peer = await self.processes.current()
        exchange = await peer.response_to(peer.request(method, params), self._probe_timeout)
        if exchange.response is None:
            # An agent that does not answer one probe gets less time for the next.
            self._probe_timeout = min(self.settings.timeout, _SHORT_TIMEOUT)
            await self.processes.stop(kill=True)
        return exchange

    # -- sessions -----------------------------------------------------------------------

    async def require_sessions(self) -> None:
        """Check that the agent can create sessions. Raises AgentNotCheckable if not."""
        await self.processes.current()
        if self.protocol > 1 and not self.offered:
            raise AgentNotCheckable("it has no sessions: `capabilities.session` is missing")
        if not self.observed.opened:
            await self._create(self.new_params(self.make_folder()))

    def make_folder(self, name: str = "") -> Path:
        """Create a folder and return it."""
        self._folders += 1
        path = self.settings.folder / (name or f"project-{self._folders}")
        path.mkdir(parents=True, exist_ok=True)
        return path

    def new_params(self, folder: Path) -> Json:
        """Return the parameters of `session/new`."""
        servers: Json = {"mcpServers": []} if self.protocol == 1 else {}
        return {"cwd": str(folder), **servers}

    async def new_session(self, folder: Path) -> CheckedSession:
        """Create a session. Raises ScenarioStopped, and AgentNotCheckable without a login."""
        exchange = await self._create(self.new_params(folder))
        self.results.check("session.works", responses.missing_session_id(exchange))
        if "mcpServers" not in exchange.request.params:
            self.results.check("session.no-servers", responses.missing_session_id(exchange))
        session_id = as_str(exchange.result.get("sessionId"))
        if not session_id:
            raise ScenarioStopped(f"no session could be created: {exchange.describe()}")
        return CheckedSession(session_id, folder, [])

    async def _create(self, params: Json) -> Exchange:
        exchange = await self.call(methods.NEW, params)
        self.note_session(exchange)
        if exchange.code == AUTH_REQUIRED:
            raise AgentNotCheckable(f"it requires a login first{self._login_hint()}")
        return exchange

    def note_session(self, exchange: Exchange) -> str | None:
        """Return the id of the session that a response names. It is deleted at the end."""
        session_id = as_str(exchange.result.get("sessionId")) if exchange.is_result else None
        if session_id:
            self.observed.opened.append(exchange)
            self._created.append(session_id)
        return session_id or None

    def note_deleted(self, session_id: str) -> None:
        """Note that a session need not be deleted any more."""
        self._created = [it for it in self._created if it != session_id]

    async def delete_sessions(self) -> None:
        """Delete the sessions that were created, if the agent can, and end it."""
        for session_id in self._created if self.works("delete") else ():
            if self.processes.running is None:
                break
            await self.probe(methods.DELETE, {"sessionId": session_id})
        await self.processes.stop()

    def _login_hint(self) -> str:
        auth_methods = [as_object(it) for it in as_array(self._greeting.get("authMethods"))]
        ids = [as_str(it.get("id")) or as_str(it.get("methodId")) or "?" for it in auth_methods]
        return f"; use --login {mask(' or '.join(ids))}" if ids else ""

    # -- turns --------------------------------------------------------------------------

    async def prompted_session(self) -> CheckedSession:
        """Return a new session with one turn."""
        session = await self.new_session(self.make_folder())
        await self.run_turn(session)
        return session

    async def run_turn(self, session: CheckedSession) -> TurnTrace:
        """Run a turn and add it to the digest. Raises ScenarioStopped if it fails."""
        turn = await self.prompt(session.id, self.settings.prompt)
        if not turn.is_complete:
            raise ScenarioStopped(f"a turn could not be run: {turn.describe()}")
        session.items += digest_turn(self.settings.prompt, turn.updates)
        return turn

    async def require_turns(self) -> None:
        """Check that the agent can run a turn. Raises ScenarioStopped if not."""
        if not self.observed.turns:
            await self.prompted_session()

    async def prompt(self, session_id: str, prompt: str, *before: Json) -> TurnTrace:
        """Send a prompt and wait for the end of its turn. Raises what `start_turn` raises."""
        peer, request = await self.start_turn(session_id, prompt, *before)
        return await self.finish_turn(peer, request)

    async def start_turn(
        self, session_id: str, prompt: str, *before: Json
    ) -> tuple[Peer, TraceLine]:
        """Send a prompt, with other content blocks before its text.

        Raises ScenarioStopped if the agent cannot run turns.
        """
        if self.no_turns:
            raise ScenarioStopped(self.no_turns)
        peer = await self.processes.current()
        blocks = [*before, {"type": "text", "text": prompt}]
        params = {"sessionId": session_id, "prompt": blocks}
        return peer, peer.request(methods.PROMPT, params)

    async def finish_turn(
        self, peer: Peer, request: TraceLine, *, is_cancelled: bool = False
    ) -> TurnTrace:
        """Wait for the end of a turn."""
        timeout = self.settings.timeout
        since = peer.lines.index(request)
        exchange = await peer.response_to(request, timeout)
        self.processes.requests.append((peer, exchange))
        end = exchange.response
        if self.protocol > 1 and exchange.is_result:
            end = await self.wait_for_turn_end(peer, request, timeout)
        lines = peer.lines[since:]
        lines = lines if end is None else lines[: lines.index(end) + 1]
        turn = TurnTrace(request.session_id, exchange, tuple(lines), end)
        if turn.is_complete:
            self.observed.turns.append(turn)
        elif not self.observed.turns and not is_cancelled:
            self.no_turns = f"the agent cannot run a turn: {turn.describe()}"
        if end is None:
            await self.processes.stop(kill=True)
        return turn

    async def wait_for_turn_end(
        self, peer: Peer, request: TraceLine, seconds: float
    ) -> TraceLine | None:
        """Return the line that ends a turn: its response, or in version 2 a state."""
        since = peer.lines.index(request)
        if self.protocol == 1:
            return (await peer.response_to(request, seconds)).response
        return await _wait_for_idle(peer, request.session_id, since, seconds)

    async def wait_for_stray_turn(self, prompted: Exchange) -> None:
        """Wait for the end of a turn that the agent should have refused."""
        peer = await self.processes.current()
        if self.protocol == 1 or not prompted.is_result or prompted.request not in peer.lines:
            return
        timeout = min(self.settings.timeout, _SHORT_TIMEOUT)
        if await self.wait_for_turn_end(peer, prompted.request, timeout) is None:
            await self.processes.stop(kill=True)

    # -- reopening ----------------------------------------------------------------------

    def reopen_request(self, session: CheckedSession, *, replayed: bool) -> tuple[str, Json]:
        """Return the method and the parameters that open a session again."""
        params = {"sessionId": session.id, **self.new_params(session.folder)}
        if self.protocol > 1:
            start: Json = {"replayFrom": {"type": "start"}} if replayed else {}
            return methods.RESUME, params | start
        return (methods.LOAD if replayed else methods.RESUME), params

    async def reopen(self, session: CheckedSession, *, replayed: bool) -> OpeningTrace:
        """Open a session again, and wait also for updates that come late."""
        method, params = self.reopen_request(session, replayed=replayed)
        peer = await self.processes.current()
        since = len(peer.lines)
        exchange = await self.call(method, params)
        assert exchange.response is not None  # noqa: S101 - otherwise `call` has raised
        await peer.wait_until_quiet(session.id, self.settings.quiet_seconds)
        lines = peer.lines[since:]
        place = lines.index(exchange.response)
        before, after = tuple(lines[:place]), tuple(lines[place + 1 :])
        opening = OpeningTrace(session.id, exchange, before, after)
        if replayed:
            self.observed.replays.append(opening)
        return opening


async def _wait_for_idle(
    peer: Peer, session_id: str, since: int, seconds: float
) -> TraceLine | None:
    """Wait for the state that ends a turn: idle, after the agent has worked."""
    has_worked = False

    def is_end(line: TraceLine) -> bool:
        nonlocal has_worked
        if line.session_id != session_id:
            return False
        has_worked = has_worked or line.kind in CONVERSATION - USER_MESSAGES
        if line.kind != STATE_UPDATE:
            return False
        state = line.update.get("state")
        has_worked = has_worked or state in ("running", "requires_action")
        return state == "idle" and (has_worked or "stopReason" in line.update)

    return await peer.wait_for(is_end, since, seconds)


def _session_capabilities(greeting: Json, protocol: int) -> Json:
    if protocol > 1:
        return as_object(as_object(greeting.get("capabilities")).get("session"))
    capabilities = as_object(greeting.get("agentCapabilities"))
    return as_object(capabilities.get("sessionCapabilities"))


def _read_offered(greeting: Json, protocol: int) -> set[str]:
    session = _session_capabilities(greeting, protocol)
    named = {name for name, it in session.items() if it is not None and name != "_meta"}
    if protocol > 1:
        has_sessions = as_object(greeting.get("capabilities")).get("session") is not None
        return named | ({"list", "resume", "close", "replay"} if has_sessions else set[str]())
    capabilities = as_object(greeting.get("agentCapabilities"))
    return named | ({"replay"} if capabilities.get("loadSession") is True else set[str]())
