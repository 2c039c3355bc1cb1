import pytest

from engine_pair import EnginePair


@pytest.fixture
def pair() -> EnginePair:
    made = EnginePair()
    made.do_speaks("2 2")
    made.do_agent("Fake")
    made.do_open("s1")
    return made


@pytest.mark.parametrize(
    "cursor",
    [
        {"type": "unknown"},
        {"type": "_rekindle_turns"},
        {"type": "_rekindle_turns", "last": -1},
        {"type": "_rekindle_seq", "seq": True},
        {"type": "_rekindle_message", "messageId": "none"},
        "start",
    ],
)
def test_a_bad_cursor_is_refused_with_its_value(pair: EnginePair, cursor: object) -> None:
    sent = pair.request(1, "session/resume", sessionId="s1", cwd="/p", replayFrom=cursor)
    assert sent.error["code"] == -32602
    assert sent.error["data"] == {"field": "replayFrom", "value": cursor}


def test_a_bad_cursor_leaves_a_closed_session_closed(pair: EnginePair) -> None:
    pair.do_titled("s1 Mine")
    pair.request(1, "session/close", sessionId="s1")
    pair.reply("rekindle-1", {})
    cursor = {"type": "_rekindle_message", "messageId": "none"}
    pair.request(2, "session/resume", sessionId="s1", cwd="/p", replayFrom=cursor)
    pair.reply("rekindle-2", {})
    assert pair.record.store.lease_holder("s1") is None


def test_a_client_that_wants_it_receives_its_position_after_a_turn() -> None:
    pair = EnginePair()
    pair.do_speaks("2 2")
    meta = {"rekindle": {"seq": True}}
    hello = {"protocolVersion": 2, "info": {"name": "c", "version": "1"}}
    _, result = pair.initialize("Fake")
    pair.exchange("initialize", {**hello, "capabilities": {"_meta": meta}}, result)
    pair.do_open("s1")
    sent = pair.request(1, "session/prompt", sessionId="s1", prompt=[])
    pair.reply(sent.call["id"], {"messageId": "m"})
    pair.update("s1", "state_update", state="running")
    ended = pair.update("s1", "state_update", state="idle", stopReason="end_turn").to_client
    last = pair.record.store.session("s1").last_seq
    assert ended[-1]["params"]["update"]["_meta"] == {"rekindle": {"seq": last + 1}}
