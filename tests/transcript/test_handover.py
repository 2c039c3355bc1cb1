import json
from typing import Any

import pytest

from rekindle.model import Entry, Kind, Side
from rekindle.transcript.handover import as_block, carries_history, handover_text, reminder_text
from rekindle.transcript.reducer import Transcript, fold

Json = dict[str, Any]


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def said(words: str) -> Json:
    return {"sessionUpdate": "agent_message_chunk", "content": text(words)}


def talk(*turns: tuple[str, list[Json], Json | None]) -> Transcript:
    """Return the transcript of turns: a prompt, updates, and the answer if there was one."""
    entries: list[Entry] = []

    def add(kind: Kind, message: Json) -> None:
        line = json.dumps(message).encode()
        seq = len(entries) + 1
        entries.append(Entry(seq=seq, side=Side.AGENT, kind=kind, at_us=seq, line=line))

    for prompt, updates, answer in turns:
        add(Kind.PROMPT, {"params": {"prompt": [text(prompt)]}})
        for update in updates:
            add(Kind.UPDATE, {"params": {"update": update}})
        if answer is not None:
            add(Kind.ANSWER, answer)
    return fold(entries)


DONE = {"result": {"stopReason": "end_turn"}}


def test_everything_is_told_where_it_fits() -> None:
    words = handover_text(
        talk(("Fix it", [said("Fixed.")], DONE), ("Thanks", [said("Sure")], DONE))
    )
    assert words.endswith("User: Fix it\nYou: Fixed.\n\nUser: Thanks\nYou: Sure")
    assert "you have no memory" in words
    assert "left out" not in words


def test_the_first_task_and_the_last_turns_are_kept() -> None:
    turns = [(f"prompt {n}", [said(f"answer {n} " + "x" * 500)], DONE) for n in range(50)]
    words = handover_text(talk(*turns), 4000)
    assert len(words) <= 4000
    assert "User: prompt 0\n" in words
    assert "User: prompt 49\n" in words
    assert "User: prompt 20\n" not in words
    kept = [n for n in range(50) if f"User: prompt {n}\n" in words]
    assert kept == [0, *range(kept[1], 50)]
    assert f"[{kept[1] - 1} turns are left out here]" in words
    for n in kept[1:]:
        assert f"answer {n} " + "x" * 500 in words


def test_one_turn_left_out_is_told_as_one() -> None:
    turns = [(f"prompt {n}", [said("x" * 500)], DONE) for n in range(3)]
    assert "[1 turn is left out here]" in handover_text(talk(*turns), 1500)


@pytest.mark.parametrize("budget", [1, 100, 500, 700, 2000, 10_000])
def test_the_budget_is_never_exceeded(budget: int) -> None:
    turns = [("p" * 3000, [said("a" * 3000)], DONE), ("q" * 3000, [said("b" * 3000)], DONE)]
    assert len(handover_text(talk(*turns), budget)) <= budget


def test_a_turn_that_does_not_fit_is_shortened_in_the_middle() -> None:
    words = handover_text(talk(("first", [said("ok")], DONE), ("q" * 9000, [], DONE)), 3000)
    assert "characters are left out here" in words
    assert "User: first" in words


def test_how_turns_ended_is_told() -> None:
    words = handover_text(
        talk(
            ("a", [], {"error": {"code": -32603, "message": "no credit"}}),
            ("b", [], {"result": {"stopReason": "cancelled"}}),
            ("c", [], None),
        )
    )
    assert "[this turn failed: no credit]" in words
    assert "[this turn ended with: cancelled]" in words
    assert words.endswith("[this turn was cut off]")


def test_tools_are_told_with_their_results_and_thoughts_are_not() -> None:
    diff = {"type": "diff", "path": "/a", "oldText": "x", "newText": "y\nz"}
    calls = [
        {"sessionUpdate": "agent_thought_chunk", "content": text("secret musing")},
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
            "content": [{"type": "content", "content": text("r" * 5000)}],
        },
        {"sessionUpdate": "plan", "entries": []},
    ]
    words = handover_text(talk(("go", calls, DONE)))
    assert "You used a tool: Edit /a (completed)\nchange of /a:\n- x\n+ y\n+ z" in words
    assert 'You used a tool: read (not finished)\n{"n": 1}' in words
    assert "You used a tool: a tool (not finished)\nraw" in words
    assert "You used a tool: Quiet (failed)" in words
    assert "characters are left out here" in words
    assert "secret musing" not in words


def test_an_open_plan_is_told_and_a_finished_one_is_not() -> None:
    steps = [{"content": "one", "status": "completed"}, {"content": "two", "status": "pending"}]
    plan = {"sessionUpdate": "plan", "entries": steps}
    words = handover_text(talk(("go", [plan], DONE)))
    assert words.endswith("The plan, as it stands:\n- one (completed)\n- two (pending)")
    finished = {"sessionUpdate": "plan", "entries": steps[:1]}
    assert "The plan" not in handover_text(talk(("go", [plan, finished], DONE)))


def test_attachments_are_named() -> None:
    blocks = [
        {"type": "resource_link", "name": "a", "uri": "file:///a"},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "b"}},
        {"type": "image", "data": "x", "mimeType": "image/png"},
    ]
    line = json.dumps({"params": {"prompt": [text("See "), *blocks]}}).encode()
    entry = Entry(seq=1, side=Side.CLIENT, kind=Kind.PROMPT, at_us=1, line=line)
    words = handover_text(fold([entry]))
    assert "User: See [resource_link file:///a][resource file:///b][image]" in words


def test_nothing_said_is_nothing_to_hand_over_but_the_words_before_it() -> None:
    assert "record" in handover_text(fold([]))


def test_it_is_plain_text() -> None:
    assert as_block("words") == {"type": "text", "text": "words"}


def test_a_long_plan_leaves_room_for_the_task_and_says_that_it_is_cut() -> None:
    steps = [{"content": f"step {n} " + "x" * 500, "status": "pending"} for n in range(100)]
    plan = {"sessionUpdate": "plan", "entries": steps}
    words = handover_text(talk(("The task", [plan, said("ok")], DONE), ("More", [], DONE)), 4000)
    assert "User: The task" in words
    assert "User: More" in words
    assert "characters are left out here" in words.partition("The plan")[2]
    assert len(words) <= 4000


def test_turns_that_fit_are_kept_whole_before_the_first_answer() -> None:
    turns = [("t" * 9000, [said("a" * 100_000)], DONE)]
    turns += [(f"prompt {n} " + "p" * 3000, [], DONE) for n in range(3)]
    words = handover_text(talk(*turns), 40_000)
    for n in range(3):
        assert f"User: prompt {n} " + "p" * 3000 in words
    assert "left out here]" in words
    assert len(words) <= 40_000


def test_what_a_terminal_showed_is_told() -> None:
    call = {
        "sessionUpdate": "tool_call",
        "toolCallId": "t",
        "title": "make",
        "content": [{"type": "terminal", "terminalId": "x"}],
        "_meta": {"terminal_output": {"terminal_id": "x", "data": "all done"}},
    }
    assert "all done" in handover_text(talk(("Go", [call], DONE)))


def test_an_agent_that_was_told_the_record_is_known_by_what_it_has_kept() -> None:
    transcript = talk(("Fix it", [said("I begin")], None))
    for told in (handover_text(transcript), reminder_text(transcript)):
        assert carries_history(f"{told}\n\nGo on")
    assert not carries_history("Go on")
    assert not carries_history("")
