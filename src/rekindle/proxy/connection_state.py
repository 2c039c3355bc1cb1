"""The state of one engine: its settings, its agent, its client connections, its sessions.

Holds state and the transitions between states; decides nothing about messages.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any

from msgspec import Struct, field

from rekindle.acp import methods
from rekindle.acp.capabilities import Capabilities
from rekindle.model import AgentIdentity, subagent_record_id
from rekindle.proxy.host_connections import HostConnections
from rekindle.proxy.live_session import InvalidTransition, LiveSession, LiveSessions
from rekindle.proxy.message_queues import MessageQueues
from rekindle.proxy.open_requests import OpenRequests
from rekindle.proxy.peers import FIRST_CLIENT, ClientConnection, Peer
from rekindle.proxy.session_clients import Attachment
from rekindle.proxy.step import AgentExit
from rekindle.proxy.subagents import Subagents
from rekindle.transcript.handover import BUDGET
from rekindle.transcript.model import TranscriptTurn
from rekindle.transcript.subagents import subagents_in


class AgentChoice(Struct, frozen=True, kw_only=True):
    """An agent that a client can choose."""

    name: str
    title: str
    command: tuple[str, ...]
    recorded_command: tuple[str, ...]
    """The command without secrets."""


class EngineSettings(Struct, frozen=True, kw_only=True):
    """The options that the user chose."""

    command: tuple[str, ...] = ()
    version: str = ""
    is_strict: bool = False
    may_hand_over: bool = True
    handover_budget: int = BUDGET
    may_take_over: bool = False
    agents: tuple[AgentChoice, ...] = ()
    """The agents that clients can choose; none if they cannot."""
    agent_name: str = ""
    """The name of the agent that runs first, among those."""
    outlives_clients: bool = False
    """Whether turns continue after their clients have left.

    The agent is then offered no files and terminals of a client.
    """
    has_hooks: bool = False
    """Whether the driver wants the events of turns."""
    token: str = ""
    """Distinguishes the ids of the engine's own requests from those of other processes."""


class AgentPhase(Enum):
    """The states of an agent's process, as the engine sees it."""

    UNINITIALIZED = auto()
    """It runs, and no client has initialized it."""
    INITIALIZING = auto()
    """A client's `initialize` is open at the agent."""
    READY = auto()
    """It answered `initialize`."""
    SILENT = auto()
    """It closed its output and will answer nothing more. Its exit follows."""
    DEAD = auto()
    """Its process has ended."""
    STARTING = auto()
    """A flow is starting it again."""
    RESTARTED = auto()
    """It runs again, and the engine has not initialized it."""
    REINITIALIZING = auto()
    """The engine's own `initialize` is open at the restarted agent."""


_P = AgentPhase
_AGENT_TRANSITIONS: dict[str, dict[AgentPhase, AgentPhase]] = {
    "initialize": {
        _P.UNINITIALIZED: _P.INITIALIZING,
        _P.READY: _P.INITIALIZING,
        _P.INITIALIZING: _P.INITIALIZING,
    },
    "initialized": {
        _P.INITIALIZING: _P.READY,
        _P.READY: _P.READY,
        _P.SILENT: _P.SILENT,
        _P.REINITIALIZING: _P.READY,
    },
    "start": {_P.DEAD: _P.STARTING, _P.RESTARTED: _P.REINITIALIZING},
    "started": {_P.STARTING: _P.REINITIALIZING},
    "start_failed": {
        _P.STARTING: _P.DEAD,
        _P.REINITIALIZING: _P.RESTARTED,
        _P.SILENT: _P.SILENT,
        _P.DEAD: _P.DEAD,
    },
    "closed_output": {
        _P.READY: _P.SILENT,
        _P.INITIALIZING: _P.SILENT,
        _P.RESTARTED: _P.SILENT,
        _P.REINITIALIZING: _P.SILENT,
        _P.SILENT: _P.SILENT,
    },
    "exited": {**dict.fromkeys(AgentPhase, _P.DEAD), _P.STARTING: _P.STARTING},
}


class AgentState(Struct, kw_only=True):
    """The agent: its phase, its identity and its capabilities.

    | event         | from                                          | to             |
    |---------------|-----------------------------------------------|----------------|
    | initialize    | uninitialized, ready, initializing            | initializing   |
    | initialized   | initializing, reinitializing, ready           | ready          |
    | initialized   | silent                                        | silent         |
    | start         | dead                                          | starting       |
    | start         | restarted                                     | reinitializing |
    | started       | starting                                      | reinitializing |
    | start_failed  | starting                                      | dead           |
    | start_failed  | reinitializing                                | restarted      |
    | start_failed  | silent, dead                                  | unchanged      |
    | closed_output | ready, initializing, restarted, reinitializing | silent        |
    | closed_output | silent                                        | silent         |
    | exited        | every phase but starting                      | dead           |
    | exited        | starting (the exit of an earlier process)     | starting       |

    `end_initialize` leaves initializing when the last open request has its response: to ready if
    the agent was ready before, otherwise to uninitialized. An exit before the first `initialized`
    is final: the engine does not start such an agent again. An agent that closes its output before
    it was ever ready stays in its phase until it exits.
    """

    identity: AgentIdentity
    capabilities: Capabilities = Capabilities()
    phase: AgentPhase = AgentPhase.UNINITIALIZED
    was_ready: bool = False
    """Whether it has been ready once, so that it can be started again."""
    generation: int = 0
    """The number of processes that have exited."""
    deaths: int = 0
    """The number of exits and failed starts since a turn last ended."""
    initialize_params: list[dict[str, Any]] = []
    """The params of `initialize`, one for each protocol version, the accepted one first."""
    initialize_result: dict[str, Any] = {}
    """The last successful response to `initialize`."""
    last_exit: AgentExit | None = None
    chosen: str = ""
    """The name of the agent, if clients can choose it."""
    open_initializes: int = 0
    """The number of a client's `initialize` requests that are open at the agent."""

    def advance(self, event: str) -> None:
        """Make the transition of an event. Raises InvalidTransition."""
        phases = _AGENT_TRANSITIONS[event]
        if self.phase not in phases:
            raise InvalidTransition(self.phase, event)
        self.phase = phases[self.phase]

    def initialize_succeeded(self, capabilities: Capabilities, result: dict[str, Any]) -> None:
        """Store the response to `initialize`, and the capabilities in it."""
        self.advance("initialized")
        self.was_ready = True
        self.capabilities, self.initialize_result = capabilities, result
        self.identity = AgentIdentity(
            name=capabilities.name,
            version=capabilities.version,
            command=self.identity.command,
        )

    def begin_initialize(self) -> None:
        """Note that a client's `initialize` is sent to the agent."""
        self.advance("initialize")
        self.open_initializes += 1

    def end_initialize(self) -> None:
        """Note that a client's `initialize` has its response, of whatever kind."""
        self.open_initializes -= 1
        if self.phase is AgentPhase.INITIALIZING and not self.open_initializes:
            self.phase = AgentPhase.READY if self.was_ready else AgentPhase.UNINITIALIZED

    def close_output(self) -> None:
        """Note that the agent will answer nothing more."""
        if self.was_ready and self.is_running:
            self.advance("closed_output")

    def switch(self, choice: AgentChoice) -> None:
        """Note that the next process is that of another agent, and that this one ends."""
        self.chosen = choice.name
        self.identity = AgentIdentity(command=choice.recorded_command)
        self.deaths = 0
        self.close_output()

    def exit(self, how: AgentExit) -> None:
        """Note the end of the agent's process."""
        self.advance("exited")
        self.last_exit = how
        self.deaths += 1
        self.generation += 1

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self.phase not in {AgentPhase.DEAD, AgentPhase.STARTING}

    @property
    def is_usable(self) -> bool:
        """Whether requests can be sent to it without starting or initializing it first."""
        return self.phase in _USABLE

    @property
    def is_restarting(self) -> bool:
        """Whether a flow is starting it again."""
        return self.phase in {AgentPhase.STARTING, AgentPhase.REINITIALIZING}

    def error(self, method: str) -> dict[str, Any] | None:
        """Return the error for a request to an agent that does not run; None if it runs."""
        return None if self.last_exit is None or self.is_running else self.last_exit.error(method)


_USABLE = frozenset({_P.UNINITIALIZED, _P.INITIALIZING, _P.READY, _P.SILENT})


class ConnectionState(Struct, kw_only=True):
    """The state that all parts of one engine share."""

    settings: EngineSettings
    agent: AgentState
    clients: dict[Peer, ClientConnection] = {}
    """The connected clients."""
    hosts: HostConnections = field(default_factory=HostConnections)
    """The processes that have sessions which clients of this engine use."""
    peer_count: int = 0
    """The number of peers, besides the agent, that were ever connected."""
    primary: Peer = FIRST_CLIENT
    """The client whose capabilities the agent knows: files and terminals are this client's."""
    sessions: LiveSessions = field(default_factory=LiveSessions)
    subagents: Subagents = field(default_factory=Subagents)
    requests: OpenRequests = field(default_factory=OpenRequests)
    queues: MessageQueues = field(default_factory=MessageQueues)
    unnamed_sessions: int = 0
    """The number of sessions that the agent is creating: their ids are unknown until it answers."""
    at_us: int = 0
    """The time of the present event."""

    def translates_for(self, client: ClientConnection) -> bool:
        """Return whether a client and the agent use different protocol versions."""
        return client.protocol != self.agent.capabilities.protocol

    def opened_by(self, client: ClientConnection, session_id: str | None) -> LiveSession | None:
        """Return the session with the client's id, if this client has it open."""
        live = self.sessions.get_open(session_id)
        return live if live is not None and client.peer in live.clients else None

    def attach(self, client: Peer, live: LiveSession, attachment: Attachment) -> None:
        """Let a client have a session open, unless the client has left meanwhile."""
        live.is_closed = False
        if client in self.clients:
            live.clients[client] = attachment

    def audience(self, live: LiveSession) -> list[ClientConnection]:
        """Return the clients that receive the live updates of a session.

        It may be a sub-agent's. A client that needs translations receives those of sub-agents only
        if it knows sub-agents.
        """
        found = [self.clients[peer] for peer, it in live.clients.items() if not it.is_joining]
        if self.subagents and self.sessions.get(live.id) is not live:
            return [it for it in found if it.takes_subagents or not self.translates_for(it)]
        return found

    def has_turn(self, session_id: str) -> bool:
        """Return whether a turn is running in a session."""
        live = self.sessions.get(session_id)
        if live is not None and live.turn.is_running:
            return True
        return self.requests.is_open(methods.PROMPT, session_id)

    def has_turn_besides(self, session_id: str) -> bool:
        """Return whether a turn is running in any other session."""
        return any(map(self.has_turn, self.sessions.besides(session_id)))

    def hides_client_tools(self, client: ClientConnection) -> bool:
        """Return whether the agent must not use the files and terminals of a client."""
        return client.is_local_process or self.settings.outlives_clients

    def new_peer(self) -> Peer:
        """Return a number for a client or a host that no peer has had."""
        self.peer_count += 1
        return Peer(self.peer_count)

    # -- sessions --------------------------------------------------------------------------

    def live_by_agent_id(self, agent_id: str | None) -> LiveSession | None:
        """Return the session with the agent's id, which may be that of a sub-agent."""
        live = self.sessions.get_by_agent_id(agent_id)
        if live is not None:
            return live
        subagent = self.subagents.get_by_agent_id(agent_id)
        return None if subagent is None else subagent.live

    def live(self, session_id: str | None) -> LiveSession | None:
        """Return the session with the client's id, which may be that of a sub-agent."""
        live = self.sessions.get(session_id)
        if live is not None:
            return live
        subagent = self.subagents.get(session_id)
        return None if subagent is None else subagent.live

    def bind(self, session_id: str, agent_id: str) -> LiveSession:
        """Make two ids name one session, and return it. Early updates under the id become held."""
        self.queues.name_session(agent_id, session_id)
        return self.sessions.bind(session_id, agent_id)

    def drop(self, session_id: str) -> None:
        """Forget a session, its sub-agents, and the messages that wait for it."""
        self.sessions.drop(session_id)
        for agent_id in self.subagents.drop(session_id):
            self.sessions.abandon(agent_id)
        self.queues.drop_session(session_id)

    def remove_subagents(self, session_id: str, removed: Iterable[TranscriptTurn]) -> None:
        """Forget the sub-agents in turns that a rewind has removed."""
        items = subagents_in(removed)
        records = {subagent_record_id(session_id, it.recorded_id) for it in items}
        for agent_id in self.subagents.remove(session_id, records):
            self.sessions.abandon(agent_id)

    def agent_exited(self) -> None:
        """Note that no agent knows the sessions any more."""
        self.sessions.agent_exited(self.at_us)
        self.subagents.agent_exited()
        self.queues.drop_updates()

    def take_released_updates(self) -> list[bytes]:
        """Return and remove the updates that no flow holds back any more."""
        return self.queues.take_released(
            self.sessions.is_in_transition, with_early=not self.unnamed_sessions
        )

    @contextmanager
    def naming_session(self) -> Generator[None]:
        """Hold updates of unknown sessions until the agent has answered with the new id."""
        self.unnamed_sessions += 1
        try:
            yield
        finally:
            self.unnamed_sessions -= 1
