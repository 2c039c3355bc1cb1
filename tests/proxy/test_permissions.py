import pytest
from shared_session import SharedSession

from engine_pair import EnginePair
from rekindle.proxy.peers import NO_CLIENT

PROMPT = [{"type": "text", "text": "Hello"}]
YES = {"outcome": {"outcome": "selected", "optionId": "y"}}


def asked() -> EnginePair:
    """Return a session of two clients in which the agent asks for permission."""
    pair = EnginePair()
    pair.do_agent("Fake load")
    pair.do_open("s1")
    pair.do_comes("d 1")
    pair.play(
        'd> {"id":1,"method":"session/load","params":{"sessionId":"s1","cwd":"/p","mcpServers":[],'
        '"_meta":{"rekindle":{"permissions":true}}}}'
    )
    pair.request(1, "session/prompt", sessionId="s1", prompt=PROMPT)
    pair.from_agent(
        {
            "id": 7,
            "method": "session/request_permission",
            "params": {"sessionId": "s1", "toolCall": {"toolCallId": "t"}, "options": []},
        }
    )
    return pair


def test_an_exit_of_the_agent_withdraws_the_request_from_all_clients() -> None:
    pair = asked()
    pair.exit()
    withdrawn = [line for line in pair.out if "$/cancel_request" in line]
    assert [line.split()[0] for line in withdrawn] == ["<c", "<d"]


def test_the_agent_can_withdraw_its_request_from_all_clients() -> None:
    pair = asked()
    pair.out.clear()
    pair.from_agent({"method": "$/cancel_request", "params": {"requestId": 7}})
    assert [line.split()[0] for line in pair.out] == ["<c", "<d"]


@pytest.mark.parametrize("canceller", ["c", "d"])
def test_a_cancel_by_a_client_that_was_asked_leaves_the_answer_to_it(canceller: str) -> None:
    pair = asked()
    pair.out.clear()
    pair.play(f'{canceller}> {{"method":"session/cancel","params":{{"sessionId":"s1"}}}}')
    assert not [line for line in pair.out if '"outcome"' in line]


def test_a_cancel_by_a_client_that_was_not_asked_answers_the_request() -> None:
    pair = asked()
    pair.do_comes("e 1")
    pair.play(
        'e> {"id":1,"method":"session/load","params":{"sessionId":"s1","cwd":"/p","mcpServers":[]}}'
    )
    pair.out.clear()
    pair.play('e> {"method":"session/cancel","params":{"sessionId":"s1"}}')
    assert [line for line in pair.out if line.startswith("<a") and '"cancelled"' in line]
    assert len([line for line in pair.out if "$/cancel_request" in line]) == 2


def test_the_second_answer_is_not_recorded() -> None:
    pair = asked()
    assert pair.from_client({"id": 7, "result": YES}).recorded == ["s1 client outcome"]
    pair.out.clear()
    pair.play('d> {"id":7,"result":{"outcome":{"outcome":"cancelled"}}}')
    assert [line for line in pair.out if line[:2] in {"# ", "<a", "<c", "<d"}] == []


def test_a_session_waits_for_the_user_while_its_turn_needs_permission() -> None:
    session = SharedSession(1)
    engine = session.engine
    client = session.clients["c"]
    assert not engine.is_waiting_for_user
    assert engine.is_attended_without(NO_CLIENT)
    assert not engine.is_attended_without(client)
    session.prompt("c")
    assert not engine.is_waiting_for_user
    session.ask()
    assert engine.is_waiting_for_user
    (question,) = session.models["c"].questions
    session.answer("c", question, {"result": {"outcome": {"outcome": "cancelled"}}})
    assert not engine.is_waiting_for_user
