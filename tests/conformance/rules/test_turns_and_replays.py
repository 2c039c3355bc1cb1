"""Rules for turns and replays, each with good and bad handmade input."""

import pytest

from handmade_lines import (
    EXPECTED,
    REPLAY,
    Case,
    Rule,
    S,
    answered,
    ask,
    assert_rule,
    chunk,
    expecting,
    no,
    ok,
    opened,
    state,
    turn_of,
    update,
    v1,
    v2,
)
from rekindle.conformance import digest
from rekindle.conformance.rules import replays, turns
from rekindle.conformance.rules.replays import OpeningTrace
from rekindle.conformance.rules.turns import TurnTrace
from rekindle.conformance.trace import TraceLine

NOTICE = update("notice", title="Beware", severity="info")


def thought(text: str, **fields: object) -> TraceLine:
    return update("agent_thought_chunk", content={"type": "text", "text": text}, **fields)


CASES: list[Case] = [
    # Turns.
    ("no reason", v1(turns.bad_stop_reason), turn_of(), turn_of(answer=ok(1))),
    (
        "idle without reason",
        turns.missing_stop_reason,
        turn_of(end=state("idle", stopReason="end_turn")),
        turn_of(end=state("idle")),
    ),
    ("odd reason", v1(turns.bad_stop_reason), turn_of(), turn_of(answer=ok(1, stopReason="error"))),
    (
        "odd reason of v2",
        v2(turns.bad_stop_reason),
        turn_of(end=state("idle")),
        turn_of(end=state("idle", stopReason="bored")),
    ),
    (
        "never running, but blocked",
        turns.bad_states,
        turn_of(state("requires_action"), state("idle")),
        turn_of(state(["running"]), state("idle")),
    ),
    (
        "never running",
        turns.bad_states,
        turn_of(state("running"), state("idle")),
        turn_of(state("idle")),
    ),
    (
        "not idle",
        turns.bad_states,
        turn_of(state("running"), state("idle")),
        turn_of(state("running")),
    ),
    (
        "odd state",
        turns.bad_states,
        turn_of(state("running"), state("_on"), state("idle")),
        turn_of(state("running"), state("on"), state("idle")),
    ),
    (
        "no message id",
        turns.bad_message_id,
        turn_of(chunk("user", "a", messageId="u"), answer=ok(1, messageId="u")),
        turn_of(answer=ok(1)),
    ),
    (
        "another message id",
        turns.bad_message_id,
        turn_of(chunk("user", "a", messageId="u"), answer=ok(1, messageId="u")),
        turn_of(chunk("user", "a", messageId="v"), answer=ok(1, messageId="u")),
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
        [turn_of(chunk("agent", "a", messageId="1"), thought("b", messageId="1"))],
        [turn_of(chunk("user", "a", messageId="1"), chunk("agent", "b", messageId="1"))],
    ),
    (
        "one id, two turns",
        lambda it: turns.shared_message_ids(it, 1),
        [turn_of(chunk("agent", "a")), turn_of(chunk("agent", "a"))],
        [turn_of(chunk("agent", "a", messageId="1")), turn_of(chunk("agent", "a", messageId="1"))],
    ),
    (
        "two prompts, one id, in v2",
        lambda it: turns.shared_message_ids(it, 2),
        [
            turn_of(chunk("user", "a", messageId="1"), answer=ok(1, messageId="1")),
            turn_of(chunk("agent", "a", messageId="1"), answer=ok(1, messageId="2")),
            turn_of(chunk("agent", "b", messageId="1"), answer=ok(1, messageId="3")),
        ],
        [turn_of(answer=ok(1, messageId="1")), turn_of(answer=ok(1, messageId="1"))],
    ),
    (
        "told after the turn in v1",
        lambda it: turns.late_messages(it, turn_of(), 1),
        [update("usage_update")],
        [update("tool_call_update", toolCallId="t")],
    ),
    (
        "told after the turn in v2",
        lambda it: turns.late_messages(it, turn_of(chunk("agent", "a", messageId="1")), 2),
        [chunk("agent", "b", messageId="2"), update("tool_call_update", toolCallId="t")],
        [chunk("agent", "b", messageId="1")],
    ),
    (
        "no id in v2",
        lambda it: turns.shared_message_ids(it, 2),
        [turn_of(chunk("agent", "a", messageId="1"))],
        [turn_of(chunk("agent", "a"))],
    ),
    # Reopened sessions.
    ("cut off", expecting(replays.incomplete_replay), opened(*REPLAY), opened(*REPLAY[:2])),
    ("nothing of it", expecting(replays.incomplete_replay), opened(*REPLAY), opened(REPLAY[0])),
    ("doubled", expecting(replays.incomplete_replay), opened(*REPLAY), opened(*REPLAY, *REPLAY)),
    (
        "something more to say",
        expecting(replays.incomplete_replay),
        opened(*REPLAY, chunk("agent", "Beware: no sandbox")),
        opened(REPLAY[0], chunk("agent", "Beware"), *REPLAY[1:]),
    ),
    (
        "others' words",
        expecting(replays.incomplete_replay),
        opened(*REPLAY),
        opened(chunk("user", "Hi"), *REPLAY[1:]),
    ),
    (
        "answered before its last update",
        replays.late_replay,
        opened(*REPLAY, after=[update("usage_update")]),
        opened(*REPLAY[:2], after=REPLAY[2:]),
    ),
    (
        "under another id",
        replays.wrong_session_id,
        opened(*REPLAY),
        opened(*REPLAY, chunk("agent", "x", "ses_2")),
    ),
    (
        "user as agent",
        lambda it: replays.misattributed_prompts(it, EXPECTED, 1),
        opened(*REPLAY),
        opened(*REPLAY[1:]),
    ),
    (
        "user as agent in v2, where the user's words need not be kept",
        lambda it: replays.misattributed_prompts(it, EXPECTED, 2),
        opened(*REPLAY[1:]),
        opened(chunk("agent", "Hello"), update("tool_call", toolCallId="t"), *REPLAY[1:]),
    ),
    ("turns lost", expecting(replays.lost_turns), opened(*REPLAY, *REPLAY), opened(*REPLAY[1:])),
    (
        "cannot be told",
        expecting(replays.different_turns),
        opened(*REPLAY),
        OpeningTrace(S, answered(ask(1, "session/load"), no(1)), (), ()),
    ),
    (
        "more turns",
        expecting(replays.different_turns),
        opened(*REPLAY),
        opened(*REPLAY, chunk("user", "More")),
    ),
    (
        "without ids",
        replays.missing_message_ids,
        opened(chunk("agent", "a", messageId="1"), update("plan_update")),
        opened(*REPLAY),
    ),
    (
        "a notice",
        lambda it: replays.replayed_notices(it, [NOTICE]),
        opened(NOTICE, *REPLAY[:2], update("notice", title="another"), REPLAY[2], NOTICE),
        opened(*REPLAY[:2], NOTICE, REPLAY[2]),
    ),
    (
        "told unasked",
        expecting(replays.unrequested_replay),
        opened(state("idle"), chunk("agent", "Beware: no sandbox"), after=[update("usage_update")]),
        opened(after=REPLAY),
    ),
    ("told by the agent", expecting(replays.unrequested_replay), opened(), opened(*REPLAY[1:])),
    (
        "no state",
        replays.missing_state,
        opened(*REPLAY, state("idle")),
        opened(*REPLAY, after=[state("idle")]),
    ),
    (
        "state too early",
        replays.missing_state,
        opened(state("idle"), *REPLAY, state("idle")),
        opened(state("idle"), *REPLAY),
    ),
    (
        "other ids",
        lambda it: replays.changed_ids(*it),
        (
            opened(chunk("agent", "a", messageId="1")),
            opened(chunk("agent", "a", messageId="1"), *REPLAY),
        ),
        (opened(chunk("agent", "a", messageId="1")), opened(chunk("agent", "a", messageId="2"))),
    ),
    (
        "ids lost",
        lambda it: replays.changed_ids(*it),
        (
            opened(chunk("agent", "a", messageId="1"), chunk("agent", "b", messageId="1")),
            opened(chunk("agent", "ab", messageId="1")),
        ),
        (opened(chunk("agent", "a", messageId="1")), opened(chunk("agent", "a"))),
    ),
]


@pytest.mark.parametrize(
    ("rule", "good", "bad"), [it[1:] for it in CASES], ids=[it[0] for it in CASES]
)
def test_rule_accepts_good_input_and_finds_faults_in_bad_input(
    rule: Rule, good: object, bad: object
) -> None:
    assert_rule(rule, good, bad)


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        (turn_of(answer=no(1, -32800)), "must not end with an error"),
        (TurnTrace(S, answered(ask(1, "x"), ok(1)), (), None), "continued"),
        (turn_of(answer=ok(1, stopReason="end_turn")), "ended with 'end_turn'"),
        (turn_of(end=state("idle")), "ended without a `stopReason`"),
    ],
)
def test_not_cancelled_describes_the_wrong_end(turn: TurnTrace, message: str) -> None:
    assert message in "".join(fault.message for fault in turns.not_cancelled(turn))


def test_not_cancelled_accepts_a_cancelled_turn() -> None:
    assert list(turns.not_cancelled(turn_of(answer=ok(1, stopReason="cancelled")))) == []


def test_was_withdrawn_needs_v2_and_no_user_message() -> None:
    withdrawn = turn_of(answer=no(1, -32800))
    assert turns.was_withdrawn(withdrawn, 2)
    assert not turns.was_withdrawn(withdrawn, 1)
    assert not turns.was_withdrawn(turn_of(chunk("user", "a"), answer=no(1, -32800)), 2)


@pytest.mark.parametrize(
    ("turn", "is_complete", "obstacle"),
    [
        (turn_of(), True, ""),
        (turn_of(answer=no(1, -32603)), False, "it was refused with -32603: no"),
        (turn_of(answer=no(1, -32000)), False, "it was refused with -32000: no"),
        (turn_of(answer=no(1, -32601)), False, ""),
        (turn_of(answer=no(1, -32602)), False, ""),
        (
            turn_of(end=state("idle", stopReason="error", error={"code": 1, "message": "no key"})),
            False,
            "it ended with an error: no key",
        ),
    ],
)
def test_obstacle_is_set_only_for_errors_outside_the_agent(
    turn: TurnTrace, is_complete: object, obstacle: str
) -> None:
    assert (turn.is_complete, turn.obstacle) == (is_complete, obstacle)


def test_find_difference_shows_the_place_of_the_difference() -> None:
    same = "I was shown one earlier message of the user, and a note. " * 3
    message = digest.find_difference(
        [
            digest.DigestItem(digest.AGENT, f"{same}It is red."),
            digest.DigestItem(digest.USER, "Go on"),
        ],
        [
            digest.DigestItem(digest.AGENT, f"{same}It is blue."),
            digest.DigestItem(digest.USER, "Go on"),
        ],
    )
    assert message is not None
    assert "It is red." in message
    assert "It is blue." in message


def test_digest_combines_messages_chunks_and_tool_calls() -> None:
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
    items = [(it.role, it.text) for it in digest.digest_updates(lines)]
    assert items == [
        ("user", "Hello"),
        ("agent", "Good day"),
        ("tool call", "completed"),
        ("agent", '{"type":"image","data":"x"}'),
    ]
