import pytest

from engine_pair import EnginePair, Sent, recorded_session
from rekindle.model import AgentIdentity, Counted, LeaseHolder, LeaseResult
from rekindle.proxy.connection_state import AgentState, ConnectionState, EngineSettings
from rekindle.proxy.flow import AcquireLease, AgentReply, IsAgentGone, Pause, Refusal, ReleaseLease
from rekindle.proxy.handlers.restore import acquire_lease, is_same_agent, names_another_session
from rekindle.proxy.live_session import MemoryState

TEXT = {"type": "text", "text": "Hi"}


def resume(pair: EnginePair) -> Sent:
    return pair.request(1, "session/resume", sessionId="s1", cwd="/p")


def how(sent: Sent) -> str:
    return sent.result["_meta"]["rekindle"]["restored"]


def test_the_ladder_goes_from_resume_to_load_to_a_handover() -> None:
    pair = recorded_session("resume", "load")
    assert resume(pair).call["method"] == "session/resume"
    assert pair.fail("rekindle-1").call["method"] == "session/load"
    assert pair.fail("rekindle-2").call["method"] == "session/new"
    assert how(pair.reply("rekindle-3", {"sessionId": "a2"})) == "handover"


def test_an_agent_that_may_have_lost_turns_is_asked_for_a_replay_first() -> None:
    pair = recorded_session("resume", "load")
    pair.record.store.write([Counted(session_id="s1", at_us=1, turns=1)])
    assert resume(pair).call["method"] == "session/load"
    assert pair.fail("rekindle-1").call["method"] == "session/resume"
    assert how(pair.reply("rekindle-2", {})) == "native"


def test_a_load_that_replays_nothing_is_not_believed() -> None:
    pair = recorded_session("load")
    resume(pair)
    pair.reply("rekindle-1", {})
    for _ in range(10):
        sent = pair.wait(0.1)
    assert sent.call["method"] == "session/new"


def test_an_endless_list_does_not_show_a_session() -> None:
    pair = recorded_session("load", "list")
    resume(pair)
    sent = pair.reply("rekindle-1", {})
    for _ in range(10):
        sent = pair.wait(0.1)
    pages = 0
    while sent.call["method"] == "session/list":
        pages += 1
        result = {"sessions": [], "nextCursor": f"page {pages}"}
        sent = pair.reply(sent.call["id"], result)
    assert (sent.call["method"], pages) == ("session/new", 20)


def test_a_load_that_replays_late_is_believed() -> None:
    pair = recorded_session("load")
    resume(pair)
    pair.reply("rekindle-1", {})
    pair.wait(0.1)
    pair.update("s1", "user_message_chunk", content={"type": "text", "text": "Hello 0"})
    pair.update("s1", "agent_message_chunk", content=TEXT)
    for _ in range(6):
        sent = pair.wait(0.1)
    assert how(sent) == "native"


def test_a_response_that_names_another_session_is_not_believed() -> None:
    assert names_another_session(AgentReply(result={"sessionId": "x"}), "s1")
    assert not names_another_session(AgentReply(result={"sessionId": "s1"}), "s1")
    assert not names_another_session(AgentReply(result={}), "s1")


def test_a_session_used_by_another_process_is_handed_over() -> None:
    pair = EnginePair()
    pair.do_agent("Fake resume")
    pair.do_open("s1")
    pair.do_said("s1 Hello | Hi")
    pair.do_held("s1")
    pair.do_freed("s1")
    sent = pair.request(5, "session/prompt", sessionId="s1", prompt=[TEXT])
    assert sent.call["method"] == "session/new"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("A", "x"), ("A", "y"), True),
        (("A", "x"), ("B", "x"), False),
        (("@zed-industries/claude-code-acp", "x"), ("@new/claude-agent-acp", "y"), True),
        ((None, "/bin/x"), ("A", "x"), True),
        ((None, "x"), (None, "y"), False),
        ((None, "/bin/claude-code-acp"), ("@new/claude-agent-acp", "npx"), True),
    ],
)
def test_agents_are_compared_by_name_and_otherwise_by_program(
    one: tuple[str | None, str], other: tuple[str | None, str], *, expected: bool
) -> None:
    agents = [AgentIdentity(name=name, command=(program,)) for name, program in (one, other)]
    assert is_same_agent(*agents) is expected
    assert is_same_agent(*reversed(agents)) is expected


def test_an_exit_while_restoring_fails_the_request_and_the_next_one_tries_again() -> None:
    pair = recorded_session("resume")
    resume(pair)
    assert "agentEnded" in pair.exit().error["data"]
    again = resume(pair)
    assert again.call["method"] == "initialize"


# -- the agent of a process that has died -------------------------------------------------------

FORMER = LeaseHolder(token="t", pid=7, machine="here", agent_group=99)  # noqa: S106 - no password
RUNS, GONE = False, True
DIED = LeaseResult(was_held_by_another=True, epoch=2, former=FORMER)


def connection() -> ConnectionState:
    agent = AgentState(identity=AgentIdentity())
    return ConnectionState(settings=EngineSettings(), agent=agent)


def test_the_agent_of_a_dead_process_is_waited_for() -> None:
    flow = acquire_lease(connection(), "s1")
    assert next(flow) == AcquireLease("s1")
    assert flow.send(DIED) == IsAgentGone(FORMER)
    assert isinstance(flow.send(RUNS), Pause)
    assert flow.send(None) == IsAgentGone(FORMER)
    with pytest.raises(StopIteration):
        flow.send(GONE)


def test_an_agent_that_outlives_its_process_is_not_waited_for_twice() -> None:
    conn = connection()
    live = conn.bind("s1", "a1")
    flow = acquire_lease(conn, "s1")
    next(flow)
    effect, waited_us = flow.send(DIED), 0
    while isinstance(effect, IsAgentGone):
        pause = flow.send(RUNS)
        waited_us += pause.us
        effect = flow.send(None)
    # Without the lease, the next attempt finds no former holder.
    assert (effect, waited_us) == (ReleaseLease("s1"), 10_000_000)
    with pytest.raises(Refusal, match="process 7 on here, whose agent still runs: end it"):
        flow.send(None)
    assert live.memory.state is MemoryState.OUTDATED


def test_the_agent_of_a_process_that_lives_is_not_waited_for() -> None:
    flow = acquire_lease(connection(), "s1", may_take_over=True)
    assert next(flow) == AcquireLease("s1")
    # It is asked to release the session, if it can be asked.
    assert flow.send(LeaseResult(holder=FORMER)) == AcquireLease("s1", may_take_over=True)
    taken = LeaseResult(was_held_by_another=True, epoch=2, former=FORMER, is_former_alive=True)
    with pytest.raises(StopIteration):
        flow.send(taken)
