import json
from typing import Any

import pytest

from rekindle.model import Entry, Kind, Side
from rekindle.transcript.handover import (
    as_block,
    carries_history,
    handover_text,
    missing_turns_text,
    reminder_text,
)
from rekindle.transcript.preface import END
from rekindle.transcript.reducer import Transcript, fold

Json = dict[str, Any]


def text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def message(text: str) -> Json:
    return {"sessionUpdate": "agent_message_chunk", "content": text_block(text)}


def transcript_of(*turns: tuple[str, list[Json], Json | None]) -> Transcript:
    """Return a transcript. Each turn has a prompt, updates, and a response or None."""
    entries: list[Entry] = []

    def add(kind: Kind, message: Json) -> None:
        line = json.dumps(message).encode()
        seq = len(entries) + 1
        entries.append(Entry(seq=seq, side=Side.AGENT, kind=kind, at_us=seq, line=line))

    for prompt, updates, answer in turns:
        add(Kind.PROMPT, {"params": {"prompt": [text_block(prompt)]}})
        for update in updates:
            add(Kind.UPDATE, {"params": {"update": update}})
        if answer is not None:
            add(Kind.ANSWER, answer)
    return fold(entries)


DONE = {"result": {"stopReason": "end_turn"}}


def test_a_short_history_is_complete() -> None:
    text = handover_text(
        transcript_of(("Fix it", [message("Fixed.")], DONE), ("Thanks", [message("Sure")], DONE))
    )
    turns = "User: Fix it\nYou: Fixed.\n\nUser: Thanks\nYou: Sure"
    assert text.endswith(f"{turns}\n\n{END}")
    assert "you do not remember it" in text
    assert "omitted" not in text


def test_the_first_task_and_the_last_turns_are_kept() -> None:
    turns = [(f"prompt {n}", [message(f"answer {n} " + "x" * 500)], DONE) for n in range(50)]
    text = handover_text(transcript_of(*turns), 4000)
    assert len(text) <= 4000
    assert "User: prompt 0\n" in text
    assert "User: prompt 49\n" in text
    assert "User: prompt 20\n" not in text
    kept = [n for n in range(50) if f"User: prompt {n}\n" in text]
    assert kept == [0, *range(kept[1], 50)]
    assert f"[{kept[1] - 1} turns omitted]" in text
    for n in kept[1:]:
        assert f"answer {n} " + "x" * 500 in text


def test_one_omitted_turn_is_counted_in_the_singular() -> None:
    turns = [(f"prompt {n}", [message("x" * 500)], DONE) for n in range(3)]
    assert "[1 turn omitted]" in handover_text(transcript_of(*turns), 1500)


@pytest.mark.parametrize("budget", [1, 100, 500, 700, 2000, 10_000])
def test_the_budget_is_never_exceeded(budget: int) -> None:
    turns = [("p" * 3000, [message("a" * 3000)], DONE), ("q" * 3000, [message("b" * 3000)], DONE)]
    assert len(handover_text(transcript_of(*turns), budget)) <= budget


def test_a_turn_that_does_not_fit_is_shortened_in_the_middle() -> None:
    text = handover_text(
        transcript_of(("first", [message("ok")], DONE), ("q" * 9000, [], DONE)), 3000
    )
    assert "characters omitted" in text
    assert "User: first" in text


def test_abnormal_ends_of_turns_are_named() -> None:
    text = handover_text(
        transcript_of(
            ("a", [], {"error": {"code": -32603, "message": "no credit"}}),
            ("b", [], {"result": {"stopReason": "cancelled"}}),
            ("c", [], None),
        )
    )
    assert "[this turn failed: no credit]" in text
    assert "[this turn ended with: cancelled]" in text
    assert text.endswith(f"[this turn was interrupted]\n\n{END}")


def test_tool_calls_have_results_and_thoughts_are_left_out() -> None:
    diff = {"type": "diff", "path": "/a", "oldText": "x", "newText": "y\nz"}
    calls = [
        {"sessionUpdate": "agent_thought_chunk", "content": text_block("secret musing")},
        {
            "sessionUpdate": "tool_call",
            "toolCallId": "1",
            "title": "Edit /a",
            "status": "completed",
            "content": [diff],
        },
        {"sessionUpdate": "tool_call", "toolCallId": "2", "kind": "read", "rawOutput": {"n": 1}},
        {"sessionUpdate": "tool_call", "toolCallId": "3", "rawOutput": "raw"},
        {"sessionUpdate": "tool_call", "toolCallId": "4", "title": "Quiet", "status": "failed"},
        {
            "sessionUpdate": "tool_call",
            "toolCallId": "5",
            "title": "Long",
            "content": [{"type": "content", "content": text_block("r" * 5000)}],
        },
        {"sessionUpdate": "plan", "entries": []},
    ]
    text = handover_text(transcript_of(("go", calls, DONE)))
    assert "You used a tool: Edit /a (completed)\nchanges to /a:\n- x\n+ y\n+ z" in text
    assert 'You used a tool: read (not finished)\n{"n": 1}' in text
    assert "You used a tool: a tool (not finished)\nraw" in text
    assert "You used a tool: Quiet (failed)" in text
    assert "characters omitted" in text
    assert "secret musing" not in text


def test_only_an_unfinished_plan_is_included() -> None:
    steps = [{"content": "one", "status": "completed"}, {"content": "two", "status": "pending"}]
    plan = {"sessionUpdate": "plan", "entries": steps}
    text = handover_text(transcript_of(("go", [plan], DONE)))
    plan_text = "Current plan:\n- one (completed)\n- two (pending)"
    assert text.endswith(f"{plan_text}\n\n{END}")
    finished = {"sessionUpdate": "plan", "entries": steps[:1]}
    assert "Current plan" not in handover_text(transcript_of(("go", [plan, finished], DONE)))


def test_attachments_are_named() -> None:
    blocks = [
        {"type": "resource_link", "name": "a", "uri": "file:///a"},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "b"}},
        {"type": "image", "data": "x", "mimeType": "image/png"},
    ]
    line = json.dumps({"params": {"prompt": [text_block("See "), *blocks]}}).encode()
    entry = Entry(seq=1, side=Side.CLIENT, kind=Kind.PROMPT, at_us=1, line=line)
    text = handover_text(fold([entry]))
    assert "User: See [resource_link file:///a][resource file:///b][image]" in text


def test_an_empty_session_has_only_the_opening() -> None:
    assert "history" in handover_text(fold([]))


def test_the_block_is_plain_text() -> None:
    assert as_block("words") == {"type": "text", "text": "words"}


def test_a_long_plan_is_shortened_and_leaves_room_for_the_task() -> None:
    steps = [{"content": f"step {n} " + "x" * 500, "status": "pending"} for n in range(100)]
    plan = {"sessionUpdate": "plan", "entries": steps}
    text = handover_text(
        transcript_of(("The task", [plan, message("ok")], DONE), ("More", [], DONE)), 4000
    )
    assert "User: The task" in text
    assert "User: More" in text
    assert "characters omitted" in text.partition("Current plan")[2]
    assert len(text) <= 4000


def test_whole_last_turns_have_priority_over_the_first_answer() -> None:
    turns = [("t" * 9000, [message("a" * 100_000)], DONE)]
    turns += [(f"prompt {n} " + "p" * 3000, [], DONE) for n in range(3)]
    text = handover_text(transcript_of(*turns), 40_000)
    for n in range(3):
        assert f"User: prompt {n} " + "p" * 3000 in text
    assert "omitted]" in text
    assert len(text) <= 40_000


def test_the_output_of_a_terminal_is_included() -> None:
    call = {
        "sessionUpdate": "tool_call",
        "toolCallId": "t",
        "title": "make",
        "content": [{"type": "terminal", "terminalId": "x"}],
        "_meta": {"terminal_output": {"terminal_id": "x", "data": "all done"}},
    }
    assert "all done" in handover_text(transcript_of(("Go", [call], DONE)))


def test_the_raw_output_of_a_call_replaces_a_terminal_that_is_gone() -> None:
    text = {"type": "content", "content": {"type": "text", "text": "It took a second."}}
    call = {
        "sessionUpdate": "tool_call",
        "toolCallId": "t",
        "title": "make",
        "content": [text, {"type": "terminal", "terminalId": "x"}],
        "rawOutput": {"output": "all done"},
    }
    written = handover_text(transcript_of(("Go", [call], DONE)))
    assert "It took a second.\nall done" in written


def test_a_handover_is_recognised_in_an_agents_own_files() -> None:
    transcript = transcript_of(("Fix it", [message("I begin")], None))
    texts = (
        handover_text(transcript),
        reminder_text(transcript, transcript.turns),
        missing_turns_text(transcript, {1}),
        reminder_text(done := transcript_of(("Fix it", [message("I begin")], DONE)), done.turns),
    )
    assert len({text[:40] for text in texts}) == 4
    for result in texts:
        assert carries_history(f"{result}\n\nGo on")
    assert not carries_history("Go on")
    assert not carries_history("")
