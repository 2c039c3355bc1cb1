import pytest

from engine_pair import EnginePair

TEXT = [{"type": "text", "text": "Hello"}]


def pair(client: int, agent: int) -> EnginePair:
    made = EnginePair()
    made.do_speaks(f"{client} {agent}")
    made.do_agent("Fake")
    made.do_open("s1")
    return made


@pytest.mark.parametrize(("client", "agent"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_a_client_of_either_version_learns_how_an_interrupted_turn_ended(
    client: int, agent: int
) -> None:
    made = pair(client, agent)
    sent = made.request(5, "session/prompt", sessionId="s1", prompt=TEXT)
    if agent == 2:
        made.reply(sent.call["id"], {"messageId": "m"})
        made.update("s1", "state_update", state="running")
    exited = made.exit()
    title, message = exited.to_client
    assert title["params"]["update"]["title"] == "Hello"
    if client == 1:
        assert message["error"]["data"]["agentEnded"] is True
    else:
        update = message["params"]["update"]
        assert (update["state"], update["stopReason"]) == ("idle", "error")
    assert any("agent answer" in line for line in exited.recorded)


def test_a_version_1_client_of_a_version_2_agent_gets_one_response() -> None:
    made = pair(1, 2)
    sent = made.request(5, "session/prompt", sessionId="s1", prompt=TEXT)
    assert made.reply(sent.call["id"], {"messageId": "m"}).to_client == []
    ended = made.update("s1", "state_update", state="idle", stopReason="end_turn")
    assert ended.to_client[-1] == {"jsonrpc": "2.0", "id": 5, "result": {"stopReason": "end_turn"}}


def test_a_title_is_announced_once_before_the_turn_ends() -> None:
    made = pair(1, 1)
    made.request(5, "session/prompt", sessionId="s1", prompt=TEXT)
    ended = made.reply(5, {"stopReason": "end_turn"})
    assert [it.get("id") for it in ended.to_client] == [None, 5]
    assert ended.to_client[0]["params"]["update"]["title"] == "Hello"
    made.request(6, "session/prompt", sessionId="s1", prompt=TEXT)
    assert len(made.reply(6, {"stopReason": "end_turn"}).to_client) == 1


def test_nothing_is_sent_to_a_dead_agent() -> None:
    made = pair(1, 1)
    made.exit()
    assert (
        made.from_client({"method": "session/cancel", "params": {"sessionId": "s1"}}).to_agent == []
    )
