"""Selection of the turns that a `replayFrom` cursor asks for."""

import json
from typing import Any

import pytest

from rekindle.model import Entry, Kind, Side
from rekindle.transcript.model import ToolCallItem
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.replay_cursor import (
    BadCursor,
    check_cursor,
    select_turns,
    truncation_since,
)

Json = dict[str, Any]


def transcript_of(*replayed: tuple[Kind, Json], protocol: int = 1) -> Transcript:
    return fold(
        Entry(
            seq=seq,
            side=Side.AGENT,
            kind=kind,
            at_us=seq,
            line=json.dumps(message).encode(),
            protocol=protocol,
        )
        for seq, (kind, message) in enumerate(replayed, start=1)
    )


def update(**update: object) -> tuple[Kind, Json]:
    return Kind.UPDATE, {"params": {"update": update}}


PROMPT = (Kind.PROMPT, {"params": {"prompt": [{"type": "text", "text": "Go"}]}})


def test_a_seq_cursor_selects_changed_terminals_and_interrupted_calls() -> None:
    def since(transcript: Transcript, seq: int) -> list[str]:
        turns = select_turns({"type": "_rekindle_seq", "seq": seq}, transcript)
        return [item.id for turn in turns for item in turn.items if isinstance(item, ToolCallItem)]

    shown = [{"type": "terminal", "terminalId": "x"}]
    done = {"status": "completed"}
    entries = [
        PROMPT,
        update(sessionUpdate="tool_call_update", toolCallId="a", content=shown, **done),
        update(sessionUpdate="tool_call_update", toolCallId="b", status="in_progress"),
        update(sessionUpdate="tool_call_update", toolCallId="c", **done),
        update(sessionUpdate="terminal_output_chunk", terminalId="x", data="eA=="),
        update(sessionUpdate="state_update", state="idle", stopReason="end_turn"),
    ]
    transcript = transcript_of(*entries, protocol=2)
    assert since(transcript, 5) == ["a", "b"]
    assert since(transcript, 6) == ["b"]
    assert since(transcript, 7) == []
    assert since(transcript_of(*entries[:-1], protocol=2), 6) == ["b"]


def test_a_message_cursor_begins_with_its_message() -> None:
    chunk = update(
        sessionUpdate="agent_message_chunk", messageId="m", content={"type": "text", "text": "x"}
    )
    transcript = transcript_of(PROMPT, chunk, PROMPT)
    first, second = select_turns({"type": "_rekindle_message", "messageId": "m"}, transcript)
    assert [item.seq for item in first.items] == [2]
    assert second is transcript.turns[1]
    with pytest.raises(BadCursor, match="does not name a message"):
        select_turns({"type": "_rekindle_message", "messageId": "n"}, transcript)


@pytest.mark.parametrize(("last", "numbers"), [(0, []), (1, [2]), (5, [1, 2])])
def test_a_turn_cursor_selects_the_last_turns(last: int, numbers: list[int]) -> None:
    turns = select_turns({"type": "_rekindle_turns", "last": last}, transcript_of(PROMPT, PROMPT))
    assert [turn.number for turn in turns] == numbers


@pytest.mark.parametrize(
    "cursor",
    [
        None,
        {"type": "end"},
        {"type": "_rekindle_turns", "last": -1},
        {"type": "_rekindle_turns", "last": True},
        {"type": "_rekindle_seq", "seq": "1"},
    ],
)
def test_invalid_cursors_are_refused(cursor: object) -> None:
    with pytest.raises(BadCursor):
        check_cursor(cursor)


@pytest.mark.parametrize(
    "cursor",
    [{"type": "start"}, {"type": "_rekindle_message"}, {"type": "_rekindle_seq", "seq": 0}],
)
def test_valid_cursors_are_accepted(cursor: object) -> None:
    check_cursor(cursor)


def test_a_seq_cursor_from_before_a_rewind_removes_what_the_client_has_seen() -> None:
    def said(name: str) -> tuple[Kind, Json]:
        text = {"type": "text", "text": name}
        return update(sessionUpdate="agent_message_chunk", messageId=name, content=text)

    transcript = transcript_of(
        PROMPT,
        said("m1"),
        update(sessionUpdate="tool_call", toolCallId="c", status="completed"),
        said("m2"),
        said("m3"),
        update(sessionUpdate="history_truncated", lastMessageId="m2"),
        said("m4"),
    )

    def since(seq: int) -> tuple[object, list[int]]:
        cursor = {"type": "_rekindle_seq", "seq": seq}
        truncation = truncation_since(cursor, transcript) or {}
        turns = select_turns(cursor, transcript)
        return truncation.get("lastMessageId", "-"), [it.seq for turn in turns for it in turn.items]

    # The entry 6 is the rewind. A client that has seen it removes nothing.
    assert since(7) == ("-", [7])
    assert since(6) == ("m2", [7])
    # The tool call after the message m1 is removed too, so it is sent again.
    assert since(4) == ("m1", [3, 4, 7])
    assert since(1) == (None, [1, 2, 3, 4, 7])
    assert truncation_since({"type": "start"}, transcript) is None
