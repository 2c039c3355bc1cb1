"""Imports from Codex: sessions follow their files, which move, roll back and fork."""

import json
from pathlib import Path

import pytest

from codex_files import SESSION, CodexFile, thread
from codex_sessions import legacy, paginated
from rekindle.importers.codex.session import IMPORTER
from rekindle.jsonvalue import as_array, as_object, decode_object
from rekindle.model import Archived, Kind, Page, TitleSource
from rekindle.store.base import Store
from rekindle.transfer.merge import MergeOutcome
from tool_imports import Run, everything


@pytest.fixture
def file() -> CodexFile:
    it = CodexFile(mode="paginated")
    it.turn(1)
    return it


def run(store: Store, home: Path) -> Run:
    return Run(store, home / ".codex", IMPORTER)


def asked(store: Store, session_id: str = SESSION) -> list[object]:
    prompts = [it for it in store.read(session_id) if it.kind is Kind.PROMPT]
    params = [as_object((decode_object(it.line) or {}).get("params")) for it in prompts]
    return [as_object(as_array(it.get("prompt"))[0]).get("text") for it in params]


def archived(store: Store) -> list[str]:
    return [it.id for it in store.sessions(Page(archived=True))]


def test_import_is_idempotent(store: Store, tmp_path: Path) -> None:
    legacy().write(tmp_path)
    it = paginated()
    it.thread_id = thread(2)
    it.write(tmp_path)
    assert run(store, tmp_path).outcomes == [MergeOutcome.NEW, MergeOutcome.NEW]
    first = everything(store)
    again = run(store, tmp_path)
    assert (again.read, again.report.outcomes) == (0, {MergeOutcome.UNCHANGED: 2})
    for path in (tmp_path / ".codex").rglob("*.jsonl"):
        path.touch()
    again = run(store, tmp_path)
    assert (again.read, again.outcomes) == (2, [])
    assert [entries for _, _, entries in everything(store)] == [it for _, _, it in first]


def test_growing_file_extends_session(store: Store, file: CodexFile, tmp_path: Path) -> None:
    for line in range(1, len(file.lines)):
        part = CodexFile(mode="paginated")
        part.lines = file.lines[:line]
        part.write(tmp_path)
        run(store, tmp_path)
    file.turn(2)
    file.write(tmp_path)
    assert run(store, tmp_path).outcomes in ([MergeOutcome.EXTENDED], [MergeOutcome.NEW])
    ((session, _, _),) = everything(store)
    assert asked(store) == ["Question 1", "Question 2"]
    assert (session.turns, session.messages) == (2, 4)


def test_moved_or_compressed_file_is_the_same_session(
    store: Store, file: CodexFile, tmp_path: Path
) -> None:
    path = file.write(tmp_path)
    run(store, tmp_path)
    for number, (is_archived, is_compressed) in enumerate(
        [(True, False), (True, True), (False, False)]
    ):
        path.unlink()
        path = file.write(tmp_path, is_archived=is_archived, is_compressed=is_compressed)
        assert run(store, tmp_path).outcomes == []
        path.unlink()
        file.turn(2 + number)
        path = file.write(tmp_path, is_archived=is_archived, is_compressed=is_compressed)
        assert run(store, tmp_path).outcomes == [MergeOutcome.EXTENDED]
    assert len(everything(store)) == 1
    assert asked(store) == ["Question 1", "Question 2", "Question 3", "Question 4"]


def test_rolled_back_turns_are_kept_in_one_branch(store: Store, tmp_path: Path) -> None:
    it = CodexFile()
    it.turn(1)
    it.turn(2)
    it.write(tmp_path)
    run(store, tmp_path)
    it.event("thread_rolled_back", num_turns=1)
    it.write(tmp_path)
    run(store, tmp_path)
    assert asked(store) == ["Question 1"]
    assert len(archived(store)) == 1
    it.turn(3)
    it.write(tmp_path)
    run(store, tmp_path)
    (branch,) = archived(store)
    assert asked(store) == ["Question 1", "Question 3"]
    assert asked(store, branch) == ["Question 1", "Question 2"]
    it.turn(4)
    it.write(tmp_path)
    run(store, tmp_path)
    assert archived(store) == [branch]
    assert len(everything(store)) == 2


def test_reverted_session_follows_its_new_file(
    store: Store, file: CodexFile, tmp_path: Path
) -> None:
    kept = len(file.lines)
    file.turn(2)
    file.write(tmp_path)
    run(store, tmp_path)
    later = CodexFile(mode="paginated", first=file.ordinal, history_base=file.base(kept))
    later.write(tmp_path, rollout=thread(9), minute=5)
    assert run(store, tmp_path).outcomes[0] is MergeOutcome.EXTENDED
    assert asked(store) == ["Question 1"]
    later.turn(3)
    later.write(tmp_path, rollout=thread(9), minute=5)
    assert run(store, tmp_path).outcomes == [MergeOutcome.EXTENDED]
    (branch,) = archived(store)
    assert asked(store) == ["Question 1", "Question 3"]
    assert asked(store, branch) == ["Question 1", "Question 2"]
    assert run(store, tmp_path).read == 0


def test_every_abandoned_file_is_kept_as_a_branch(
    store: Store, file: CodexFile, tmp_path: Path
) -> None:
    base = file.base()
    file.turn(2)
    file.write(tmp_path)
    for number in (3, 4):
        later = CodexFile(mode="paginated", first=file.ordinal, history_base=base)
        later.turn(number)
        later.write(tmp_path, rollout=thread(number), minute=number)
    run(store, tmp_path)
    assert asked(store) == ["Question 1", "Question 4"]
    left = [asked(store, it) for it in archived(store)]
    assert sorted(left) == [["Question 1", "Question 2"], ["Question 1", "Question 3"]]
    # One of the abandoned files grows.
    file.turn(5)
    file.write(tmp_path)
    run(store, tmp_path)
    left = [asked(store, it) for it in archived(store)]
    assert sorted(left) == [
        ["Question 1", "Question 2", "Question 5"],
        ["Question 1", "Question 3"],
    ]


def test_truncated_file_removes_no_entries(store: Store, file: CodexFile, tmp_path: Path) -> None:
    file.turn(2)
    path = file.write(tmp_path)
    run(store, tmp_path)
    data = path.read_bytes()
    for length in (len(data) // 2, 10, 0):
        path.write_bytes(data[:length])
        assert run(store, tmp_path).outcomes == []
    assert asked(store) == ["Question 1", "Question 2"]
    assert len(everything(store)) == 1


def test_missing_base_file_is_imported_when_it_appears(
    store: Store, file: CodexFile, tmp_path: Path
) -> None:
    later = CodexFile(thread(2), mode="paginated", first=file.ordinal, history_base=file.base())
    later.turn(2)
    later.write(tmp_path)
    report = run(store, tmp_path).report
    assert report.skipped == {"the file of the inherited history is missing": 1}
    assert asked(store, thread(2)) == ["Question 2"]
    file.write(tmp_path, is_archived=True, is_compressed=True)
    run(store, tmp_path)
    assert asked(store, thread(2)) == ["Question 1", "Question 2"]
    assert run(store, tmp_path).read == 0


def test_session_archived_in_tool_is_archived_when_new(
    store: Store, file: CodexFile, tmp_path: Path
) -> None:
    path = file.write(tmp_path, is_archived=True)
    assert run(store, tmp_path).outcomes == [MergeOutcome.NEW]
    assert (archived(store), store.sessions(Page())) == ([SESSION], [])
    # A later import does not archive it again.
    store.write([Archived(session_id=SESSION, at_us=1, is_archived=False)])
    file.turn(2)
    file.write(tmp_path, is_archived=True)
    assert run(store, tmp_path).outcomes == [MergeOutcome.EXTENDED]
    assert archived(store) == []
    path.unlink()


def test_session_archived_in_tool_after_import_stays_listed(
    store: Store, file: CodexFile, tmp_path: Path
) -> None:
    path = file.write(tmp_path)
    run(store, tmp_path)
    path.unlink()
    file.write(tmp_path, is_archived=True)
    assert run(store, tmp_path).outcomes == []
    assert archived(store) == []


def test_new_thread_name_is_imported(store: Store, file: CodexFile, tmp_path: Path) -> None:
    file.write(tmp_path)
    run(store, tmp_path)
    entry = json.dumps({"id": SESSION, "thread_name": "Mine"})
    (tmp_path / ".codex" / "session_index.jsonl").write_text(entry + "\n")
    assert run(store, tmp_path).read == 1
    assert store.titles(SESSION)[TitleSource.AGENT] == "Mine"
    assert run(store, tmp_path).read == 0


def test_sub_agent_sessions_have_a_parent(store: Store, file: CodexFile, tmp_path: Path) -> None:
    file.write(tmp_path)
    child = CodexFile(thread(2), parent_thread_id=SESSION)
    child.turn(1)
    child.write(tmp_path)
    report = run(store, tmp_path).report
    assert (report.found, report.children) == (2, 1)
    assert [it.id for it in store.sessions(Page())] == [SESSION]
    assert store.session(thread(2)).parent_id == SESSION
