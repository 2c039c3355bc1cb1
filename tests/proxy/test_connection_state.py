"""The state machine of the agent: every transition, and the refusal of every other."""

import pytest

from rekindle.acp.capabilities import Capabilities
from rekindle.model import AgentIdentity
from rekindle.proxy.connection_state import (
    AgentPhase,
    AgentState,
    ClientConnection,
    ConnectionState,
    EngineSettings,
)
from rekindle.proxy.live_session import InvalidTransition
from rekindle.proxy.peers import Peer
from rekindle.proxy.step import AgentExit

P = AgentPhase
EXIT = AgentExit(exit_code=1, signal=None, stderr_tail=())

TRANSITIONS = {
    "initialize": {
        P.UNINITIALIZED: P.INITIALIZING,
        P.READY: P.INITIALIZING,
        P.INITIALIZING: P.INITIALIZING,
    },
    "initialized": {
        P.INITIALIZING: P.READY,
        P.REINITIALIZING: P.READY,
        P.READY: P.READY,
        P.SILENT: P.SILENT,
    },
    "start": {P.DEAD: P.STARTING, P.RESTARTED: P.REINITIALIZING},
    "started": {P.STARTING: P.REINITIALIZING},
    "start_failed": {
        P.STARTING: P.DEAD,
        P.REINITIALIZING: P.RESTARTED,
        P.SILENT: P.SILENT,
        P.DEAD: P.DEAD,
    },
    "closed_output": {
        P.READY: P.SILENT,
        P.INITIALIZING: P.SILENT,
        P.RESTARTED: P.SILENT,
        P.REINITIALIZING: P.SILENT,
        P.SILENT: P.SILENT,
    },
    "exited": {**dict.fromkeys(AgentPhase, P.DEAD), P.STARTING: P.STARTING},
}


def agent(phase: AgentPhase = P.UNINITIALIZED, *, was_ready: bool = False) -> AgentState:
    return AgentState(identity=AgentIdentity(command=("a",)), phase=phase, was_ready=was_ready)


@pytest.mark.parametrize("event", TRANSITIONS)
@pytest.mark.parametrize("phase", AgentPhase)
def test_the_agent_makes_the_transitions_of_its_table_and_no_other(
    phase: AgentPhase, event: str
) -> None:
    state = agent(phase)
    expected = TRANSITIONS[event].get(phase)
    if expected is None:
        with pytest.raises(InvalidTransition, match=f"no transition {event} from {phase.name}"):
            state.advance(event)
        assert state.phase is phase
    else:
        state.advance(event)
        assert state.phase is expected


@pytest.mark.parametrize("phase", AgentPhase)
def test_what_can_be_sent_to_the_agent_depends_on_its_phase(phase: AgentPhase) -> None:
    state = agent(phase)
    assert state.is_running is (phase not in {P.DEAD, P.STARTING})
    assert state.is_usable is (phase in {P.UNINITIALIZED, P.INITIALIZING, P.READY, P.SILENT})
    assert state.is_restarting is (phase in {P.STARTING, P.REINITIALIZING})


@pytest.mark.parametrize(("was_ready", "expected"), [(False, P.UNINITIALIZED), (True, P.READY)])
def test_a_failed_initialize_returns_to_the_phase_before(
    *, was_ready: bool, expected: AgentPhase
) -> None:
    state = agent(P.INITIALIZING, was_ready=was_ready)
    state.open_initializes = 2
    state.end_initialize()
    assert state.phase is P.INITIALIZING
    state.end_initialize()
    assert state.phase is expected
    state = agent(P.DEAD, was_ready=was_ready)
    state.open_initializes = 1
    state.end_initialize()
    assert state.phase is P.DEAD


def test_the_response_to_initialize_sets_capabilities_and_identity() -> None:
    state = agent(P.INITIALIZING)
    state.initialize_succeeded(Capabilities(name="A", version="2"), {})
    assert (state.phase, state.was_ready) == (P.READY, True)
    assert state.identity == AgentIdentity(name="A", version="2", command=("a",))


def test_an_agent_that_was_never_ready_does_not_fall_silent() -> None:
    state = agent(P.INITIALIZING)
    state.close_output()
    assert state.phase is P.INITIALIZING
    state = agent(P.READY, was_ready=True)
    state.close_output()
    assert state.phase is P.SILENT
    state = agent(P.DEAD, was_ready=True)
    state.close_output()
    assert state.phase is P.DEAD


def test_an_exit_is_counted_and_gives_the_error_of_later_requests() -> None:
    state = agent(P.READY, was_ready=True)
    assert state.error("x") is None
    state.exit(EXIT)
    assert (state.deaths, state.generation, state.last_exit) == (1, 1, EXIT)
    assert state.error("x") == EXIT.error("x")
    state.advance("start")
    state.advance("started")
    assert state.error("x") is None


def connection(*, client: int = 1, protocol: int = 1) -> ConnectionState:
    state = agent()
    state.capabilities = Capabilities(protocol=protocol)
    peer = ClientConnection(peer=Peer(1), protocol=client)
    return ConnectionState(settings=EngineSettings(), agent=state, clients={peer.peer: peer})


@pytest.mark.parametrize("client", [1, 2])
@pytest.mark.parametrize("protocol", [1, 2])
def test_a_connection_translates_between_different_versions(client: int, protocol: int) -> None:
    conn = connection(client=client, protocol=protocol)
    assert conn.translates_for(conn.clients[Peer(1)]) is (client != protocol)


def test_early_updates_belong_to_the_session_that_is_bound_to_their_id() -> None:
    conn = connection()
    with conn.naming_session():
        conn.queues.hold_early("a1", b"one")
        assert conn.take_released_updates() == []
        live = conn.bind("s1", "a1")
    live.memory.advance("restore")
    assert conn.take_released_updates() == []
    live.memory.advance("restored")
    assert conn.take_released_updates() == [b"one"]


def test_a_dropped_session_loses_its_messages() -> None:
    conn = connection()
    conn.bind("s1", "a1")
    conn.queues.hold("s1", b"one")
    conn.drop("s1")
    assert conn.sessions.get("s1") is None
    assert conn.take_released_updates() == []


def test_an_exit_of_the_agent_drops_its_updates() -> None:
    conn = connection()
    conn.bind("s1", "a1")
    conn.queues.hold("s1", b"one")
    conn.agent_exited()
    assert conn.take_released_updates() == []


def test_a_session_has_a_turn_while_the_agent_works_on_it() -> None:
    conn = connection(client=2, protocol=2)
    live = conn.bind("s1", "a1")
    assert not conn.has_turn("s1")
    live.turn.report_state(is_idle=False)
    assert conn.has_turn("s1")
