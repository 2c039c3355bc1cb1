"""Codex's files: every type of record, every trap, and how they go on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from codex_files import SESSION, CodexFile, text, thread, write_file
from codex_sessions import bare, legacy, paginated, rolled_back
from importer_results import check_growth, entries_of, settled_of, talks_of, told, written_down
from rekindle.importers.base import ImportNotes
from rekindle.importers.codex.session import IMPORTER
from rekindle.transcript.model import Role, ToolCallItem, TranscriptMessage
from rekindle.transcript.reducer import fold

GOLDEN = Path(__file__).parents[1] / "golden"
NAME = f"rollout-2026-01-09T10-00-00-{SESSION}.jsonl"


def inherited(home: Path) -> Path:
    """Write sessions of which one begins with another, which begins with a third."""
    first = CodexFile(thread(1), mode="paginated")
    first.turn(1)
    first.turn(2)
    first.write(home, is_archived=True)
    second = CodexFile(
        thread(2), mode="paginated", first=first.ordinal, forked_from_id=thread(1),
        history_base=first.base(), minute=1,
    )  # fmt: skip
    second.turn(3)
    kept = len(second.lines)
    second.turn(4)
    second.write(home, is_compressed=True)
    third = CodexFile(
        thread(3), mode="paginated", first=second.ordinal, history_base=second.base(kept), minute=2
    )
    third.turn(5)
    return third.write(home)


def reverted(home: Path) -> Path:
    """Write a session that was reverted: it goes on in another file, with the same id."""
    it = CodexFile(mode="paginated")
    it.turn(1)
    kept = len(it.lines)
    it.turn(2)
    it.write(home)
    later = CodexFile(mode="paginated", first=it.ordinal, history_base=it.base(kept), minute=5)
    later.turn(3)
    return later.write(home, rollout=thread(9), minute=5).parents[4]


def sub_agents(home: Path) -> Path:
    """Write a session and those of its sub-agents."""
    it = CodexFile(mode="paginated")
    it.turn(1)
    it.write(home)
    source = {"subagent": {"thread_spawn": {"parent_thread_id": SESSION, "depth": 1}}}
    child = CodexFile(
        thread(2), mode="paginated", first=it.ordinal, source=source, history_base=it.base(),
        subagent_history_start_ordinal=it.ordinal + 3, agent_nickname="Euler",
    )  # fmt: skip
    child.message("user", text("Question 1"))
    child.done("UserMessage", "u", content=[text("Question 1", "text")])
    child.begin(7)
    told_to = {"author": "/root", "recipient": "/root/a", "content": "Help", "trigger_turn": True}
    child.add("inter_agent_communication", told_to)
    child.answer("Helped")
    child.end(7)
    child.write(home)
    review = CodexFile(thread(3), source={"subagent": "review"}, parent_thread_id=SESSION)
    review.turn(8)
    return review.write(home).parents[4]


def damaged() -> bytes:
    """Return a file as crashes and strange hands leave it."""
    it = CodexFile()
    it.turn(1)
    it.lines.append(b"")
    it.lines.append(b"\0" * 20 + it.lines.pop(3))
    it.lines.append(b"not json")
    it.lines.append(b'{"type":"event_msg","payload":{"type":"user_message","message":"cut o')
    it.begin(2)
    it.ask("Half a character: \N{GRINNING FACE}")
    it.lines[-1] = it.lines[-1].replace("\N{GRINNING FACE}".encode(), rb"\ud83d")
    it.add("strange", {"type": "x"})
    it.put({"type": "event_msg"})
    it.put({"timestamp": 5, "type": "event_msg", "payload": 7})
    it.put({"payload": {}})
    it.event("strange_event")
    it.item("strange_item")
    it.done("StrangeItem", "x")
    it.done("Extension", "x", kind="strange.item")
    it.event("item_completed", item=5)
    it.event("user_message", message=7, images="x", local_images=[1, "/p.png"])
    it.event("user_message", message="<environment_context></environment_context>")
    it.event("user_message", message="Not mine", kind="user_instructions")
    it.event("agent_message", message=None)
    it.event("agent_reasoning")
    it.event("patch_apply_end", changes={"a": 1, "b": {"type": "update"}, "c": {"type": "add"}})
    it.event("mcp_tool_call_end", call_id=5, invocation={"server": 1}, result=[])
    it.event("web_search_end", action="x")
    it.item("message", role="user", content="words")
    it.item("message", role="assistant", content=[{"type": "output_text", "text": 5}, "x"])
    it.item("function_call", name="shell", arguments="{no json", call_id="call_1")
    it.item("function_call", name="shell", arguments='{"command": 5}', call_id="call_2")
    it.item("function_call", name="update_plan", arguments='{"plan": [1, {}]}', call_id="call_3")
    it.item("function_call", name="x")
    it.item("function_call_output", output="nobody's")
    it.output("call_1", {"content": "an object", "success": False})
    it.output("call_2", 5)
    it.output("call_unknown", "who asked?")
    it.item(
        "custom_tool_call",
        name="apply_patch",
        input="*** Begin Patch\n*** Add File: x",
        call_id="p",
    )
    it.item("custom_tool_call", name="apply_patch", input=5, call_id="q")
    it.event("thread_rolled_back")
    it.event("thread_rolled_back", num_turns=-1)
    it.lines.append("\u00e9\u0085\u2028".encode() + b"\xff")
    it.answer("Invalid: \xe9")
    it.lines[-2] = it.lines[-2].replace("\xe9".encode(), b"\xe9")
    it.add("inter_agent_communication", {"content": 5})
    it.add("compacted", [])
    return it.data() + b'{"type":"event_msg","pay'


def file_of(home: Path, data: bytes) -> Path:
    return write_file(home / NAME, data)


CASES: dict[str, Callable[[Path], Path]] = {
    "legacy": lambda home: legacy().write(home),
    "paginated": lambda home: paginated().write(home),
    "bare": lambda home: file_of(home, b"\n".join(bare())),
    "rolled-back": lambda home: rolled_back().write(home),
    "inherited": lambda home: inherited(home).parents[4],
    "reverted": reverted,
    "sub-agents": sub_agents,
    "damaged": lambda home: file_of(home, damaged()),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_made_of_it(name: str, tmp_path: Path, *, update: bool) -> None:
    golden = GOLDEN / f"codex-{name}.txt"
    made = written_down(IMPORTER, CASES[name](tmp_path), str(tmp_path))
    if update:
        golden.write_text(made, encoding="utf-8")
    assert made == golden.read_text(encoding="utf-8")


# -- how a file goes on -------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [legacy().lines, paginated().lines, bare()])
def test_a_file_that_grows_begins_with_what_was_told_before(
    tmp_path: Path, lines: list[bytes]
) -> None:
    check_growth(IMPORTER, tmp_path / NAME, lines)


def test_an_answer_is_settled_when_it_is_there(tmp_path: Path) -> None:
    it = CodexFile()
    it.turn(1)
    (talk,) = talks_of(IMPORTER, it.write(tmp_path))
    assert len(settled_of(talk)) == len(entries_of(talk)) == 3
    (talk,) = talks_of(IMPORTER, file_of(tmp_path, b"\n".join(bare())))
    assert len(settled_of(talk)) == len(entries_of(talk)) - 1


def told_of(it: CodexFile, home: Path) -> list[object]:
    return told(talks_of(IMPORTER, it.write(home))[0])


# -- turns --------------------------------------------------------------------------------------


def test_what_was_taken_back_is_a_branch(tmp_path: Path) -> None:
    main, *branches = talks_of(IMPORTER, rolled_back().write(tmp_path))
    assert told(main) == ["Question 1", "Answer 1", "Question 5", "Answer 5"]
    assert all(it.is_abandoned for it in branches)
    assert [told(it)[2:] for it in branches] == [
        ["Question 4", "Answer 4"],
        ["Question 2", "Answer 2", "Question 3", "Answer 3"],
    ]


def test_more_than_there_is_can_be_taken_back(tmp_path: Path) -> None:
    it = CodexFile()
    it.turn(1)
    it.turn(2)
    it.event("thread_rolled_back", num_turns=99)
    it.turn(3)
    it.event("thread_rolled_back", num_turns=0)
    main, branch = talks_of(IMPORTER, it.write(tmp_path))
    assert told(main) == ["Question 3", "Answer 3"]
    assert told(branch) == ["Question 1", "Answer 1", "Question 2", "Answer 2"]


def test_turns_before_a_compaction_can_be_taken_back(tmp_path: Path) -> None:
    it = CodexFile()
    it.turn(1)
    it.turn(2)
    it.add("compacted", {"message": "So far"})
    it.turn(3)
    it.event("thread_rolled_back", num_turns=2)
    it.turn(4)
    main, branch = talks_of(IMPORTER, it.write(tmp_path))
    assert told(main) == ["Question 1", "Answer 1", "Question 4", "Answer 4"]
    assert told(branch)[2:4] == ["Question 2", "Answer 2"]
    assert told(branch)[-3:] == ["So far", "Question 3", "Answer 3"]
    # A compaction that is older than what was taken back stays.
    it.event("thread_rolled_back", num_turns=1)
    it.add("compacted", {"message": "Anew"})
    it.turn(5)
    main, *_ = talks_of(IMPORTER, it.write(tmp_path))
    assert told(main)[:2] == ["Question 1", "Answer 1"]
    assert told(main)[-3:] == ["Anew", "Question 5", "Answer 5"]


def test_what_was_inherited_can_be_taken_back(tmp_path: Path) -> None:
    first = CodexFile(thread(1), mode="paginated")
    for number in (1, 2, 3):
        first.turn(number)
    first.event("thread_rolled_back", num_turns=1)
    first.write(tmp_path)
    it = CodexFile(thread(2), mode="paginated", first=first.ordinal, history_base=first.base())
    it.turn(4)
    it.event("thread_rolled_back", num_turns=2)
    path = it.write(tmp_path)
    main, *branches = talks_of(IMPORTER, path)
    assert told(main) == ["Question 1", "Answer 1"]
    assert main.is_rewound
    assert [told(branch)[2:] for branch in branches] == [
        ["Question 2", "Answer 2", "Question 4", "Answer 4"],
        ["Question 2", "Answer 2", "Question 3", "Answer 3"],
    ]
    it.turn(5)
    it.write(tmp_path)
    main, *_ = talks_of(IMPORTER, path)
    assert told(main) == ["Question 1", "Answer 1", "Question 5", "Answer 5"]
    assert not main.is_rewound


def test_what_was_said_meanwhile_is_taken_back_with_its_turn(tmp_path: Path) -> None:
    it = CodexFile()
    it.turn(0)
    it.turn(1)
    it.begin(2)
    it.ask("This")
    it.ask("And that")
    it.answer("Both")
    it.end(2)
    it.turn(3)
    it.event("thread_rolled_back", num_turns=3)
    main, branch = talks_of(IMPORTER, it.write(tmp_path))
    assert told(main) == ["Question 0", "Answer 0"]
    assert told(branch)[4:] == ["This", "And that", "Both", "Question 3", "Answer 3"]


def test_many_branches_are_kept_within_reason(tmp_path: Path) -> None:
    it = CodexFile()
    for number in range(60):
        it.turn(number)
        it.event("thread_rolled_back", num_turns=1)
    it.turn(60)
    notes = ImportNotes()
    assert len(talks_of(IMPORTER, it.write(tmp_path), notes)) == 51
    assert notes.skipped == {"a branch is left out, because there are many": 10}


def test_turns_of_older_files_end_where_the_next_begins(tmp_path: Path) -> None:
    it = CodexFile()
    for number in (1, 2):
        it.ask(f"Question {number}")
        it.answer(f"Answer {number}")
    it.ask("Question 3")
    talk = talks_of(IMPORTER, it.write(tmp_path))[0]
    turns = fold(entries_of(talk)).turns
    assert [turn.stop_reason for turn in turns] == ["end_turn", "end_turn", None]


def test_a_turn_that_was_cut_off_has_no_end(tmp_path: Path) -> None:
    it = CodexFile()
    it.begin(1)
    it.ask("Question 1")
    it.answer("Half an answer")
    it.turn(2)
    turns = fold(entries_of(talks_of(IMPORTER, it.write(tmp_path))[0])).turns
    assert [turn.stop_reason for turn in turns] == [None, "end_turn"]


# -- what belongs to the user, and what is told once --------------------------------------------


def test_nothing_that_codex_says_is_the_users(tmp_path: Path) -> None:
    for it in (legacy(), paginated()):
        words = told_of(it, tmp_path)
        said = " ".join(str(it) for it in words)
        for injected in ("AGENTS.md", "environment_context", "permissions", "IDE setup"):
            assert injected not in said


def test_a_file_without_events_is_told_by_what_the_model_was_told(tmp_path: Path) -> None:
    it = CodexFile()
    it.context()
    it.message("user", text("Question"), {"type": "input_image", "image_url": "https://x"})
    it.message("assistant", text("Answer", "output_text"))
    (talk,) = talks_of(IMPORTER, it.write(tmp_path))
    assert told(talk)[-1] == "Answer"
    assert settled_of(talk) == []
    it.event("user_message", message="Question")
    assert told_of(it, tmp_path) == ["Question"]


def test_each_call_is_told_once(tmp_path: Path) -> None:
    for it in (legacy(), paginated()):
        items = told_of(it, tmp_path)
        calls = [item for item in items if isinstance(item, ToolCallItem)]
        assert len({call.id for call in calls}) == len(calls)
        assert [call.fields["title"] for call in calls].count("Search for 'weather'") == 1
        assert "pending" not in [call.fields["status"] for call in calls]


def test_what_was_before_a_compaction_is_kept(tmp_path: Path) -> None:
    it = CodexFile()
    it.turn(1)
    it.add("compacted", {"message": "What was so far"})
    it.turn(2)
    items = [
        item
        for turn in fold(entries_of(talks_of(IMPORTER, it.write(tmp_path))[0])).turns
        for item in turn.items
    ]
    messages = [item for item in items if isinstance(item, TranscriptMessage)]
    assert [item.text for item in messages[:2]] == ["Question 1", "Answer 1"]
    assert "compacted here" in messages[2].text
    assert (messages[3].role, messages[3].text) == (Role.THOUGHT, "What was so far")
    assert [item.text for item in messages[4:]] == ["Question 2", "Answer 2"]


def test_a_file_without_words_is_no_session(tmp_path: Path) -> None:
    it = CodexFile()
    it.context()
    it.begin(1)
    assert talks_of(IMPORTER, it.write(tmp_path)) == []
