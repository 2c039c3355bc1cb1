"""Judges of turns and replays are seen to fail, on talks made by hand, and to let good ones be."""

import pytest

from handmade_lines import (
    HEARD,
    TOLD,
    Case,
    Judge,
    S,
    answered,
    ask,
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
from rekindle.conformance import digest
from rekindle.conformance.rules import replays, turns
from rekindle.conformance.rules.replays import Opening
from rekindle.conformance.rules.turns import Turn
from rekindle.conformance.trace import Line

NOTICE = update("notice", title="Beware", severity="info")


def thought(text: str, **fields: object) -> Line:
    return update("agent_thought_chunk", content={"type": "text", "text": text}, **fields)


CASES: list[Case] = [
    # Turns.
    ("no reason", v1(turns.no_reason), had(), had(answer=ok(1))),
    (
        "idle without reason",
        turns.unexplained,
        had(end=state("idle", stopReason="end_turn")),
        had(end=state("idle")),
    ),
    ("odd reason", v1(turns.no_reason), had(), had(answer=ok(1, stopReason="error"))),
    (
        "odd reason of v2",
        v2(turns.no_reason),
        had(end=state("idle")),
        had(end=state("idle", stopReason="bored")),
    ),
    (
        "never running, but blocked",
        turns.bad_states,
        had(state("requires_action"), state("idle")),
        had(state(["running"]), state("idle")),
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
        [had(chunk("agent", "a", messageId="1"), thought("b", messageId="1"))],
        [had(chunk("user", "a", messageId="1"), chunk("agent", "b", messageId="1"))],
    ),
    (
        "one id, two turns",
        lambda it: turns.shared_message_ids(it, 1),
        [had(chunk("agent", "a")), had(chunk("agent", "a"))],
        [had(chunk("agent", "a", messageId="1")), had(chunk("agent", "a", messageId="1"))],
    ),
    (
        "two prompts, one id, in v2",
        lambda it: turns.shared_message_ids(it, 2),
        [
            had(chunk("user", "a", messageId="1"), answer=ok(1, messageId="1")),
            had(chunk("agent", "a", messageId="1"), answer=ok(1, messageId="2")),
            had(chunk("agent", "b", messageId="1"), answer=ok(1, messageId="3")),
        ],
        [had(answer=ok(1, messageId="1")), had(answer=ok(1, messageId="1"))],
    ),
    (
        "told after the turn in v1",
        lambda it: turns.late_messages(it, had(), 1),
        [update("usage_update")],
        [update("tool_call_update", toolCallId="t")],
    ),
    (
        "told after the turn in v2",
        lambda it: turns.late_messages(it, had(chunk("agent", "a", messageId="1")), 2),
        [chunk("agent", "b", messageId="2"), update("tool_call_update", toolCallId="t")],
        [chunk("agent", "b", messageId="1")],
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
        "something more to say",
        heard(replays.not_whole),
        opened(*TOLD, chunk("agent", "Beware: no sandbox")),
        opened(TOLD[0], chunk("agent", "Beware"), *TOLD[1:]),
    ),
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
        lambda it: replays.no_user_turns(it, HEARD, 1),
        opened(*TOLD),
        opened(*TOLD[1:]),
    ),
    (
        "user as agent in v2, where the user's words need not be kept",
        lambda it: replays.no_user_turns(it, HEARD, 2),
        opened(*TOLD[1:]),
        opened(chunk("agent", "Hello"), update("tool_call", toolCallId="t"), *TOLD[1:]),
    ),
    ("turns lost", heard(replays.lost_turns), opened(*TOLD, *TOLD), opened(*TOLD[1:])),
    (
        "cannot be told",
        heard(replays.other_turns),
        opened(*TOLD),
        Opening(S, answered(ask(1, "session/load"), no(1)), (), ()),
    ),
    ("more turns", heard(replays.other_turns), opened(*TOLD), opened(*TOLD, chunk("user", "More"))),
    (
        "without ids",
        replays.without_ids,
        opened(chunk("agent", "a", messageId="1"), update("plan_update")),
        opened(*TOLD),
    ),
    (
        "a notice",
        lambda it: replays.replayed_notices(it, [NOTICE]),
        opened(NOTICE, *TOLD[:2], update("notice", title="another"), TOLD[2], NOTICE),
        opened(*TOLD[:2], NOTICE, TOLD[2]),
    ),
    (
        "told unasked",
        heard(replays.told_unasked),
        opened(state("idle"), chunk("agent", "Beware: no sandbox"), after=[update("usage_update")]),
        opened(after=TOLD),
    ),
    ("told by the agent", heard(replays.told_unasked), opened(), opened(*TOLD[1:])),
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
    (
        "ids lost",
        lambda it: replays.other_ids(*it),
        (
            opened(chunk("agent", "a", messageId="1"), chunk("agent", "b", messageId="1")),
            opened(chunk("agent", "ab", messageId="1")),
        ),
        (opened(chunk("agent", "a", messageId="1")), opened(chunk("agent", "a"))),
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
        (had(answer=ok(1, stopReason="end_turn")), "ended with 'end_turn'"),
        (had(end=state("idle")), "ended without a `stopReason`"),
    ],
)
def test_a_turn_that_should_have_been_cancelled(turn: Turn, words: str) -> None:
    assert words in "".join(fault.words for fault in turns.not_cancelled(turn))


def test_a_cancelled_turn_is_as_it_should_be() -> None:
    assert list(turns.not_cancelled(had(answer=ok(1, stopReason="cancelled")))) == []


def test_a_prompt_of_version_2_may_be_withdrawn_before_it_is_a_message() -> None:
    withdrawn = had(answer=no(1, -32800))
    assert turns.is_uninserted(withdrawn, 2)
    assert not turns.is_uninserted(withdrawn, 1)
    assert not turns.is_uninserted(had(chunk("user", "a"), answer=no(1, -32800)), 2)


@pytest.mark.parametrize(
    ("turn", "is_had", "obstacle"),
    [
        (had(), True, ""),
        (had(answer=no(1, -32603)), False, "it was refused with -32603: no"),
        (had(answer=no(1, -32000)), False, "it was refused with -32000: no"),
        (had(answer=no(1, -32601)), False, ""),
        (had(answer=no(1, -32602)), False, ""),
        (
            had(end=state("idle", stopReason="error", error={"code": 1, "message": "no key"})),
            False,
            "it ended with an error: no key",
        ),
    ],
)
def test_an_agent_that_lacks_a_key_is_told_from_one_that_is_wrong(
    turn: Turn, is_had: object, obstacle: str
) -> None:
    assert (turn.is_had, turn.obstacle) == (is_had, obstacle)


def test_two_tellings_are_shown_where_they_part() -> None:
    same = "I was shown one earlier message of the user, and a note. " * 3
    words = digest.difference(
        [digest.Item(digest.AGENT, f"{same}It is red."), digest.Item(digest.USER, "Go on")],
        [digest.Item(digest.AGENT, f"{same}It is blue."), digest.Item(digest.USER, "Go on")],
    )
    assert words is not None
    assert "It is red." in words
    assert "It is blue." in words


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
    told = [(it.role, it.words) for it in digest.told(lines)]
    assert told == [
        ("user", "Hello"),
        ("agent", "Good day"),
        ("tool call", "completed"),
        ("agent", '{"type":"image","data":"x"}'),
    ]
