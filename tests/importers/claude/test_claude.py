"""Claude Code's files: every type of record, every trap, and how they go on."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from claude_files import CWD, SESSION, ClaudeFile, everything, forked, said
from importer_results import check_growth, entries_of, settled_of, talks_of, told, written_down
from rekindle.importers.base import Notes, Talk
from rekindle.importers.claude import TOOL
from rekindle.model import TitleSource
from rekindle.transcript.handover import handover_text
from rekindle.transcript.model import Role, ToolCallItem, TranscriptMessage
from rekindle.transcript.reducer import fold
from test_selection import some_of

GOLDEN = Path(__file__).parents[1] / "golden"


def sub_agents(home: Path) -> Path:
    """Write a session with sub-agents: in its own file, beside it, and below it."""
    it = ClaudeFile()
    it.user("Do it")
    it.call("msg_1", "toolu_1", "Task", {"description": "Help", "prompt": "Help me"})
    above = it.last
    it.user("Help me", parent=None, isSidechain=True)
    it.agent("msg_s", said("I helped"), "end_turn", isSidechain=True)
    it.user("Help with that", parent=None, isSidechain=True, agentId="c3")
    it.agent("msg_t", said("With that, too"), "end_turn", isSidechain=True, agentId="c3")
    it.last = above
    outcome = {"agentId": "a1", "status": "completed", "content": [said("Done")]}
    it.result("toolu_1", [said("Done")], outcome)
    it.agent("msg_2", said("It is done"), "end_turn")
    path = it.write(home)
    for name in ("subagents/agent-a1", "subagents/workflows/w1/agent-a1"):
        child = path.with_suffix("") / f"{name}.jsonl"
        child.parent.mkdir(parents=True, exist_ok=True)
        child.write_bytes(helper("Help me", "a1"))
    about = {"agentType": "helper", "description": "Helps"}
    (path.with_suffix("") / "subagents/agent-a1.meta.json").write_text(json.dumps(about))
    (path.parent / "agent-b2.jsonl").write_bytes(helper("Help me, too", "b2"))
    return path.parent


def helper(words: str, agent: str) -> bytes:
    it = ClaudeFile(isSidechain=True, agentId=agent)
    it.user(words)
    it.agent(f"msg_{agent}", said("Helped"), "end_turn")
    return it.data()


def damaged() -> bytes:
    """Return a file as crashes and strange hands leave it."""
    it = ClaudeFile()
    it.turn(1)
    it.lines.append(b"")
    it.lines.append(b"\0" * 20 + it.lines.pop(1))
    it.lines.append(b"not json")
    it.lines.append(b'{"type":"user","message":{"content":"cut o')
    it.user("Half a character: \N{GRINNING FACE}")
    it.lines[-1] = it.lines[-1].replace("\N{GRINNING FACE}".encode(), rb"\ud83d")
    it.lines.append(it.lines[-1])
    it.add("user")
    it.add("assistant", message={"content": 7, "id": 9, "stop_reason": []}, timestamp="then")
    it.add("assistant", message={"id": "msg_x", "content": ["words", said("Words"), {"type": "z"}]})
    it.add("user", message={"content": [{"type": "tool_result"}, {"type": "text", "text": 5}]})
    it.add("user", uuid=5, parentUuid=["x"], message={"content": "Odd names"}, isMeta="no")
    it.agent("msg_y", {"type": "tool_use", "name": "Edit", "input": {"file_path": 3, "edits": "x"}})
    it.call("msg_y", "toolu_y", "Edit", {"file_path": "/a", "edits": [1, {"old_string": "o"}]})
    it.call("msg_y", "toolu_z", "Bash", "no object")
    it.result("toolu_z", {"no": "list"}, ["odd"])
    it.result("toolu_unknown", [said("who asked?"), "plain", {"type": "image", "source": 1}])
    it.lines.append("\u00e9\u0085\u2028".encode() + b"\xff")
    it.agent("msg_z", said("Invalid: \xe9"), "end_turn")
    it.lines[-1] = it.lines[-1].replace("\xe9".encode(), b"\xe9")
    return it.data() + b'{"type":"assistant","message":{"con'


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
def test_what_is_made_of_it(name: str, tmp_path: Path, *, update: bool) -> None:
    golden = GOLDEN / f"claude-{name}.txt"
    made = written_down(TOOL, CASES[name](tmp_path), str(tmp_path))
    if update:
        golden.write_text(made, encoding="utf-8")
    assert made == golden.read_text(encoding="utf-8")


# -- how a file goes on -------------------------------------------------------------------------


def test_a_file_that_grows_begins_with_what_was_told_before(tmp_path: Path) -> None:
    check_growth(TOOL, tmp_path / f"{SESSION}.jsonl", everything().lines)


def test_a_file_that_is_cut_anywhere_tells_what_is_before(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.turn(1)
    it.call("msg_2", "toolu_1", "Read", {"file_path": "/a"})
    it.result("toolu_1", "text \N{GRINNING FACE}")
    it.turn(2)
    data = it.data()
    path = tmp_path / f"{SESSION}.jsonl"
    for length in some_of(range(len(data))):
        path.write_bytes(data[:length])
        cut = entries_of(main) if (main := first(path)) else []
        path.write_bytes(data[: data.rfind(b"\n", 0, length) + 1])
        sure = settled_of(main) if (main := first(path)) else []
        assert cut[: len(sure)] == sure


@given(st.data())
def test_a_file_with_changed_bytes_tells_what_is_before(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    it = ClaudeFile()
    for number in range(4):
        it.turn(number)
        it.call(f"msg_c{number}", f"toolu_{number}", "Bash", {"command": "ls"})
        it.result(f"toolu_{number}", "a\nb")
    path = tmp_path_factory.mktemp("x") / f"{SESSION}.jsonl"
    whole_data = it.data()
    at = data.draw(st.integers(0, len(whole_data) - 1))
    changed = bytearray(whole_data)
    length = data.draw(st.integers(1, 40))
    changed[at : at + length] = data.draw(st.binary(min_size=0, max_size=40))
    path.write_bytes(bytes(changed))
    damaged_file = [entries_of(it) for it in talks_of(TOOL, path)]
    path.write_bytes(whole_data[: whole_data.rfind(b"\n", 0, at) + 1])
    sure = settled_of(main) if (main := first(path)) else []
    assert any(it[: len(sure)] == sure for it in [*damaged_file, sure])


def told_of(it: ClaudeFile, home: Path) -> list[object]:
    return told(talks_of(TOOL, it.write(home))[0])


def first(path: Path) -> Talk | None:
    return next(iter(talks_of(TOOL, path)), None)


# -- the tree ------------------------------------------------------------------------------------


def test_results_beside_each_other_are_no_branches(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.user("Look")
    calls = [it.call("msg_1", f"toolu_{number}", "Read", {}) for number in range(3)]
    for number in (2, 0, 1):
        it.result(f"toolu_{number}", f"result {number}", parent=calls[number])
    it.agent("msg_2", said("Seen"), "end_turn")
    talks = talks_of(TOOL, it.write(tmp_path))
    assert len(talks) == 1
    items = fold(entries_of(talks[0])).turns[0].items
    calls_told = [item for item in items if isinstance(item, ToolCallItem)]
    assert [call.fields["status"] for call in calls_told] == ["completed"] * 3
    assert isinstance(items[-1], TranscriptMessage)
    assert items[-1].text == "Seen"


def test_a_result_that_comes_late_takes_nothing_back(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.user("Look")
    call = it.call("msg_1", "toolu_1", "Bash", {"command": "sleep"})
    it.agent("msg_2", said("It takes a while"))
    path = it.write(tmp_path)
    before = settled_of(talks_of(TOOL, path)[0])
    it.result("toolu_1", "done", parent=call)
    talks = talks_of(TOOL, it.write(tmp_path))
    assert [talk.is_aside for talk in talks] == [False]
    assert entries_of(talks[0])[: len(before)] == before
    assert len(entries_of(talks[0])) == len(before) + 1


def test_hooks_attachments_and_progress_are_no_branches(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.user("Look")
    above = it.last
    it.add("attachment", attachment={"type": "file"}, parent=above)
    it.add("progress", data={}, parent=above)
    it.agent("msg_1", said("Seen"), "end_turn", above)
    it.add("system", subtype="stop_hook_summary", parent=above)
    talks = talks_of(TOOL, it.write(tmp_path))
    assert [len(entries_of(talk)) for talk in talks] == [3]


def test_the_first_prompt_can_be_edited(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.user("Firstly", parent=None)
    it.user("First", parent=None)
    it.agent("msg_1", said("Yes"), "end_turn")
    assert told_of(it, tmp_path) == ["First", "Yes"]
    talks = talks_of(TOOL, it.path(tmp_path))
    assert [talk.is_aside for talk in talks] == [False, True]


def test_a_record_that_follows_an_unknown_one_follows_what_is_before_it(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.turn(1)
    it.user("Question 2", parent=it.uuid(999))
    it.agent("msg_2", said("Answer 2"), "end_turn")
    assert told_of(it, tmp_path) == ["Question 1", "Answer 1", "Question 2", "Answer 2"]


def test_records_without_names_are_told_in_their_order(tmp_path: Path) -> None:
    it = ClaudeFile()
    for number in (1, 2):
        it.loose("user", message={"content": f"Question {number}"})
        it.loose("assistant", message={"content": [said(f"Answer {number}")]})
    assert told_of(it, tmp_path) == ["Question 1", "Answer 1", "Question 2", "Answer 2"]


def test_what_was_before_a_compaction_is_kept(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.turn(1)
    above = it.last
    it.add("system", subtype="compact_boundary", parent=None, logicalParentUuid=above)
    it.user("This session is being continued", isCompactSummary=True)
    it.turn(2)
    words = told_of(it, tmp_path)
    assert words[:2] == ["Question 1", "Answer 1"]
    assert "compacted here" in str(words[2])
    assert words[3:] == ["This session is being continued", "Question 2", "Answer 2"]
    items = [
        it
        for turn in fold(entries_of(talks_of(TOOL, it.path(tmp_path))[0])).turns
        for it in turn.items
    ]
    assert [item.role for item in items if isinstance(item, TranscriptMessage)][3] is Role.THOUGHT


def test_what_an_agent_was_handed_is_no_title(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.turn(1)
    (talk,) = talks_of(TOOL, it.write(tmp_path))
    record = handover_text(fold(entries_of(talk)))
    handed = ClaudeFile()
    handed.user([said(record), said("Go on")])
    (talk,) = talks_of(TOOL, handed.write(tmp_path))
    assert talk.arrived.titles == {TitleSource.PROMPT: "Go on"}


def test_a_compaction_goes_on_with_the_branch_that_it_names(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.turn(1)
    above = it.last
    it.user("This way")
    left = it.last
    it.user("That way", parent=above)
    it.add("system", subtype="compact_boundary", parent=None, logicalParentUuid=left)
    it.turn(2)
    assert told_of(it, tmp_path)[2:3] == ["This way"]
    assert "That way" not in told_of(it, tmp_path)


def test_many_branches_are_kept_within_reason(tmp_path: Path) -> None:
    it = ClaudeFile()
    for number in range(60):
        it.user(f"Try {number}", parent=None)
    notes = Notes()
    talks = talks_of(TOOL, it.write(tmp_path), notes)
    assert len(talks) == 51
    assert notes.skipped == {"a branch is left out, because there are many": 9}


def test_a_session_that_was_moved_belongs_to_where_it_is_now(tmp_path: Path) -> None:
    it = ClaudeFile()
    it.user("Look")
    it.call("msg_1", "toolu_1", "Read", {"file_path": f"{CWD}/a.py"})
    it.result("toolu_1", "a")
    before = entries_of(talks_of(TOOL, it.write(tmp_path))[0])
    it.loose("relocated", relocatedCwd="/home/user/elsewhere")
    notes = Notes()
    (talk,) = talks_of(TOOL, it.write(tmp_path), notes)
    assert (talk.folder, talk.arrived.cwd) == ("/home/user/elsewhere",) * 2
    # What was told before stays as it was.
    assert entries_of(talk) == before
    assert not notes.skipped
