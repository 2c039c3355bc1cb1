import pytest

from engine_pair import EnginePair

TEXT = {"type": "text", "text": "Hi"}


def adopting(method: str, *offered: str) -> EnginePair:
    pair = EnginePair()
    pair.do_agent(" ".join(["Fake", *offered]))
    pair.request(1, method, sessionId="theirs", cwd="/p", mcpServers=[])
    return pair


def replay(pair: EnginePair) -> list[object]:
    """Let the agent replay one turn; return the messages that the client received."""
    return [
        *pair.update("theirs", "user_message_chunk", content=TEXT).to_client,
        *pair.update("theirs", "agent_message_chunk", content=TEXT).to_client,
    ]


@pytest.mark.parametrize(("method", "is_seen"), [("session/load", True), ("session/resume", False)])
def test_an_adopted_session_is_recorded_and_a_load_shows_it(method: str, *, is_seen: bool) -> None:
    pair = adopting(method, "load")
    assert bool(replay(pair)) is is_seen
    result = pair.reply("rekindle-1", {}).result
    assert result["_meta"]["rekindle"]["restored"] == "native"
    assert pair.record.store.session("theirs").turns == 1


def test_a_session_that_no_agent_has_is_unknown() -> None:
    pair = EnginePair()
    pair.do_agent("Fake")
    sent = pair.request(1, "session/load", sessionId="theirs", cwd="/p", mcpServers=[])
    assert sent.error["code"] == -32002


def test_a_refused_session_leaves_no_record() -> None:
    pair = adopting("session/load", "load")
    assert pair.fail("rekindle-1", message="who?").error["message"].endswith("who?")
    assert pair.record.store.known_ids(["theirs"]) == set()


def test_an_empty_session_counts_if_the_agent_lists_it() -> None:
    pair = adopting("session/load", "load", "list")
    pair.reply("rekindle-1", {})
    for _ in range(10):
        listed = pair.wait(0.1)
    assert listed.call["method"] == "session/list"
    answered = pair.reply("rekindle-2", {"sessions": [{"sessionId": "theirs", "cwd": "/p"}]})
    assert answered.response["id"] == 1
    assert "result" in answered.response


def test_the_demand_to_sign_in_reaches_the_client() -> None:
    pair = adopting("session/load", "load")
    assert pair.fail("rekindle-1", code=-32000, message="sign in").error["code"] == -32000
