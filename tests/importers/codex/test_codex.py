"""Codex's files: every type of record, every trap, and growth."""

from collections.abc import Callable
from pathlib import Path

import pytest

from codex_files import SESSION, CodexFile, text, thread, write_file
from codex_sessions import bare, legacy, paginated, rolled_back
from importer_results import (
    check_growth,
    describe_import,
    entries_of,
    items_of,
    read_sessions,
    settled_entries,
)
from rekindle.importers.base import ImportNotes
from rekindle.importers.codex.session import IMPORTER
from rekindle.transcript.model import Role, ToolCallItem, TranscriptMessage
from rekindle.transcript.reducer import fold

GOLDEN = Path(__file__).parents[1] / "golden"
NAME = f"rollout-2026-01-09T10-00-00-{SESSION}.jsonl"


def inherited(home: Path) -> Path:
    """Write a session that inherits a session, which inherits a third one."""
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
    """Write a reverted session, which continues in another file with the same id."""
    file = CodexFile(mode="paginated")
    file.turn(1)
    kept = len(file.lines)
    file.turn(2)
    file.write(home)
    later = CodexFile(mode="paginated", first=file.ordinal, history_base=file.base(kept), minute=5)
    later.turn(3)
    return later.write(home, rollout=thread(9), minute=5).parents[4]


def sub_agents(home: Path) -> Path:
    """Write a session and its sub-agents."""
    file = CodexFile(mode="paginated")
    file.turn(1)
    file.write(home)
    source = {"subagent": {"thread_spawn": {"parent_thread_id": SESSION, "depth": 1}}}
    child = CodexFile(
        thread(2), mode="paginated", first=file.ordinal, source=source, history_base=file.base(),
        subagent_history_start_ordinal=file.ordinal + 3, agent_nickname="Euler",
    )  # fmt: skip
    child.message("user", text("Question 1"))
    child.done("UserMessage", "u", content=[text("Question 1", "text")])
    child.begin(7)
    message = {"author": "/root", "recipient": "/root/a", "content": "Help", "trigger_turn": True}
    child.add("inter_agent_communication", message)
    child.answer("Helped")
    child.end(7)
    child.write(home)
    review = CodexFile(thread(3), source={"subagent": "review"}, parent_thread_id=SESSION)
    review.turn(8)
    return review.write(home).parents[4]


def damaged() -> bytes:
    """Return a file with all kinds of damage."""
    file = CodexFile()
    file.turn(1)
    file.lines.append(b"")
    file.lines.append(b"\0" * 20 + file.lines.pop(3))
    file.lines.append(b"not json")
    file.lines.append(b'{"type":"event_msg","payload":{"type":"user_message","message":"cut o')
    file.begin(2)
    file.ask("Half a character: \N{GRINNING FACE}")
    file.lines[-1] = file.lines[-1].replace("\N{GRINNING FACE}".encode(), rb"\ud83d")
    file.add("strange", {"type": "x"})
    file.put({"type": "event_msg"})
    file.put({"timestamp": 5, "type": "event_msg", "payload": 7})
    file.put({"payload": {}})
    file.event("strange_event")
    file.item("strange_item")
    file.done("StrangeItem", "x")
    file.done("Extension", "x", kind="strange.item")
    file.event("item_completed", item=5)
    file.event("user_message", message=7, images="x", local_images=[1, "/p.png"])
    file.event("user_message", message="<environment_context></environment_context>")
    file.event("user_message", message="Not mine", kind="user_instructions")
    file.event("agent_message", message=None)
    file.event("agent_reasoning")
    file.event("patch_apply_end", changes={"a": 1, "b": {"type": "update"}, "c": {"type": "add"}})
    file.event("mcp_tool_call_end", call_id=5, invocation={"server": 1}, result=[])
    file.event("web_search_end", action="x")
    file.item("message", role="user", content="words")
    file.item("message", role="assistant", content=[{"type": "output_text", "text": 5}, "x"])
    file.item("function_call", name="shell", arguments="{no json", call_id="call_1")
    file.item("function_call", name="shell", arguments='{"command": 5}', call_id="call_2")
    file.item("function_call", name="update_plan", arguments='{"plan": [1, {}]}', call_id="call_3")
    file.item("function_call", name="x")
    file.item("function_call_output", output="nobody's")
    file.output("call_1", {"content": "an object", "success": False})
    file.output("call_2", 5)
    file.output("call_unknown", "who asked?")
    file.item(
        "custom_tool_call",
        name="apply_patch",
        input="*** Begin Patch\n*** Add File: x",
        call_id="p",
    )
    file.item("custom_tool_call", name="apply_patch", input=5, call_id="q")
    file.event("thread_rolled_back")
    file.event("thread_rolled_back", num_turns=-1)
    file.lines.append("\u00e9\u0085\u2028".encode() + b"\xff")
    file.answer("Invalid: \xe9")
    file.lines[-2] = file.lines[-2].replace("\xe9".encode(), b"\xe9")
    file.add("inter_agent_communication", {"content": 5})
    file.add("compacted", [])
    return file.data() + b'{"type":"event_msg","pay'


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
def test_import_matches_golden_file(name: str, tmp_path: Path, *, update: bool) -> None:
    golden = GOLDEN / f"codex-{name}.txt"
    made = describe_import(IMPORTER, CASES[name](tmp_path), str(tmp_path))
    if update:
        golden.write_text(made, encoding="utf-8")
    assert made == golden.read_text(encoding="utf-8")


# -- growth -------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [legacy().lines, paginated().lines, bare()])
def test_growing_file_keeps_its_settled_entries(tmp_path: Path, lines: list[bytes]) -> None:
    check_growth(IMPORTER, tmp_path / NAME, lines)


def test_completed_answer_is_settled(tmp_path: Path) -> None:
    file = CodexFile()
    file.turn(1)
    (source,) = read_sessions(IMPORTER, file.write(tmp_path))
    assert len(settled_entries(source)) == len(entries_of(source)) == 3
    (source,) = read_sessions(IMPORTER, file_of(tmp_path, b"\n".join(bare())))
    assert len(settled_entries(source)) == len(entries_of(source)) - 1


def items_in(file: CodexFile, home: Path) -> list[object]:
    return items_of(read_sessions(IMPORTER, file.write(home))[0])


# -- turns --------------------------------------------------------------------------------------


def test_rolled_back_turns_become_a_branch(tmp_path: Path) -> None:
    main, *branches = read_sessions(IMPORTER, rolled_back().write(tmp_path))
    assert items_of(main) == ["Question 1", "Answer 1", "Question 5", "Answer 5"]
    assert all(source.is_abandoned for source in branches)
    assert [items_of(source)[2:] for source in branches] == [
        ["Question 4", "Answer 4"],
        ["Question 2", "Answer 2", "Question 3", "Answer 3"],
    ]


def test_rollback_of_more_turns_than_exist_removes_all(tmp_path: Path) -> None:
    file = CodexFile()
    file.turn(1)
    file.turn(2)
    file.event("thread_rolled_back", num_turns=99)
    file.turn(3)
    file.event("thread_rolled_back", num_turns=0)
    main, branch = read_sessions(IMPORTER, file.write(tmp_path))
    assert items_of(main) == ["Question 3", "Answer 3"]
    assert items_of(branch) == ["Question 1", "Answer 1", "Question 2", "Answer 2"]


def test_turns_before_a_compaction_can_be_rolled_back(tmp_path: Path) -> None:
    file = CodexFile()
    file.turn(1)
    file.turn(2)
    file.add("compacted", {"message": "So far"})
    file.turn(3)
    file.event("thread_rolled_back", num_turns=2)
    file.turn(4)
    main, branch = read_sessions(IMPORTER, file.write(tmp_path))
    assert items_of(main) == ["Question 1", "Answer 1", "Question 4", "Answer 4"]
    assert items_of(branch)[2:4] == ["Question 2", "Answer 2"]
    assert items_of(branch)[-3:] == ["So far", "Question 3", "Answer 3"]
    # A compaction before the rolled back turns stays.
    file.event("thread_rolled_back", num_turns=1)
    file.add("compacted", {"message": "Anew"})
    file.turn(5)
    main, *_ = read_sessions(IMPORTER, file.write(tmp_path))
    assert items_of(main)[:2] == ["Question 1", "Answer 1"]
    assert items_of(main)[-3:] == ["Anew", "Question 5", "Answer 5"]


def test_inherited_turns_can_be_rolled_back(tmp_path: Path) -> None:
    first = CodexFile(thread(1), mode="paginated")
    for number in (1, 2, 3):
        first.turn(number)
    first.event("thread_rolled_back", num_turns=1)
    first.write(tmp_path)
    file = CodexFile(thread(2), mode="paginated", first=first.ordinal, history_base=first.base())
    file.turn(4)
    file.event("thread_rolled_back", num_turns=2)
    path = file.write(tmp_path)
    main, *branches = read_sessions(IMPORTER, path)
    assert items_of(main) == ["Question 1", "Answer 1"]
    assert main.is_rewound
    assert [items_of(branch)[2:] for branch in branches] == [
        ["Question 2", "Answer 2", "Question 4", "Answer 4"],
        ["Question 2", "Answer 2", "Question 3", "Answer 3"],
    ]
    file.turn(5)
    file.write(tmp_path)
    main, *_ = read_sessions(IMPORTER, path)
    assert items_of(main) == ["Question 1", "Answer 1", "Question 5", "Answer 5"]
    assert not main.is_rewound


def test_steering_prompt_is_rolled_back_with_its_turn(tmp_path: Path) -> None:
    file = CodexFile()
    file.turn(0)
    file.turn(1)
    file.begin(2)
    file.ask("This")
    file.ask("And that")
    file.answer("Both")
    file.end(2)
    file.turn(3)
    file.event("thread_rolled_back", num_turns=3)
    main, branch = read_sessions(IMPORTER, file.write(tmp_path))
    assert items_of(main) == ["Question 0", "Answer 0"]
    assert items_of(branch)[4:] == ["This", "And that", "Both", "Question 3", "Answer 3"]


def test_number_of_branches_is_limited(tmp_path: Path) -> None:
    file = CodexFile()
    for number in range(60):
        file.turn(number)
        file.event("thread_rolled_back", num_turns=1)
    file.turn(60)
    notes = ImportNotes()
    assert len(read_sessions(IMPORTER, file.write(tmp_path), notes)) == 51
    assert notes.skipped == {"a branch was left out, because there are too many": 10}


def test_turn_of_an_older_file_ends_where_the_next_begins(tmp_path: Path) -> None:
    file = CodexFile()
    for number in (1, 2):
        file.ask(f"Question {number}")
        file.answer(f"Answer {number}")
    file.ask("Question 3")
    source = read_sessions(IMPORTER, file.write(tmp_path))[0]
    turns = fold(entries_of(source)).turns
    assert [turn.stop_reason for turn in turns] == ["end_turn", "end_turn", None]


def test_interrupted_turn_has_no_stop_reason(tmp_path: Path) -> None:
    file = CodexFile()
    file.begin(1)
    file.ask("Question 1")
    file.answer("Half an answer")
    file.turn(2)
    turns = fold(entries_of(read_sessions(IMPORTER, file.write(tmp_path))[0])).turns
    assert [turn.stop_reason for turn in turns] == [None, "end_turn"]


# -- the user's own text, and duplicates ---------------------------------------------------------


def test_context_added_by_codex_is_left_out(tmp_path: Path) -> None:
    for file in (legacy(), paginated()):
        text = " ".join(map(str, items_in(file, tmp_path)))
        for injected in ("AGENTS.md", "environment_context", "permissions", "IDE setup"):
            assert injected not in text


def test_file_without_events_is_converted_from_model_items(tmp_path: Path) -> None:
    file = CodexFile()
    file.context()
    file.message("user", text("Question"), {"type": "input_image", "image_url": "https://x"})
    file.message("assistant", text("Answer", "output_text"))
    (source,) = read_sessions(IMPORTER, file.write(tmp_path))
    assert items_of(source)[-1] == "Answer"
    assert settled_entries(source) == []
    file.event("user_message", message="Question")
    assert items_in(file, tmp_path) == ["Question"]


def test_each_call_is_converted_once(tmp_path: Path) -> None:
    for file in (legacy(), paginated()):
        items = items_in(file, tmp_path)
        calls = [item for item in items if isinstance(item, ToolCallItem)]
        assert len({call.id for call in calls}) == len(calls)
        assert [call.fields["title"] for call in calls].count("Search for 'weather'") == 1
        assert "pending" not in [call.fields["status"] for call in calls]


def test_messages_before_a_compaction_are_kept(tmp_path: Path) -> None:
    file = CodexFile()
    file.turn(1)
    file.add("compacted", {"message": "What was so far"})
    file.turn(2)
    items = [
        item
        for turn in fold(entries_of(read_sessions(IMPORTER, file.write(tmp_path))[0])).turns
        for item in turn.items
    ]
    messages = [item for item in items if isinstance(item, TranscriptMessage)]
    assert [item.text for item in messages[:2]] == ["Question 1", "Answer 1"]
    assert "compacted here" in messages[2].text
    assert (messages[3].role, messages[3].text) == (Role.THOUGHT, "What was so far")
    assert [item.text for item in messages[4:]] == ["Question 2", "Answer 2"]


def test_file_without_messages_is_not_imported(tmp_path: Path) -> None:
    file = CodexFile()
    file.context()
    file.begin(1)
    assert read_sessions(IMPORTER, file.write(tmp_path)) == []
