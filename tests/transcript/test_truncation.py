"""Rewinds: a `history_truncated` cuts the transcript, and the rest of the record stays."""

import json
from typing import Any

import pytest

from rekindle.model import Entry, Kind, Side
from rekindle.transcript.model import TranscriptMessage
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.truncation import Cut, find_message, message_id, previous_message

Json = dict[str, Any]


def transcript_of(*lines: tuple[Kind, Json], protocol: int = 1) -> Transcript:
    return fold(
        Entry(
            seq=seq,
            side=Side.AGENT,
            kind=kind,
            at_us=seq,
            line=json.dumps(message).encode(),
            protocol=protocol,
        )
        for seq, (kind, message) in enumerate(lines, start=1)
    )


def update(kind: str, **fields: object) -> tuple[Kind, Json]:
    return Kind.UPDATE, {"params": {"update": {"sessionUpdate": kind, **fields}}}


def test_a_rewind_is_the_last_event_until_another_turn_begins() -> None:
    rewound = [prompt("One"), said("A", "m1"), answer(), prompt("Two", 2), said("B", "m2")]
    rewound += [answer(2), update("history_truncated", lastMessageId="m1")]
    last = transcript_of(*rewound)
    assert last.truncations.is_after(last.turns)
    later = transcript_of(*rewound, prompt("Three", 3))
    assert not later.truncations.is_after(later.turns)
    assert not Transcript().truncations.is_after([])


def said(text: str, name: str | None = None) -> tuple[Kind, Json]:
    given = {} if name is None else {"messageId": name}
    return update("agent_message_chunk", content={"type": "text", "text": text}, **given)


def prompt(text: str, number: int = 1) -> tuple[Kind, Json]:
    return Kind.PROMPT, {"id": number, "params": {"prompt": [{"type": "text", "text": text}]}}


def answer(number: int = 1) -> tuple[Kind, Json]:
    return Kind.ANSWER, {"id": number, "result": {"stopReason": "end_turn"}}


def back_to(message_id: str | None) -> tuple[Kind, Json]:
    return update("history_truncated", lastMessageId=message_id)


def call(name: str, **fields: object) -> tuple[Kind, Json]:
    return update("tool_call", toolCallId=name, title=name, **fields)


def texts(transcript: Transcript) -> list[list[str]]:
    return [
        [item.text for item in turn.items if isinstance(item, TranscriptMessage)]
        for turn in transcript.turns
    ]


TWO_TURNS = (
    prompt("One", 1),
    said("First", "m1"),
    answer(1),
    prompt("Two", 2),
    said("Second", "m2"),
    call("c"),
    said("Third", "m3"),
    answer(2),
)


@pytest.mark.parametrize(
    ("last_id", "left"),
    [
        ("m1", [["One", "First"]]),
        ("m2", [["One", "First"], ["Two", "Second"]]),
        ("rekindle-4", [["One", "First"], ["Two"]]),
        ("rekindle-1", [["One"]]),
        (None, []),
        ("m3", [["One", "First"], ["Two", "Second", "Third"]]),
    ],
)
def test_everything_after_the_message_is_removed(
    last_id: str | None, left: list[list[str]]
) -> None:
    transcript = transcript_of(*TWO_TURNS, back_to(last_id))
    assert texts(transcript) == left
    assert transcript.last_seq == 9
    removed = sum(len(turn.items) for turn in transcript.truncations.removed)
    assert removed == 6 - sum(len(turn.items) for turn in transcript.turns)


def test_the_next_turn_follows_the_remaining_ones() -> None:
    transcript = transcript_of(
        *TWO_TURNS, back_to("m1"), prompt("Again", 3), said("New", "m2"), call("c"), answer(3)
    )
    assert texts(transcript) == [["One", "First"], ["Again", "New"]]
    assert [turn.number for turn in transcript.turns] == [1, 2]
    # The ids of the removed items are free, because the agent may use them again.
    assert transcript.ids == {"m1", "m2", "c"}


def test_an_unknown_message_removes_nothing() -> None:
    for unclear in (back_to("m9"), update("history_truncated")):
        transcript = transcript_of(*TWO_TURNS, unclear)
        assert len(transcript.turns) == 2
        assert transcript.truncations.unresolved == 1
    assert transcript_of(*TWO_TURNS).truncations.is_empty
    assert not transcript_of(*TWO_TURNS, back_to("m1")).truncations.is_empty


def test_a_running_turn_that_stays_has_ended() -> None:
    transcript = transcript_of(prompt("One"), said("a", "m1"), said("b", "m2"), back_to("m1"))
    assert transcript.turns[0].ended_us == 4
    again = transcript_of(
        prompt("One"),
        said("a", "m1"),
        said("b", "m2"),
        back_to("m1"),
        prompt("Two", 2),
        protocol=2,
    )
    assert texts(again) == [["One", "a"], ["Two"]]


def test_the_end_of_a_turn_that_stays_is_kept() -> None:
    transcript = transcript_of(*TWO_TURNS, back_to("m2"))
    assert (transcript.turns[1].stop_reason, transcript.turns[1].ended_us) == ("end_turn", 8)


def test_the_present_state_stays() -> None:
    mode = update("current_mode_update", currentModeId="code")
    transcript = transcript_of(*TWO_TURNS, mode, back_to("m1"))
    assert transcript.current_mode == "code"


def test_later_updates_begin_new_items() -> None:
    transcript = transcript_of(
        *TWO_TURNS,
        update("plan_update", plan={"type": "items", "planId": "p", "entries": []}),
        back_to("m1"),
        prompt("Again", 3),
        call("c", status="completed"),
        update("plan_update", plan={"type": "items", "planId": "p", "entries": []}),
        said("New", "m3"),
    )
    assert [type(item).__name__ for item in transcript.turns[1].items] == [
        "TranscriptMessage",
        "ToolCallItem",
        "PlanItem",
        "TranscriptMessage",
    ]


def test_only_terminals_of_removed_calls_are_removed() -> None:
    def shows(call_id: str, terminal: str) -> tuple[Kind, Json]:
        return call(call_id, content=[{"type": "terminal", "terminalId": terminal}])

    def output(terminal: str) -> tuple[Kind, Json]:
        return update("terminal_output_chunk", terminalId=terminal, data="YQ==")

    transcript = transcript_of(
        prompt("One"),
        shows("a", "t1"),
        output("t1"),
        said("First", "m1"),
        shows("b", "t1"),
        shows("c", "t2"),
        output("t2"),
        shows("d", "t3"),
        back_to("m1"),
    )
    assert transcript.terminals.keys() == {"t1"}


def test_a_waiting_prompt_is_removed() -> None:
    transcript = transcript_of(
        prompt("One", 1), said("a", "m1"), prompt("Two", 2), back_to("m1"), protocol=2
    )
    assert texts(transcript) == [["One", "a"]]


def test_the_notice_of_a_handover_can_be_named() -> None:
    transcript = transcript_of(
        prompt("One"), (Kind.HANDOVER, {"type": "text"}), said("First", "m1"), answer()
    )
    (turn,) = transcript.turns
    assert message_id(turn.items[1]) == "rekindle-handover-2"
    assert find_message([turn], "rekindle-handover-2") == Cut(0, 1)


def test_the_message_before_a_message_is_found() -> None:
    turns = transcript_of(*TWO_TURNS).turns
    assert previous_message(turns, Cut(0, 0)) is None
    assert previous_message(turns, Cut(0, 1)) == "rekindle-1"
    assert previous_message(turns, Cut(1, 0)) == "m1"
    assert previous_message(turns, Cut(1, 3)) == "m2"
