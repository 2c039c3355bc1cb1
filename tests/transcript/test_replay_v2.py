"""Replay of a transcript to a version 2 client."""

import base64
import json
from typing import Any

import pytest

from rekindle.acp.translate.live_v2 import LiveToV2
from rekindle.acp.update_kinds import KINDS, Category, update_to_v2
from rekindle.model import Entry, Kind, Side
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.replay_v2 import replay_v2

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


def replayed(transcript: Transcript, **options: Any) -> list[Json]:  # noqa: ANN401 - passed on
    return list(replay_v2(transcript.turns, transcript, **options))


def test_a_long_message_continues_in_chunks() -> None:
    text = "x" * 120_000
    chunk = update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})
    first, *rest = replayed(transcript_of(chunk))
    assert first["sessionUpdate"] == "agent_message"
    assert {it["sessionUpdate"] for it in rest} == {"agent_message_chunk"}
    pieces = [first["content"][0], *(it["content"] for it in rest)]
    assert "".join(piece["text"] for piece in pieces) == text
    assert {it["messageId"] for it in (first, *rest)} == {"rekindle-1"}


def test_terminals_are_sent_once_before_their_tool_calls() -> None:
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
    shown, *both = replayed(transcript_of(made, snapshot, *calls, protocol=2))
    assert shown["sessionUpdate"] == "terminal_update"
    assert (shown["command"], base64.b64decode(shown["output"]["data"])) == ("ls", b"one")
    assert [it["toolCallId"] for it in both] == ["a", "b"]


def test_the_raw_output_of_a_call_replaces_the_output_of_a_terminal_that_is_gone() -> None:
    call = update(
        sessionUpdate="tool_call",
        toolCallId="t",
        title="make",
        content=[{"type": "terminal", "terminalId": "x"}],
        rawOutput={"output": "all done"},
    )
    shown = replayed(transcript_of(call))[0]
    assert shown["terminalId"] == "x"
    assert base64.b64decode(shown["output"]["data"]) == b"all done"


def test_an_unfinished_call_is_as_the_agent_left_it_unless_its_turn_was_interrupted() -> None:
    call = update(sessionUpdate="tool_call", toolCallId="t", title="T", status="in_progress")
    cancelled = (Kind.ANSWER, {"result": {"stopReason": "cancelled"}})
    assert replayed(transcript_of(PROMPT, call, cancelled))[-1]["status"] == "cancelled"
    assert replayed(transcript_of(PROMPT, call))[-1]["status"] == "failed"
    ended = (Kind.ANSWER, {"result": {"stopReason": "end_turn"}})
    assert replayed(transcript_of(PROMPT, call, ended))[-1]["status"] == "in_progress"
    assert replayed(transcript_of(PROMPT, call), is_running=True)[-1]["status"] == "in_progress"


def test_handovers_and_gaps_are_messages() -> None:
    gap = (Kind.GAP, {"lostEntries": 3})
    handover = (Kind.HANDOVER, {"type": "text", "text": "User: secret"})
    first, second = replayed(transcript_of(gap, handover))
    assert "3 entries are missing" in first["content"][0]["text"]
    assert "Rekindle sent it the history" in second["content"][0]["text"]
    assert "secret" not in str(second)


def test_the_title_is_sent_if_there_is_one() -> None:
    assert replayed(transcript_of()) == []
    (info,) = replayed(transcript_of(), title="T")
    assert (info["sessionUpdate"], info["title"]) == ("session_info_update", "T")


OTHER_KINDS = [name for name, kind in KINDS.items() if kind.category is Category.OTHER]


@pytest.mark.parametrize("kind", [*OTHER_KINDS, "to_come", "_own"])
def test_other_updates_of_a_version_1_agent_are_replayed_like_live(kind: str) -> None:
    sent = update(sessionUpdate=kind, compactionId="c")
    live, _ = update_to_v2(LiveToV2("x"), sent[1]["params"]["update"])
    (again,) = replayed(transcript_of(sent))
    assert {**again, "_meta": None} == {**live, "_meta": None}
    is_shared = kind in OTHER_KINDS or kind.startswith("_")
    assert live["sessionUpdate"] == (kind if is_shared else f"_{kind}")


def test_an_invalid_made_id_is_ignored() -> None:
    made_id = (Kind.NAMED, {"kind": "odd", "messageId": "n"})
    chunk = update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "x"})
    assert replayed(transcript_of(made_id, chunk))[0]["messageId"] == "rekindle-2"
