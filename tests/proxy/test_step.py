from rekindle.proxy.peers import Peer
from rekindle.proxy.step import AgentExit, Step


def test_two_steps_share_no_lists() -> None:
    one, other = Step(), Step()
    one.to_clients[Peer(1)] = [b"x"]
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
