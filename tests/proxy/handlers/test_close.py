from engine_pair import EnginePair, recorded_session

TEXT = {"type": "text", "text": "Hello"}


def opened(*methods: str) -> EnginePair:
    pair = EnginePair()
    pair.do_agent(" ".join(["Fake", *methods]))
    pair.do_open("s1")
    return pair


def test_closing_an_unknown_session_succeeds() -> None:
    assert opened().request(1, "session/close", sessionId="other").result == {}


def test_an_agent_that_can_close_is_asked_to() -> None:
    pair = opened("close")
    pair.do_said("s1 Hello | Hi")
    assert pair.request(1, "session/close", sessionId="s1").call["method"] == "session/close"
    assert pair.reply("rekindle-1", {}).result == {}
    assert pair.record.store.lease_holder("s1") is None


def test_a_closed_session_that_the_agent_keeps_is_live_again_after_a_load() -> None:
    pair = opened()
    pair.do_said("s1 Hello | Hi")
    pair.request(1, "session/close", sessionId="s1")
    sent = pair.request(2, "session/resume", sessionId="s1", cwd="/p")
    assert sent.result["_meta"]["rekindle"]["restored"] == "live"


def test_a_running_turn_is_cancelled_and_answered_before_the_close() -> None:
    pair = opened()
    pair.request(1, "session/prompt", sessionId="s1", prompt=[TEXT])
    assert pair.request(2, "session/close", sessionId="s1").call["method"] == "session/cancel"
    answered = pair.reply(1, {"stopReason": "cancelled"})
    assert [it.get("id") for it in answered.to_client if "id" in it] == [1, 2]


def test_a_turn_that_does_not_end_is_answered_for_the_agent() -> None:
    pair = opened()
    pair.request(1, "session/prompt", sessionId="s1", prompt=[TEXT])
    pair.request(2, "session/close", sessionId="s1")
    waited = pair.wait(10)
    assert waited.to_client[1]["result"] == {"stopReason": "cancelled"}
    assert waited.to_client[-1] == {"jsonrpc": "2.0", "id": 2, "result": {}}


def test_a_deleted_session_is_not_listed() -> None:
    pair = opened()
    pair.request(1, "session/delete", sessionId="s1")
    assert pair.request(2, "session/list").result == {"sessions": []}


def test_the_agent_deletes_only_its_own_session() -> None:
    pair = recorded_session("delete")
    assert pair.request(1, "session/delete", sessionId="s1").call["params"] == {"sessionId": "s1"}
    pair = recorded_session()
    pair.do_killed("")
    pair.do_agent("Other delete")
    assert pair.request(1, "session/delete", sessionId="s1").to_agent == []
