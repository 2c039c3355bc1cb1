"""Judges of turns and replays are seen to fail, on talks made by hand, and to let good ones be."""

import pytest

from by_hand import (
    TOLD,
    Case,
    Judge,
    S,
    answered,
    ask,
    came,
    chunk,
    had,
    heard,
    no,
    ok,
    opened,
    see,
    state,
    update,
    v1,
    v2,
)
from rekindle.check import telling
from rekindle.check.judges import replays, turns
from rekindle.check.judges.turns import Turn

CASES: list[Case] = [
    # Turns.
    ("no reason", v1(turns.no_reason), had(), had(answer=ok(1))),
    ("odd reason", v1(turns.no_reason), had(), had(answer=ok(1, stopReason="error"))),
    (
        "odd reason of v2",
        v2(turns.no_reason),
        had(end=state("idle", stopReason="error")),
        had(end=state("idle", stopReason="bored")),
    ),
    ("never running", turns.bad_states, had(state("running"), state("idle")), had(state("idle"))),
    ("not idle", turns.bad_states, had(state("running"), state("idle")), had(state("running"))),
    (
        "odd state",
        turns.bad_states,
        had(state("running"), state("_on"), state("idle")),
        had(state("running"), state("on"), state("idle")),
    ),
    (
        "no message id",
        turns.bad_insertion,
        had(chunk("user", "a", messageId="u"), answer=ok(1, messageId="u")),
        had(answer=ok(1)),
    ),
    (
        "another message id",
        turns.bad_insertion,
        had(chunk("user", "a", messageId="u"), answer=ok(1, messageId="u")),
        had(chunk("user", "a", messageId="v"), answer=ok(1, messageId="u")),
    ),
    (
        "late",
        lambda it: turns.late_updates(it, S, "the end"),
        [state("idle"), chunk("agent", "a", "ses_2")],
        [chunk("agent", "a")],
    ),
    (
        "one id, two roles",
        lambda it: turns.shared_message_ids(it, 1),
        [had(chunk("agent", "a", messageId="1"), chunk("agent", "b", messageId="1"))],
        [had(chunk("user", "a", messageId="1"), chunk("agent", "b", messageId="1"))],
    ),
    (
        "one id, two turns",
        lambda it: turns.shared_message_ids(it, 1),
        [had(chunk("agent", "a")), had(chunk("agent", "a"))],
        [had(chunk("agent", "a", messageId="1")), had(chunk("agent", "a", messageId="1"))],
    ),
    (
        "no id in v2",
        lambda it: turns.shared_message_ids(it, 2),
        [had(chunk("agent", "a", messageId="1"))],
        [had(chunk("agent", "a"))],
    ),
    # Sessions that are opened again.
    ("cut off", heard(replays.not_whole), opened(*TOLD), opened(*TOLD[:2])),
    ("nothing of it", heard(replays.not_whole), opened(*TOLD), opened(TOLD[0])),
    ("doubled", heard(replays.not_whole), opened(*TOLD), opened(*TOLD, *TOLD)),
    (
        "others' words",
        heard(replays.not_whole),
        opened(*TOLD),
        opened(chunk("user", "Hi"), *TOLD[1:]),
    ),
    (
        "answered before its last update",
        replays.answered_too_soon,
        opened(*TOLD, after=[update("usage_update")]),
        opened(*TOLD[:2], after=TOLD[2:]),
    ),
    (
        "under another id",
        replays.under_another_id,
        opened(*TOLD),
        opened(*TOLD, chunk("agent", "x", "ses_2")),
    ),
    (
        "user as agent",
        heard(replays.no_user_turns),
        opened(*TOLD),
        opened(chunk("agent", "Hello"), *TOLD[1:]),
    ),
    ("more turns", heard(replays.other_turns), opened(*TOLD), opened(*TOLD, chunk("user", "More"))),
    (
        "without ids",
        replays.without_ids,
        opened(chunk("agent", "a", messageId="1"), update("plan_update")),
        opened(*TOLD),
    ),
    ("a notice", replays.replayed_notices, opened(*TOLD), opened(update("notice", title="x"))),
    (
        "told unasked",
        replays.told_unasked,
        opened(state("idle"), after=[update("usage_update")]),
        opened(after=TOLD),
    ),
    (
        "no state",
        replays.no_state,
        opened(*TOLD, state("idle")),
        opened(*TOLD, after=[state("idle")]),
    ),
    (
        "state too early",
        replays.no_state,
        opened(state("idle"), *TOLD, state("idle")),
        opened(state("idle"), *TOLD),
    ),
    (
        "other ids",
        lambda it: replays.other_ids(*it),
        (
            opened(chunk("agent", "a", messageId="1")),
            opened(chunk("agent", "a", messageId="1"), *TOLD),
        ),
        (opened(chunk("agent", "a", messageId="1")), opened(chunk("agent", "a", messageId="2"))),
    ),
]


@pytest.mark.parametrize(
    ("judge", "good", "bad"), [it[1:] for it in CASES], ids=[it[0] for it in CASES]
)
def test_a_judge_lets_the_good_pass_and_finds_the_bad(
    judge: Judge, good: object, bad: object
) -> None:
    see(judge, good, bad)


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        (had(answer=no(1, -32800)), "is no error"),
        (Turn(S, answered(ask(1, "x"), ok(1)), (), None), "went on"),
        (had(answer=came(9.0, id=1, result={"stopReason": "end_turn"})), "ended with 'end_turn'"),
    ],
)
def test_a_turn_that_should_have_been_cancelled(turn: Turn, words: str) -> None:
    faults = turns.not_cancelled(turn, cancelled_at=1.0, too_soon=1.0)
    assert faults is not None
    assert words in "".join(fault.words for fault in faults)


def test_a_turn_that_was_over_too_soon_to_be_cancelled_is_not_judged() -> None:
    turn = had(answer=came(1.5, id=1, result={"stopReason": "end_turn"}))
    assert turns.not_cancelled(turn, cancelled_at=1.0, too_soon=1.0) is None


def test_a_cancelled_turn_is_as_it_should_be() -> None:
    faults = turns.not_cancelled(had(answer=ok(1, stopReason="cancelled")), 0.0, 1.0)
    assert list(faults or ()) == []


def test_a_telling_knows_whole_messages_chunks_and_tool_calls() -> None:
    whole = [{"type": "text", "text": "Good day"}]
    lines = [
        update("user_message", messageId="u", content=[{"type": "text", "text": "Hello"}]),
        update("agent_message", messageId="a", content=[]),
        chunk("agent", "Go", messageId="a"),
        update("agent_message", messageId="a", content=whole),
        update("agent_message", messageId="a"),
        update("agent_thought_chunk", content={"type": "text", "text": "hm"}),
        update("tool_call_update", toolCallId="t", title="Read", status="pending"),
        update("tool_call_update", toolCallId="t", status="completed"),
        update("tool_call_update", toolCallId="t", title="Read it"),
        update("agent_message_chunk", content={"type": "image", "data": "x"}),
    ]
    told = [(it.role, it.words) for it in telling.told(lines)]
    assert told == [
        ("user", "Hello"),
        ("agent", "Good day"),
        ("tool call", "completed"),
        ("agent", '{"type":"image","data":"x"}'),
    ]
