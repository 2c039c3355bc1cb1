"""Imports from OpenCode: from its database and from its older files."""

from pathlib import Path

import pytest

from importer_results import read_sessions
from opencode_files import BEGIN, CWD, SESSION, OpenCode, called, open_database, running, said
from rekindle.importers.base import EntryCounts
from rekindle.importers.opencode.session import IMPORTER
from rekindle.model import Entry, Page
from rekindle.store.base import Store
from rekindle.transfer.merge import MergeOutcome
from tool_imports import Run, everything


def run(store: Store, path: Path) -> Run:
    return Run(store, path, IMPORTER)


def told(path: Path) -> list[Entry]:
    return list(read_sessions(IMPORTER, path)[0].read_entries(EntryCounts()))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "opencode"


def test_import_is_idempotent_and_links_children_to_their_session(store: Store, data: Path) -> None:
    it = OpenCode()
    it.user(said("Do it"))
    it.agent(called("task", {"description": "Help"}, "Helped", sessionId="ses_0002"), said("Done"))
    it.to_database(data / "opencode.db")
    child = OpenCode("ses_0002", parentID=SESSION)
    child.turn(1)
    child.to_database(data / "opencode.db")
    assert run(store, data).outcomes == [MergeOutcome.NEW, MergeOutcome.NEW]
    (listed,) = store.sessions(Page(cwd=CWD))
    assert (listed.id, listed.agent_session_id, listed.agent.name) == (SESSION, SESSION, "opencode")
    assert store.session("ses_0002").parent_id == SESSION
    assert listed.origin is not None
    assert listed.origin.path == f"{data / 'opencode.db'}#{SESSION}"
    assert len(listed.origin.sha256) == 64
    first = everything(store)
    again = run(store, data)
    # The database is not read again.
    assert (again.read, again.outcomes, again.report.outcomes) == (
        0,
        [],
        {MergeOutcome.UNCHANGED: 2},
    )
    assert again.report.children == 1
    assert everything(store) == first


def test_import_after_each_step_matches_the_file(store: Store, data: Path) -> None:
    path = data / "opencode.db"
    db = open_database(path)
    it = OpenCode()

    def look() -> None:
        it.tick()
        it.into(db)
        run(store, data)
        ((_, _, entries),) = everything(store) or [(None, None, [])]
        assert entries == (told(path) if entries else [])

    it.turn(1)
    look()
    it.user(said("Do it"))
    look()
    it.agent(said("I w"), running("bash", {"command": "make"}), finish=None)
    message = it.messages[-1]
    ended = message.data["time"].pop("completed")
    look()
    words, call = message.parts
    message.parts[words] = said("I will.")
    message.parts[call] = called("bash", {"command": "make"}, "ok")
    look()
    message.data |= {"finish": "tool-calls", "time": {**message.data["time"], "completed": ended}}
    look()
    it.agent(said("Done."))
    look()
    it.turn(3)
    look()
    db.close()
    # No branch was made.
    assert len(everything(store)) == 1


def test_session_moved_from_files_to_database_is_the_same(store: Store, data: Path) -> None:
    it = OpenCode()
    it.turn(1)
    it.to_first_tree(data)
    assert run(store, data).outcomes == [MergeOutcome.NEW]
    it.to_tree(data)
    assert run(store, data).outcomes == []
    it.to_database(data / "opencode.db")
    assert run(store, data).outcomes == []
    it.turn(2)
    it.to_database(data / "opencode.db")
    assert run(store, data).outcomes == [MergeOutcome.EXTENDED]
    ((session, _, entries),) = everything(store)
    assert entries == told(data / "opencode.db")
    assert session.turns == 2
    assert run(store, data).read == 0


def test_reverted_messages_are_kept_in_archived_branch(store: Store, data: Path) -> None:
    path = data / "opencode.db"
    it = OpenCode()
    for number in (1, 2, 3):
        it.turn(number)
    whole = told(it.to_database(path))
    it.fields["revert"] = {"messageID": it.messages[2].id}
    it.to_database(path)
    assert run(store, data).outcomes == [MergeOutcome.NEW, MergeOutcome.NEW]
    assert [session.id for session in store.sessions(Page())] == [SESSION]
    assert list(store.read(SESSION)) == told(path)
    (aside,) = [it for it, _, _ in everything(store) if it.id != SESSION]
    assert (aside.parent_id, aside.archived_us is not None) == (SESSION, True)
    assert list(store.read(aside.id)) == whole
    # OpenCode removes the reverted messages with the next prompt.
    del it.messages[2:], it.fields["revert"]
    it.turn(4)
    path.unlink()
    it.to_database(path)
    assert run(store, data).outcomes == [MergeOutcome.EXTENDED]
    assert list(store.read(SESSION)) == told(path)
    assert list(store.read(aside.id)) == whole


def test_later_revert_shortens_session_and_undo_restores_it(store: Store, data: Path) -> None:
    path = data / "opencode.db"
    it = OpenCode()
    for number in (1, 2, 3):
        it.turn(number)
    whole = told(it.to_database(path))
    run(store, data)
    it.fields["revert"] = {"messageID": it.messages[2].id}
    # The messages themselves are unchanged.
    cut = told(it.to_database(path))
    assert run(store, data).outcomes == [MergeOutcome.EXTENDED]
    assert list(store.read(SESSION)) == cut
    (aside,) = [it for it, _, _ in everything(store) if it.id != SESSION]
    assert aside.archived_us is not None
    assert list(store.read(aside.id)) == whole
    it.fields["revert"]["messageID"] = it.messages[4].id
    it.to_database(path)
    assert run(store, data).outcomes == [MergeOutcome.EXTENDED]
    assert list(store.read(SESSION)) == told(path)
    del it.fields["revert"]
    it.to_database(path)
    assert run(store, data).outcomes == [MergeOutcome.EXTENDED]
    assert list(store.read(SESSION)) == whole


def test_todo_changes_are_imported(store: Store, data: Path) -> None:
    it = OpenCode()
    it.turn(1)
    for status in ("pending", "completed"):
        it.todos = [{"content": "Rest", "status": status, "priority": "low"}]
        it.tick()
        path = it.to_database(data / "opencode.db")
        run(store, data)
        ((_, _, entries),) = everything(store)
        assert entries == told(path)
        assert any(status.encode() in entry.line for entry in entries)


def test_session_archived_in_tool_is_archived_when_new(store: Store, data: Path) -> None:
    it = OpenCode(archived=BEGIN)
    it.turn(1)
    it.to_database(data / "opencode.db")
    assert run(store, data).outcomes == [MergeOutcome.NEW]
    assert store.sessions(Page()) == []
    assert store.session(SESSION).archived_us is not None
    # A later import extends it.
    it.turn(2)
    it.to_database(data / "opencode.db")
    assert run(store, data).outcomes == [MergeOutcome.EXTENDED]


def test_unreadable_database_is_reported(store: Store, data: Path) -> None:
    it = OpenCode()
    it.turn(1)
    it.to_database(data / "opencode-dev.db")
    (data / "opencode.db").write_bytes(b"SQLite format 3\0" + bytes(500))
    report = run(store, data).report
    assert report.outcomes == {MergeOutcome.NEW: 1}
    ((place, error_text),) = report.failed.items()
    assert place == str(data / "opencode.db")
    assert "cannot be read" in error_text
