"""Claude Code's files: every type of record, every trap, and growth."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from claude_files import CWD, SESSION, ClaudeFile, everything, forked, said
from importer_results import (
    check_growth,
    describe_import,
    entries_of,
    items_of,
    read_sessions,
    settled_entries,
)
from rekindle.importers.base import ImportNotes, SourceSession
from rekindle.importers.claude.session import IMPORTER
from rekindle.model import TitleSource
from rekindle.transcript.handover import handover_text
from rekindle.transcript.model import Role, ToolCallItem, TranscriptMessage
from rekindle.transcript.reducer import fold
from rekindle.transcript.search_documents import search_documents
from selection import some_of

GOLDEN = Path(__file__).parents[1] / "golden"


def sub_agents(home: Path) -> Path:
    """Write a session with sub-agents in its own file, beside it, and below it."""
    file = ClaudeFile()
    file.user("Do it")
    file.call("msg_1", "toolu_1", "Task", {"description": "Help", "prompt": "Help me"})
    above = file.last
    file.user("Help me", parent=None, isSidechain=True)
    file.agent("msg_s", said("I helped"), "end_turn", isSidechain=True)
    file.user("Help with that", parent=None, isSidechain=True, agentId="c3")
    file.agent("msg_t", said("With that, too"), "end_turn", isSidechain=True, agentId="c3")
    file.last = above
    outcome = {"agentId": "a1", "status": "completed", "content": [said("Done")]}
    file.result("toolu_1", [said("Done")], outcome)
    file.agent("msg_2", said("It is done"), "end_turn")
    path = file.write(home)
    for name in ("subagents/agent-a1", "subagents/workflows/w1/agent-a1"):
        child = path.with_suffix("") / f"{name}.jsonl"
        child.parent.mkdir(parents=True, exist_ok=True)
        child.write_bytes(helper("Help me", "a1"))
    about = {"agentType": "helper", "description": "Helps"}
    (path.with_suffix("") / "subagents/agent-a1.meta.json").write_text(json.dumps(about))
    (path.parent / "agent-b2.jsonl").write_bytes(helper("Help me, too", "b2"))
    return path.parent


def helper(prompt: str, agent: str) -> bytes:
    file = ClaudeFile(isSidechain=True, agentId=agent)
    file.user(prompt)
    file.agent(f"msg_{agent}", said("Helped"), "end_turn")
    return file.data()


def damaged() -> bytes:
    """Return a file with all kinds of damage."""
    file = ClaudeFile()
    file.turn(1)
    file.lines.append(b"")
    file.lines.append(b"\0" * 20 + file.lines.pop(1))
    file.lines.append(b"not json")
    file.lines.append(b'{"type":"user","message":{"content":"cut o')
    file.user("Half a character: \N{GRINNING FACE}")
    file.lines[-1] = file.lines[-1].replace("\N{GRINNING FACE}".encode(), rb"\ud83d")
    file.lines.append(file.lines[-1])
    file.add("user")
    file.add("assistant", message={"content": 7, "id": 9, "stop_reason": []}, timestamp="then")
    file.add(
        "assistant", message={"id": "msg_x", "content": ["words", said("Words"), {"type": "z"}]}
    )
    file.add("user", message={"content": [{"type": "tool_result"}, {"type": "text", "text": 5}]})
    file.add("user", uuid=5, parentUuid=["x"], message={"content": "Odd names"}, isMeta="no")
    file.agent(
        "msg_y", {"type": "tool_use", "name": "Edit", "input": {"file_path": 3, "edits": "x"}}
    )
    file.call("msg_y", "toolu_y", "Edit", {"file_path": "/a", "edits": [1, {"old_string": "o"}]})
    file.call("msg_y", "toolu_z", "Bash", "no object")
    file.result("toolu_z", {"no": "list"}, ["odd"])
    file.result("toolu_unknown", [said("who asked?"), "plain", {"type": "image", "source": 1}])
    file.lines.append("\u00e9\u0085\u2028".encode() + b"\xff")
    file.agent("msg_z", said("Invalid: \xe9"), "end_turn")
    file.lines[-1] = file.lines[-1].replace("\xe9".encode(), b"\xe9")
    return file.data() + b'{"type":"assistant","message":{"con'


def whole(home: Path) -> Path:
    folder = "/home/user/.claude/projects/x"
    path = everything(folder).write(home)
    output = path.with_suffix("") / "tool-results" / "toolu_6.txt"
    output.parent.mkdir(parents=True)
    output.write_text("ok 1\nok 2\n")
    return path


CASES: dict[str, Callable[[Path], Path]] = {
    "everything": whole,
    "forked": lambda home: forked().write(home),
    "sub-agents": sub_agents,
    "damaged": lambda home: file_of(home, damaged()),
}


def file_of(home: Path, data: bytes) -> Path:
    path = home / f"{SESSION}.jsonl"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", CASES)
def test_import_matches_golden_file(name: str, tmp_path: Path, *, update: bool) -> None:
    golden = GOLDEN / f"claude-{name}.txt"
    made = describe_import(IMPORTER, CASES[name](tmp_path), str(tmp_path))
    if update:
        golden.write_text(made, encoding="utf-8")
    assert made == golden.read_text(encoding="utf-8")


# -- growth -------------------------------------------------------------------------------------


def test_growing_file_keeps_its_settled_entries(tmp_path: Path) -> None:
    check_growth(IMPORTER, tmp_path / f"{SESSION}.jsonl", everything().lines)


def test_truncated_file_keeps_its_settled_entries(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.turn(1)
    file.call("msg_2", "toolu_1", "Read", {"file_path": "/a"})
    file.result("toolu_1", "text \N{GRINNING FACE}")
    file.turn(2)
    data = file.data()
    path = tmp_path / f"{SESSION}.jsonl"
    for length in some_of(range(len(data))):
        path.write_bytes(data[:length])
        cut = entries_of(main) if (main := first(path)) else []
        path.write_bytes(data[: data.rfind(b"\n", 0, length) + 1])
        settled = settled_entries(main) if (main := first(path)) else []
        assert cut[: len(settled)] == settled


@given(st.data())
def test_changed_bytes_do_not_affect_earlier_entries(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    file = ClaudeFile()
    for number in range(4):
        file.turn(number)
        file.call(f"msg_c{number}", f"toolu_{number}", "Bash", {"command": "ls"})
        file.result(f"toolu_{number}", "a\nb")
    path = tmp_path_factory.mktemp("x") / f"{SESSION}.jsonl"
    whole_data = file.data()
    at = data.draw(st.integers(0, len(whole_data) - 1))
    changed = bytearray(whole_data)
    length = data.draw(st.integers(1, 40))
    changed[at : at + length] = data.draw(st.binary(min_size=0, max_size=40))
    path.write_bytes(bytes(changed))
    damaged_file = [entries_of(source) for source in read_sessions(IMPORTER, path)]
    path.write_bytes(whole_data[: whole_data.rfind(b"\n", 0, at) + 1])
    settled = settled_entries(main) if (main := first(path)) else []
    assert any(entries[: len(settled)] == settled for entries in [*damaged_file, settled])


def items_in(file: ClaudeFile, home: Path) -> list[object]:
    return items_of(read_sessions(IMPORTER, file.write(home))[0])


def first(path: Path) -> SourceSession | None:
    return next(iter(read_sessions(IMPORTER, path)), None)


# -- the tree ------------------------------------------------------------------------------------


def test_parallel_results_are_not_branches(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.user("Look")
    calls = [file.call("msg_1", f"toolu_{number}", "Read", {}) for number in range(3)]
    for number in (2, 0, 1):
        file.result(f"toolu_{number}", f"result {number}", parent=calls[number])
    file.agent("msg_2", said("Seen"), "end_turn")
    sources = read_sessions(IMPORTER, file.write(tmp_path))
    assert len(sources) == 1
    items = fold(entries_of(sources[0])).turns[0].items
    converted = [item for item in items if isinstance(item, ToolCallItem)]
    assert [call.fields["status"] for call in converted] == ["completed"] * 3
    assert isinstance(items[-1], TranscriptMessage)
    assert items[-1].text == "Seen"


def test_late_result_does_not_rewind_the_session(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.user("Look")
    call = file.call("msg_1", "toolu_1", "Bash", {"command": "sleep"})
    file.agent("msg_2", said("It takes a while"))
    path = file.write(tmp_path)
    before = settled_entries(read_sessions(IMPORTER, path)[0])
    file.result("toolu_1", "done", parent=call)
    sources = read_sessions(IMPORTER, file.write(tmp_path))
    assert [source.is_abandoned for source in sources] == [False]
    assert entries_of(sources[0])[: len(before)] == before
    assert len(entries_of(sources[0])) == len(before) + 1


def test_hooks_attachments_and_progress_are_not_branches(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.user("Look")
    above = file.last
    file.add("attachment", attachment={"type": "file"}, parent=above)
    file.add("progress", data={}, parent=above)
    file.agent("msg_1", said("Seen"), "end_turn", above)
    file.add("system", subtype="stop_hook_summary", parent=above)
    sources = read_sessions(IMPORTER, file.write(tmp_path))
    assert [len(entries_of(source)) for source in sources] == [3]


def test_edited_first_prompt_makes_a_branch(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.user("Firstly", parent=None)
    file.user("First", parent=None)
    file.agent("msg_1", said("Yes"), "end_turn")
    assert items_in(file, tmp_path) == ["First", "Yes"]
    sources = read_sessions(IMPORTER, file.path(tmp_path))
    assert [source.is_abandoned for source in sources] == [False, True]


def test_record_with_unknown_parent_follows_the_last_one(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.turn(1)
    file.user("Question 2", parent=file.uuid(999))
    file.agent("msg_2", said("Answer 2"), "end_turn")
    assert items_in(file, tmp_path) == ["Question 1", "Answer 1", "Question 2", "Answer 2"]


def test_records_without_ids_keep_their_order(tmp_path: Path) -> None:
    file = ClaudeFile()
    for number in (1, 2):
        file.loose("user", message={"content": f"Question {number}"})
        file.loose("assistant", message={"content": [said(f"Answer {number}")]})
    assert items_in(file, tmp_path) == ["Question 1", "Answer 1", "Question 2", "Answer 2"]


def test_messages_before_a_compaction_are_kept(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.turn(1)
    above = file.last
    file.add("system", subtype="compact_boundary", parent=None, logicalParentUuid=above)
    file.user("This session is being continued", isCompactSummary=True)
    file.turn(2)
    texts = items_in(file, tmp_path)
    assert texts[:2] == ["Question 1", "Answer 1"]
    assert "compacted here" in str(texts[2])
    assert texts[3:] == ["This session is being continued", "Question 2", "Answer 2"]
    items = [
        part
        for turn in fold(entries_of(read_sessions(IMPORTER, file.path(tmp_path))[0])).turns
        for part in turn.items
    ]
    assert [item.role for item in items if isinstance(item, TranscriptMessage)][3] is Role.THOUGHT


def test_handover_text_is_not_used_as_title(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.turn(1)
    (source,) = read_sessions(IMPORTER, file.write(tmp_path))
    record = handover_text(fold(entries_of(source)))
    handed = ClaudeFile()
    handed.user([said(record), said("Go on")])
    (source,) = read_sessions(IMPORTER, handed.write(tmp_path))
    assert source.incoming.titles == {TitleSource.PROMPT: "Go on"}
    # A tool may join the blocks of a prompt, and name the session after it.
    joined = ClaudeFile()
    joined.add("summary", summary=f"{record[:60]}…", leafUuid="x")
    joined.user(f"{record}\n\nGo on")
    (source,) = read_sessions(IMPORTER, joined.write(tmp_path))
    assert source.incoming.titles == {TitleSource.PROMPT: "Go on"}
    found = [it for turn in fold(entries_of(source)).turns for it in search_documents(turn)]
    assert [document.text for document in found] == ["Go on"]


def test_compaction_continues_the_branch_of_its_parent(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.turn(1)
    above = file.last
    file.user("This way")
    left = file.last
    file.user("That way", parent=above)
    file.add("system", subtype="compact_boundary", parent=None, logicalParentUuid=left)
    file.turn(2)
    assert items_in(file, tmp_path)[2:3] == ["This way"]
    assert "That way" not in items_in(file, tmp_path)


def test_number_of_branches_is_limited(tmp_path: Path) -> None:
    file = ClaudeFile()
    for number in range(60):
        file.user(f"Try {number}", parent=None)
    notes = ImportNotes()
    sources = read_sessions(IMPORTER, file.write(tmp_path), notes)
    assert len(sources) == 51
    assert notes.skipped == {"a branch was left out, because there are too many": 9}


def test_moved_session_has_its_new_folder(tmp_path: Path) -> None:
    file = ClaudeFile()
    file.user("Look")
    file.call("msg_1", "toolu_1", "Read", {"file_path": f"{CWD}/a.py"})
    file.result("toolu_1", "a")
    before = entries_of(read_sessions(IMPORTER, file.write(tmp_path))[0])
    file.loose("relocated", relocatedCwd="/home/user/elsewhere")
    notes = ImportNotes()
    (source,) = read_sessions(IMPORTER, file.write(tmp_path), notes)
    assert (source.folder, source.incoming.cwd) == ("/home/user/elsewhere",) * 2
    # Earlier entries do not change.
    assert entries_of(source) == before
    assert not notes.skipped
