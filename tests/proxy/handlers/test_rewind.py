"""`session/rewind` and `session/edit_prompt`. The transcripts `rewind-*` have more."""

from typing import Any

import pytest

from engine_pair import EnginePair, Sent
from rekindle.model import UNKNOWN_TO_AGENT, Session, SessionStatus
from rekindle.store.base import StoreHooks
from rekindle.store.memory import MemoryStore
from rekindle.transcript.reducer import fold, turn_has_ended

Json = dict[str, Any]


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def say(pair: EnginePair, words: str, name: str, agent_id: str = "s1") -> None:
    pair.update(agent_id, "agent_message_chunk", messageId=name, content=text(words))


def take_turn(pair: EnginePair, number: int, agent_id: str = "s1") -> None:
    """Take a turn: the prompt `P<number>`, and the answer `A<number>` with the id `m<number>`."""
    pair.request(100 + number, "session/prompt", sessionId="s1", prompt=[text(f"P{number}")])
    say(pair, f"A{number}", f"m{number}", agent_id)
    pair.reply(100 + number, {"stopReason": "end_turn"})


def open_session(*offered: str, flags: str = "", turns: int = 3) -> EnginePair:
    """Return an engine with an open session."""
    pair = EnginePair()
    if flags:
        pair.do_with(flags)
    pair.do_agent(" ".join(["Fake", *offered]))
    pair.do_open("s1")
    for number in range(1, turns + 1):
        take_turn(pair, number)
    return pair


def rewound(sent: Sent) -> Json:
    """Return the result of a rewind, which follows the update."""
    truncated, response = sent.to_client
    update = truncated["params"]["update"]
    assert update["sessionUpdate"] == "history_truncated"
    assert update["lastMessageId"] == response["result"]["lastMessageId"]
    result: Json = response["result"]
    return result


def stored(pair: EnginePair) -> Session:
    return pair.record.store.session("s1")


def texts(pair: EnginePair) -> list[str]:
    transcript = fold(pair.record.store.read("s1"))
    return [message.text for turn in transcript.turns for message in turn.messages]


def test_the_record_keeps_the_removed_part() -> None:
    pair = open_session()
    before = [entry.line for entry in pair.record.store.read("s1")]
    pair.request(1, "session/rewind", sessionId="s1", toMessageId="m1")
    after = [entry.line for entry in pair.record.store.read("s1")]
    assert after[: len(before)] == before
    assert len(after) == len(before) + 1
    assert texts(pair) == ["P1", "A1"]
    assert (stored(pair).turns, stored(pair).messages) == (1, 2)
    assert stored(pair).agent_session_id == UNKNOWN_TO_AGENT


def test_an_agent_that_has_exited_is_not_started_for_a_rewind() -> None:
    pair = open_session("close", "rewind")
    pair.exit()
    sent = pair.request(1, "session/rewind", sessionId="s1", toMessageId="m1")
    assert sent.to_agent == []
    assert rewound(sent) == {
        "lastMessageId": "m1",
        "_meta": {"rekindle": {"restored": "handover"}},
    }


def test_an_agent_that_exits_during_its_own_rewind_receives_the_history() -> None:
    pair = open_session("rewind")
    pair.request(1, "session/rewind", sessionId="s1", toMessageId="m1")
    assert rewound(pair.exit())["_meta"]["rekindle"]["restored"] == "handover"
    assert texts(pair) == ["P1", "A1"]


def test_without_handover_only_the_agent_itself_can_rewind() -> None:
    pair = open_session(flags="no-handover")
    error = pair.request(1, "session/rewind", sessionId="s1", toMessageId="m1").error
    assert "--no-handover" in error["message"]
    assert len(texts(pair)) == 6
    # The agent forgets everything in a new session, and no history is left to hand over.
    sent = pair.request(2, "session/edit_prompt", **edited("rekindle-3"))
    assert sent.to_agent[-1]["method"] == "session/new"


def edited(message_id: str, words: str = "New") -> Json:
    return {"sessionId": "s1", "messageId": message_id, "content": [text(words)]}


def test_an_agent_that_does_not_end_its_turn_gets_another_session() -> None:
    pair = open_session("close", "rewind")
    pair.request(4, "session/prompt", sessionId="s1", prompt=[text("P4")])
    say(pair, "Wor", "m4")
    sent = pair.request(1, "session/rewind", sessionId="s1", toMessageId="m2")
    assert [it["method"] for it in sent.to_agent] == ["session/cancel"]
    sent = pair.wait(10)
    assert {"id": 4, "result": {"stopReason": "cancelled"}}.items() <= sent.to_client[0].items()
    # It is not asked to rewind: it still works on the turn.
    assert [it["method"] for it in sent.to_agent] == ["session/close"]
    sent = pair.reply(sent.to_agent[0]["id"], {})
    assert rewound(sent)["_meta"]["rekindle"]["restored"] == "handover"
    assert texts(pair) == ["P1", "A1", "P2", "A2"]
    assert pair.update("s1", "agent_message_chunk", content=text("late")).to_client == []


def test_queued_prompts_are_answered_as_cancelled() -> None:
    pair = EnginePair()
    pair.do_speaks("2 1")
    pair.do_agent("Fake")
    pair.do_open("s1")
    for number in (4, 5):
        pair.request(number, "session/prompt", sessionId="s1", prompt=[text(f"P{number}")])
    sent = pair.request(1, "session/rewind", sessionId="s1", toMessageId="rekindle-4-1")
    assert [it.get("id") for it in sent.to_client] == [5]
    assert sent.to_client[0]["error"]["code"] == -32800


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_session_that_is_gone_cannot_be_rewound(*, is_deleted: bool) -> None:
    pair = open_session()
    pair.request(4, "session/prompt", sessionId="s1", prompt=[text("P4")])
    pair.request(1, "session/rewind", sessionId="s1", toMessageId="m1")
    if is_deleted:
        pair.do_deleted("s1")
    else:
        pair.do_erased("s1")
        # The end of the turn would create the session again.
        pair.record.store.write = lambda *_, **__: None  # type: ignore[method-assign]
    error = pair.reply(4, {"stopReason": "cancelled"}).to_client[-1]["error"]
    assert (error["code"], error["data"]) == (-32002, {"sessionId": "s1"})


def test_another_process_keeps_the_session() -> None:
    pair = open_session()
    pair.do_held("s1")
    error = pair.request(1, "session/rewind", sessionId="s1", toMessageId="m1").error
    assert "in use by process 7" in error["message"]
    assert len(texts(pair)) == 6


def test_a_session_that_was_interrupted_counts_as_ended() -> None:
    pair = EnginePair()
    pair.record.store = MemoryStore(StoreHooks(turn_has_ended=turn_has_ended))
    pair.do_agent("Fake load")
    pair.do_open("s1")
    take_turn(pair, 1)
    pair.request(2, "session/prompt", sessionId="s1", prompt=[text("P2")])
    say(pair, "Wor", "m2")
    pair.do_killed("")
    pair.do_agent("Fake")
    assert pair.record.store.statuses(["s1"]) == {"s1": SessionStatus.INTERRUPTED}
    pair.request(3, "session/load", sessionId="s1", cwd="/p", mcpServers=[])
    pair.reply("rekindle-1", {"sessionId": "a2"})
    pair.request(1, "session/rewind", sessionId="s1", toMessageId="m1")
    pair.request(9, "session/close", sessionId="s1")
    assert pair.record.store.statuses(["s1"]) == {"s1": SessionStatus.IDLE}
    assert texts(pair) == ["P1", "A1"]


def test_a_session_that_was_edited_to_nothing_is_not_forgotten() -> None:
    pair = open_session(turns=1)
    pair.request(1, "session/edit_prompt", **edited("rekindle-3"))
    # The agent cannot create a session, so the new prompt is refused.
    error = pair.fail("rekindle-1").error
    assert error["message"] == "no"
    assert stored(pair).turns == 0
    pair.request(2, "session/close", sessionId="s1")
    assert stored(pair).last_seq > 0


# -- the agent's own rewind ---------------------------------------------------------------------


def test_the_agents_ids_are_used_after_a_handover() -> None:
    pair = open_session("rewind", turns=1)
    pair.do_killed("")
    pair.do_agent("Fake rewind")
    pair.request(3, "session/load", sessionId="s1", cwd="/p", mcpServers=[])
    pair.reply("rekindle-1", {"sessionId": "a2"})
    pair.request(4, "session/prompt", sessionId="s1", prompt=[text("P3")])
    say(pair, "again", "m1", "a2")
    pair.reply(4, {"stopReason": "end_turn"})
    pair.request(5, "session/prompt", sessionId="s1", prompt=[text("P4")])
    pair.reply(5, {"stopReason": "end_turn"})
    shown = [it.id for it in fold(pair.record.store.read("s1")).turns[-2].messages]
    (renamed,) = [it for it in shown if it is not None and it.startswith("m1~")]
    sent = pair.request(6, "session/rewind", sessionId="s1", toMessageId=renamed)
    (asked,) = sent.to_agent
    assert asked["params"] == {"sessionId": "a2", "toMessageId": "m1"}
    result = rewound(pair.reply(asked["id"], {"lastMessageId": "m1"}))
    assert result == {"lastMessageId": renamed, "_meta": {"rekindle": {"restored": "native"}}}


def replay(pair: EnginePair, *numbers: int) -> None:
    for number in numbers:
        pair.update("s1", "user_message_chunk", content=text(f"P{number}"))
        say(pair, f"A{number}", f"m{number}")


@pytest.mark.parametrize("has_forgotten", [True, False])
def test_an_agent_that_has_lost_its_rewind_is_not_trusted(*, has_forgotten: bool) -> None:
    pair = open_session("load", "rewind")
    pair.do_saved("s1")
    pair.request(1, "session/rewind", sessionId="s1", toMessageId="m1")
    pair.reply("rekindle-1", {"lastMessageId": "m1"})
    pair.do_killed("")
    pair.do_agent("Fake load rewind")
    pair.request(2, "session/load", sessionId="s1", cwd="/p", mcpServers=[])
    replay(pair, *([1] if has_forgotten else [1, 2, 3]))
    sent = pair.reply("rekindle-1", {})
    if not has_forgotten:
        assert [it["method"] for it in sent.to_agent] == ["session/new"]
        sent = pair.reply(sent.to_agent[0]["id"], {"sessionId": "a2"})
    how = "native" if has_forgotten else "handover"
    assert sent.to_client[-1]["result"]["_meta"]["rekindle"]["restored"] == how
    assert texts(pair) == ["P1", "A1"]


def test_turns_made_elsewhere_are_only_added_at_the_end_of_a_rewound_session() -> None:
    pair = open_session("load", "rewind")
    pair.request(1, "session/rewind", sessionId="s1", toMessageId="m2")
    pair.reply("rekindle-1", {"lastMessageId": "m2"})
    pair.do_killed("")
    pair.do_agent("Fake load rewind")
    pair.request(2, "session/load", sessionId="s1", cwd="/p", mcpServers=[])
    replay(pair, 1, 8, 2, 9)
    pair.reply("rekindle-1", {})
    assert texts(pair) == ["P1", "A1", "P2", "A2", "P9", "A9"]


def test_a_rewind_that_the_agent_makes_by_itself_is_recorded() -> None:
    pair = open_session()
    sent = pair.update("s1", "history_truncated", lastMessageId="m1")
    assert sent.to_client[0]["params"]["update"]["lastMessageId"] == "m1"
    assert texts(pair) == ["P1", "A1"]


# -- version 1 clients --------------------------------------------------------------------------


def test_a_version_1_client_names_a_message_by_the_id_that_it_knows() -> None:
    pair = EnginePair()
    pair.do_speaks("1 2")
    pair.do_agent("Fake")
    pair.do_open("s1")
    pair.request(4, "session/prompt", sessionId="s1", prompt=[text("P1")])
    pair.reply("rekindle-prompt-1", {"messageId": "u1"})
    for words in ("one", "two"):
        pair.update("s1", "agent_message", messageId="m1", content=[text(words)])
    say(pair, "later", "m2")
    pair.update("s1", "state_update", state="idle", stopReason="end_turn")
    pair.request(1, "session/rewind", sessionId="s1", toMessageId="m1~1")
    sent = pair.reply("rekindle-1", {})
    assert rewound(sent)["lastMessageId"] == "m1~1"
    assert texts(pair) == ["P1", "two"]


# -- version 2 clients --------------------------------------------------------------------------


def v2_session() -> EnginePair:
    """Return a version 1 agent's session, open at a version 2 client."""
    pair = EnginePair()
    pair.do_speaks("2 1")
    pair.do_agent("Fake")
    pair.do_open("s1")
    return pair


def plan(words: str) -> Json:
    return {"entries": [{"content": words, "priority": "low", "status": "pending"}]}


@pytest.mark.parametrize("has_earlier", [False, True])
def test_the_remaining_plan_is_shown_again(*, has_earlier: bool) -> None:
    pair = v2_session()
    for number in (1, 2):
        pair.request(number, "session/prompt", sessionId="s1", prompt=[text(f"P{number}")])
        if number == 1 and has_earlier:
            pair.update("s1", "plan", **plan("first"))
        say(pair, f"A{number}", f"m{number}")
        if number == 2:
            pair.update("s1", "plan", **plan("second"))
        pair.reply(f"rekindle-prompt-{number}", {"stopReason": "end_turn"})
    sent = pair.request(3, "session/rewind", sessionId="s1", toMessageId="m2")
    _, *plans, _ = [it.get("params", {}).get("update") for it in sent.to_client]
    shown = [update["plan"]["entries"][0]["content"] for update in plans]
    assert shown == (["first"] if has_earlier else [])


def test_a_client_that_comes_back_learns_of_a_rewind() -> None:
    pair = v2_session()
    for number in (1, 2):
        pair.request(number, "session/prompt", sessionId="s1", prompt=[text(f"P{number}")])
        say(pair, f"A{number}", f"m{number}")
        pair.reply(f"rekindle-prompt-{number}", {"stopReason": "end_turn"})
    seq = stored(pair).last_seq + 1
    pair.request(3, "session/rewind", sessionId="s1", toMessageId="m1")
    pair.do_killed("")
    pair.do_agent("Fake")
    cursor = {"type": "_rekindle_seq", "seq": seq}
    pair.request(4, "session/resume", sessionId="s1", cwd="/p", replayFrom=cursor)
    sent = pair.reply("rekindle-1", {"sessionId": "a2"})
    first, *_ = [it["params"]["update"] for it in sent.to_client if "params" in it]
    assert first == {"sessionUpdate": "history_truncated", "lastMessageId": "m1"}


# -- ids that are used again --------------------------------------------------------------------


def test_a_tool_call_with_the_id_of_a_removed_one_is_new() -> None:
    pair = EnginePair()
    pair.do_speaks("1 2")
    pair.do_agent("Fake rewind")
    pair.do_open("s1")
    for number in (1, 2):
        pair.request(number, "session/prompt", sessionId="s1", prompt=[text(f"P{number}")])
        pair.reply(f"rekindle-prompt-{number}", {"messageId": f"u{number}"})
        say(pair, f"A{number}", f"m{number}")
        if number == 2:
            content = {"type": "content", "content": text("old")}
            pair.update("s1", "tool_call_content_chunk", toolCallId="c", content=content)
        pair.update("s1", "state_update", state="idle", stopReason="end_turn")
    pair.request(3, "session/rewind", sessionId="s1", toMessageId="m1")
    pair.reply("rekindle-1", {"lastMessageId": "m1"})
    pair.request(4, "session/prompt", sessionId="s1", prompt=[text("P3")])
    pair.reply("rekindle-prompt-3", {"messageId": "u3"})
    content = {"type": "content", "content": text("new")}
    sent = pair.update("s1", "tool_call_content_chunk", toolCallId="c", content=content)
    update = sent.response["params"]["update"]
    assert (update["sessionUpdate"], update["content"]) == ("tool_call", [content])
