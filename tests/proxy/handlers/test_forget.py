from engine_pair import EnginePair
from rekindle.errors import SessionNotFound
from rekindle.model import Archived, Session

TEXT = {"type": "text", "text": "Hello"}


def opened(*methods: str) -> EnginePair:
    pair = EnginePair()
    pair.do_agent(" ".join(["Fake", *methods]))
    pair.do_open("s1")
    return pair


def leave(pair: EnginePair) -> list[str]:
    pair.out.clear()
    pair.do_left("")
    return pair.out


def record_of(pair: EnginePair) -> Session | None:
    try:
        return pair.record.store.session("s1")
    except SessionNotFound:
        return None


def test_leaving_forgets_an_unused_session() -> None:
    pair = opened()
    assert leave(pair) == ["#  s1 forgotten, hidden", "#  sync"]
    assert record_of(pair) is None
    assert leave(pair) == []


def test_closing_forgets_an_unused_session_before_the_response() -> None:
    pair = opened("close")
    pair.request(1, "session/close", sessionId="s1")
    sent = pair.reply("rekindle-1", {})
    assert sent.recorded == ["s1 forgotten, hidden", "sync"]
    assert sent.result == {}


def test_a_used_session_is_kept() -> None:
    pair = opened()
    pair.do_said("s1 Hello | Hi")
    assert leave(pair) == []
    assert pair.request(1, "session/close", sessionId="s1").recorded == []


def test_a_session_that_the_user_archived_is_kept() -> None:
    pair = opened()
    pair.record.store.write([Archived(session_id="s1", at_us=1)])
    assert leave(pair) == []


def test_a_deleted_session_keeps_its_tombstone() -> None:
    pair = opened()
    assert pair.request(1, "session/delete", sessionId="s1").recorded == ["s1 deleted", "sync"]
    assert leave(pair) == []
    assert record_of(pair) is not None


def test_a_session_of_another_process_is_kept() -> None:
    pair = opened()
    pair.do_held("s1")
    assert leave(pair) == []


def test_a_session_that_a_flow_works_on_is_kept() -> None:
    pair = opened("fork")
    pair.request(1, "session/fork", sessionId="s1", cwd="/p")
    assert leave(pair) == ["*  waits 60 s at most"]
    sent = pair.reply("rekindle-1", {"sessionId": "f1"})
    assert sent.recorded[0] == "f1 forked from s1 at 2"
    assert record_of(pair) is not None


def test_a_session_whose_prompt_waits_for_the_agent_is_kept() -> None:
    pair = opened()
    pair.do_silent("")
    pair.request(1, "session/prompt", sessionId="s1", prompt=[TEXT])
    assert leave(pair) == []
    assert record_of(pair) is not None


def test_a_session_with_a_running_turn_is_kept() -> None:
    pair = opened()
    pair.request(1, "session/prompt", sessionId="s1", prompt=[TEXT])
    assert leave(pair) == []


def test_a_store_that_fails_keeps_the_session() -> None:
    pair = opened()
    pair.do_lost("")
    assert leave(pair) == []
    pair.do_found("")
    assert record_of(pair) is not None
    assert leave(pair) != []


def test_a_session_without_an_id_of_the_agent_is_forgotten() -> None:
    pair = opened()
    pair.exit()
    pair.request(1, "session/prompt", sessionId="s1", prompt=[TEXT])
    pair.reply("rekindle-1", {"protocolVersion": 1})
    assert pair.fail("rekindle-2").error["message"] == "no"
    assert leave(pair) == ["#  s1 forgotten, hidden", "#  sync"]


def test_an_erased_session_is_not_forgotten_again() -> None:
    pair = opened()
    pair.do_erased("s1")
    assert leave(pair) == []


def test_a_session_that_no_agent_knows_is_forgotten() -> None:
    pair = opened("load")
    pair.do_killed("")
    pair.do_agent("Fake load")
    pair.request(1, "session/load", sessionId="s1", cwd="/p", mcpServers=[])
    pair.fail("rekindle-1")
    pair.fail("rekindle-2")
    assert leave(pair) == []
    pair.request(2, "session/load", sessionId="s1", cwd="/p", mcpServers=[])
    pair.fail("rekindle-3")
    pair.reply("rekindle-4", {"sessionId": "a1"})
    # It was opened twice, so the agent's copy is not hidden.
    assert leave(pair) == ["#  s1 forgotten", "#  sync"]


def test_a_forgotten_session_can_be_created_again_under_its_id() -> None:
    pair = opened()
    pair.request(1, "session/close", sessionId="s1")
    pair.do_open("s1")
    assert record_of(pair) is not None
    sent = pair.request(2, "session/prompt", sessionId="s1", prompt=[TEXT])
    assert sent.call["params"]["sessionId"] == "s1"


def test_a_session_that_another_process_forgot_is_recorded_again_with_its_prompt() -> None:
    pair = opened()
    pair.do_erased("s1")
    sent = pair.request(1, "session/prompt", sessionId="s1", prompt=[TEXT])
    assert sent.recorded[0].startswith("s1 opened cwd=/p")
    session = record_of(pair)
    assert session is not None
    assert (session.cwd, session.turns) == ("/p", 1)
    assert pair.record.store.lease_holder("s1") == pair.holder
