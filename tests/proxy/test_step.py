from rekindle.proxy.step import AGENT, AgentExit, Peer, Step


def test_a_step_collects_the_lines_of_each_peer() -> None:
    step = Step()
    step.to(AGENT).append(b"one")
    step.to(Peer(1)).append(b"two")
    step.to(Peer(2)).append(b"three")
    step.to(Peer(1)).append(b"four")
    assert step.to_agent == [b"one"]
    assert step.to_clients == {1: [b"two", b"four"], 2: [b"three"]}


def test_two_steps_share_no_lists() -> None:
    one, other = Step(), Step()
    one.to(Peer(1)).append(b"x")
    one.to_agent.append(b"x")
    assert other == Step()


def test_an_exit_is_described_for_people_and_for_programs() -> None:
    exited = AgentExit(exit_code=3, signal=None, stderr_tail=("a", "b"))
    assert str(exited) == "the agent exited with 3"
    assert exited.error("session/prompt") == {
        "code": -32603,
        "message": "the agent exited with 3 before it answered session/prompt",
        "data": {"agentEnded": True, "exitCode": 3, "signal": None, "stderr": ["a", "b"]},
    }


def test_a_kill_names_the_signal() -> None:
    exited = AgentExit(exit_code=None, signal="SIGKILL", stderr_tail=())
    assert str(exited) == "the agent was killed by SIGKILL"
    assert exited.details["signal"] == "SIGKILL"
