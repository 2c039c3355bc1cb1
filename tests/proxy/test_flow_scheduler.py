"""The scheduler with flows that are written for the test."""

import json
from collections.abc import Callable

import pytest
from msgspec import Raw

from rekindle.acp.jsonrpc import Envelope, read_envelope
from rekindle.model import AgentIdentity
from rekindle.proxy.connection_state import (
    AgentState,
    ClientConnection,
    ConnectionState,
    EngineSettings,
)
from rekindle.proxy.flow import (
    NO_RESPONSE,
    Action,
    AgentReply,
    CallAgent,
    Flow,
    ForwardRequest,
    GetSession,
    Pause,
    QueryFailed,
    Refusal,
    SendToClient,
    StartAgent,
    WaitForTurnEnd,
)
from rekindle.proxy.flow_scheduler import FlowResult, FlowScheduler, RunningFlow
from rekindle.proxy.journal import Journal
from rekindle.proxy.outbox import Outbox
from rekindle.proxy.peers import Peer
from rekindle.proxy.step import AgentExit, Step

CLIENT = Peer(1)
EXIT = AgentExit(exit_code=1, signal=None, stderr_tail=())


class Host:
    """Collects what flows do and return."""

    def __init__(self, token: str = "") -> None:
        conn = ConnectionState(
            settings=EngineSettings(token=token),
            agent=AgentState(identity=AgentIdentity()),
            clients={CLIENT: ClientConnection(peer=CLIENT)},
        )
        self.outbox = Outbox(conn, Journal(conn))
        self.conn = conn
        self.scheduler = FlowScheduler(self.outbox, self)
        self.actions: list[Action] = []
        self.results: list[FlowResult] = []
        self.fault: Exception | None = None

    def perform(self, _: RunningFlow, action: Action) -> None:
        if self.fault:
            raise self.fault
        self.actions.append(action)

    def flow_ended(self, _: RunningFlow, result: FlowResult) -> None:
        self.results.append(result)

    def start(self, flow: Flow, session_id: str | None = "s1") -> None:
        self.scheduler.start(flow, self.conn.clients[CLIENT], Raw(b"7"), session_id)

    def step(self, at_us: int = 0) -> Step:
        """Begin an event; return the step of the one before."""
        step, self.outbox.step = self.outbox.step, Step()
        self.conn.at_us = at_us
        return step

    def reply(self, message: object) -> bool:
        line = json.dumps(message).encode()
        return self.scheduler.agent_replied(read_envelope(line) or Envelope(), line)


@pytest.fixture
def host() -> Host:
    return Host()


def one(effect: object) -> Flow:
    """Return a flow that yields one effect and returns its result."""
    got = yield effect  # type: ignore[misc]
    return {"got": got}


def test_an_action_is_performed_at_once(host: Host) -> None:
    action = SendToClient([b"x"])
    host.start(one(action))
    assert host.actions == [action]
    assert host.results == [{"got": None}]


def test_a_query_waits_for_the_driver(host: Host) -> None:
    host.start(one(GetSession("s1")))
    (pending,) = host.step().queries
    assert host.scheduler.is_busy("s1")
    assert not host.scheduler.is_busy("s2")
    assert not host.scheduler.is_busy(None)
    host.scheduler.query_answered(pending.flow, "a session")
    assert host.results == [{"got": "a session"}]
    assert not host.scheduler.is_busy("s1")


def test_a_query_that_fails_is_raised_in_the_flow(host: Host) -> None:
    host.start(one(StartAgent()))
    host.scheduler.query_answered(host.step().queries[0].flow, QueryFailed("no store"))
    (refusal,) = host.results
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.message) == (-32603, "no store")


def test_a_call_has_an_id_of_its_own_and_waits_for_the_agent(host: Host) -> None:
    host.start(one(CallAgent("x", {"a": 1})))
    (line,) = host.step().to_agent
    assert json.loads(line) == {
        "jsonrpc": "2.0",
        "id": "rekindle-1",
        "method": "x",
        "params": {"a": 1},
    }
    assert host.scheduler.is_awaiting_agent
    assert host.reply({"id": "rekindle-1", "result": 5})
    assert host.results[0] is not None
    assert not host.scheduler.is_awaiting_agent
    assert not host.reply({"id": "rekindle-1", "result": 5})


def test_ids_of_calls_contain_the_token() -> None:
    host = Host("abc")
    host.start(one(CallAgent("x", {})))
    assert json.loads(host.step().to_agent[0])["id"] == "rekindle-abc-1"


def test_an_error_of_the_agent_is_part_of_its_reply(host: Host) -> None:
    host.start(one(CallAgent("x", {})))
    host.reply({"id": "rekindle-1", "error": {"code": 5, "message": "no"}})
    (result,) = host.results
    assert isinstance(result, dict)
    reply = result["got"]
    assert isinstance(reply, AgentReply)
    assert reply.error == {"code": 5, "message": "no"}


def test_a_forwarded_request_keeps_the_id_of_the_client(host: Host) -> None:
    host.start(one(ForwardRequest("x", b'{"id":7}')))
    assert host.step().to_agent == [b'{"id":7}']
    assert host.scheduler.is_awaiting_agent
    assert host.reply({"id": 7, "result": None})
    assert host.results


def test_a_call_to_a_dead_agent_fails_at_once(host: Host) -> None:
    host.conn.agent.exit(EXIT)
    host.start(one(CallAgent("x", {})))
    (result,) = host.results
    assert isinstance(result, dict)
    assert result["got"].error == EXIT.error("x")


def test_a_call_without_an_answer_times_out_and_a_late_answer_is_ignored(host: Host) -> None:
    host.step(100)
    host.start(one(CallAgent("x", {}, 50)))
    assert host.scheduler.next_deadline_us == 150
    host.step(149)
    host.scheduler.tick()
    assert host.results == []
    host.step(150)
    host.scheduler.tick()
    assert host.results == [{"got": AgentReply(error=NO_RESPONSE)}]
    assert host.reply({"id": "rekindle-1", "result": 1})
    assert not host.reply({"id": "rekindle-1", "result": 1})


def test_a_pause_ends_with_its_time(host: Host) -> None:
    host.start(one(Pause(10)))
    assert host.scheduler.next_deadline_us == 10
    host.step(10)
    host.scheduler.tick()
    assert host.results == [{"got": None}]
    assert host.scheduler.next_deadline_us is None


def test_a_flow_waits_for_the_end_of_a_turn(host: Host) -> None:
    live = host.conn.bind("s1", "s1")
    live.turn.report_state(is_idle=False)
    host.start(one(WaitForTurnEnd("s1", 10)))
    host.scheduler.continue_waiting()
    assert host.results == []
    live.turn.report_state(is_idle=True)
    host.scheduler.continue_waiting()
    assert host.results == [{"got": None}]


def test_a_flow_does_not_wait_where_no_turn_runs(host: Host) -> None:
    host.start(one(WaitForTurnEnd("s1", 10)))
    assert host.results == [{"got": None}]


def test_an_exit_answers_all_calls(host: Host) -> None:
    host.start(one(CallAgent("x", {})))
    host.start(one(ForwardRequest("y", b"{}")))
    host.conn.agent.exit(EXIT)
    host.scheduler.agent_exited()
    assert [result["got"].error for result in host.results if isinstance(result, dict)] == [
        EXIT.error("x"),
        EXIT.error("y"),
    ]


def fail() -> Flow:
    raise RuntimeError("a fault")
    yield


def refuse() -> Flow:
    raise Refusal(5, "no")
    yield


@pytest.mark.parametrize(("flow", "message"), [(fail, "a bug in Rekindle"), (refuse, "no")])
def test_a_flow_that_raises_refuses_the_request(
    host: Host, flow: Callable[[], Flow], message: str
) -> None:
    host.start(flow())
    (refusal,) = host.results
    assert isinstance(refusal, Refusal)
    assert refusal.message.startswith(message)
    assert len(host.step().reports) == (flow is fail)


def test_a_fault_in_an_action_refuses_the_request(host: Host) -> None:
    host.fault = RuntimeError("a fault")
    host.start(one(SendToClient([])))
    (refusal,) = host.results
    assert isinstance(refusal, Refusal)
    assert not host.scheduler.running
