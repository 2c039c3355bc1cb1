"""A transcript told again to a version 2 client."""

import base64
import json
from typing import Any

from rekindle.model import Entry, Kind, Side
from rekindle.transcript.model import ToolCallItem
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.replay_cursor import select_turns
from rekindle.transcript.replay_v2 import replay_v2

Json = dict[str, Any]


def folded(*told: tuple[Kind, Json], protocol: int = 1) -> Transcript:
    return fold(
        Entry(
            seq=seq,
            side=Side.AGENT,
            kind=kind,
            at_us=seq,
            line=json.dumps(message).encode(),
            protocol=protocol,
        )
        for seq, (kind, message) in enumerate(told, start=1)
    )


def update(**update: object) -> tuple[Kind, Json]:
    return Kind.UPDATE, {"params": {"update": update}}


PROMPT = (Kind.PROMPT, {"params": {"prompt": [{"type": "text", "text": "Go"}]}})


def told(transcript: Transcript, **options: Any) -> list[Json]:  # noqa: ANN401 - passed on
    return list(replay_v2(transcript.turns, transcript, **options))


def test_a_long_message_is_told_whole_and_then_in_chunks() -> None:
    words = "x" * 120_000
    chunk = update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": words})
    first, *rest = told(folded(chunk))
    assert first["sessionUpdate"] == "agent_message"
    assert {it["sessionUpdate"] for it in rest} == {"agent_message_chunk"}
    pieces = [first["content"][0], *(it["content"] for it in rest)]
    assert "".join(piece["text"] for piece in pieces) == words
    assert {it["messageId"] for it in (first, *rest)} == {"rekindle-1"}


def test_terminals_are_told_once_before_the_calls_that_show_them() -> None:
    terminal = {"type": "terminal", "terminalId": "x"}
    made = update(sessionUpdate="terminal_update", terminalId="x", command="ls")
    snapshot = update(
        sessionUpdate="terminal_update",
        terminalId="x",
        output={"data": base64.b64encode(b"one").decode()},
    )
    calls = [
        update(sessionUpdate="tool_call_update", toolCallId=name, content=[terminal])
        for name in ("a", "b")
    ]
    shown, *both = told(folded(made, snapshot, *calls, protocol=2))
    assert shown["sessionUpdate"] == "terminal_update"
    assert (shown["command"], base64.b64decode(shown["output"]["data"])) == ("ls", b"one")
    assert [it["toolCallId"] for it in both] == ["a", "b"]


def test_a_call_that_never_ended_was_cancelled_with_its_turn_or_has_failed() -> None:
    call = update(sessionUpdate="tool_call", toolCallId="t", title="T", status="in_progress")
    cancelled = (Kind.ANSWER, {"result": {"stopReason": "cancelled"}})
    assert told(folded(PROMPT, call, cancelled))[-1]["status"] == "cancelled"
    assert told(folded(PROMPT, call))[-1]["status"] == "failed"
    assert told(folded(PROMPT, call), is_running=True)[-1]["status"] == "in_progress"


def test_what_rekindle_says_itself() -> None:
    gap = (Kind.GAP, {"lostEntries": 3})
    handover = (Kind.HANDOVER, {"type": "text", "text": "User: secret"})
    first, second = told(folded(gap, handover))
    assert "3 entries are missing" in first["content"][0]["text"]
    assert "was told the record" in second["content"][0]["text"]
    assert "secret" not in str(second)


def test_the_title_is_told_where_there_is_one() -> None:
    assert told(folded()) == []
    (info,) = told(folded(), title="T")
    assert (info["sessionUpdate"], info["title"]) == ("session_info_update", "T")
    compaction = update(sessionUpdate="compaction_update", compactionId="c", status="completed")
    assert told(folded(compaction))[0]["sessionUpdate"] == "compaction_update"


def test_a_name_for_nothing_is_no_name() -> None:
    named = (Kind.NAMED, {"kind": "odd", "messageId": "n"})
    chunk = update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "x"})
    assert told(folded(named, chunk))[0]["messageId"] == "rekindle-2"


def test_what_was_missed_is_also_what_a_terminal_showed_and_what_was_cut_off() -> None:
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
    transcript = folded(*entries, protocol=2)
    assert since(transcript, 5) == ["a", "b"]
    assert since(transcript, 6) == ["b"]
    assert since(transcript, 7) == []
    assert since(folded(*entries[:-1], protocol=2), 6) == ["b"]
