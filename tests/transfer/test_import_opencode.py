"""What OpenCode has on record, taken in: once, as it grows, and wherever it is moved to."""

from pathlib import Path

import pytest

from importer_results import read_sessions
from opencode_files import BEGIN, CWD, SESSION, OpenCode, called, open_database, running, said
from rekindle.importers.base import EntryCounts
from rekindle.importers.opencode.session import IMPORTER
from rekindle.model import Entry, Page
from rekindle.store.base import Store
from rekindle.transfer.merge import How
from tool_imports import Run, everything


def run(store: Store, path: Path) -> Run:
    return Run(store, path, IMPORTER)


def told(path: Path) -> list[Entry]:
    return list(read_sessions(IMPORTER, path)[0].read_entries(EntryCounts()))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "opencode"


def test_twice_is_once_and_children_belong_to_their_session(store: Store, data: Path) -> None:
    it = OpenCode()
    it.user(said("Do it"))
    it.agent(called("task", {"description": "Help"}, "Helped", sessionId="ses_0002"), said("Done"))
    it.to_database(data / "opencode.db")
    child = OpenCode("ses_0002", parentID=SESSION)
    child.turn(1)
    child.to_database(data / "opencode.db")
    assert run(store, data).hows == [How.NEW, How.NEW]
    (listed,) = store.sessions(Page(cwd=CWD))
    assert (listed.id, listed.agent_session_id, listed.agent.name) == (SESSION, SESSION, "opencode")
    assert store.session("ses_0002").parent_id == SESSION
    assert listed.origin is not None
    assert listed.origin.path == f"{data / 'opencode.db'}#{SESSION}"
    assert len(listed.origin.sha256) == 64
    first = everything(store)
    again = run(store, data)
    # Not even read.
    assert (again.read, again.hows, again.report.hows) == (0, [], {How.UNCHANGED: 2})
    assert again.report.children == 1
    assert everything(store) == first


def test_every_step_of_a_session_can_be_watched(store: Store, data: Path) -> None:
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
    # Nothing of it was put aside.
    assert len(everything(store)) == 1


def test_what_was_in_files_and_is_in_the_database_now_is_the_same_session(
    store: Store, data: Path
) -> None:
    it = OpenCode()
    it.turn(1)
    it.to_first_tree(data)
    assert run(store, data).hows == [How.NEW]
    it.to_tree(data)
    assert run(store, data).hows == []
    it.to_database(data / "opencode.db")
    assert run(store, data).hows == []
    it.turn(2)
    it.to_database(data / "opencode.db")
    assert run(store, data).hows == [How.EXTENDED]
    ((session, _, entries),) = everything(store)
    assert entries == told(data / "opencode.db")
    assert session.turns == 2
    assert run(store, data).read == 0


def test_what_was_taken_back_is_kept_and_put_away(store: Store, data: Path) -> None:
    path = data / "opencode.db"
    it = OpenCode()
    for number in (1, 2, 3):
        it.turn(number)
    whole = told(it.to_database(path))
    it.fields["revert"] = {"messageID": it.messages[2].id}
    it.to_database(path)
    assert run(store, data).hows == [How.NEW, How.NEW]
    assert [session.id for session in store.sessions(Page())] == [SESSION]
    assert list(store.read(SESSION)) == told(path)
    (aside,) = [it for it, _, _ in everything(store) if it.id != SESSION]
    assert (aside.parent_id, aside.archived_us is not None) == (SESSION, True)
    assert list(store.read(aside.id)) == whole
    # OpenCode forgets it with the next prompt.
    del it.messages[2:], it.fields["revert"]
    it.turn(4)
    path.unlink()
    it.to_database(path)
    assert run(store, data).hows == [How.EXTENDED]
    assert list(store.read(SESSION)) == told(path)
    assert list(store.read(aside.id)) == whole


def test_what_is_taken_back_later_is_taken_back_here(store: Store, data: Path) -> None:
    path = data / "opencode.db"
    it = OpenCode()
    for number in (1, 2, 3):
        it.turn(number)
    whole = told(it.to_database(path))
    run(store, data)
    it.fields["revert"] = {"messageID": it.messages[2].id}
    # Nothing of what was said has changed.
    cut = told(it.to_database(path))
    assert run(store, data).hows == [How.EXTENDED]
    assert list(store.read(SESSION)) == cut
    (aside,) = [it for it, _, _ in everything(store) if it.id != SESSION]
    assert aside.archived_us is not None
    assert list(store.read(aside.id)) == whole
    it.fields["revert"]["messageID"] = it.messages[4].id
    it.to_database(path)
    assert run(store, data).hows == [How.EXTENDED]
    assert list(store.read(SESSION)) == told(path)
    del it.fields["revert"]
    it.to_database(path)
    assert run(store, data).hows == [How.EXTENDED]
    assert list(store.read(SESSION)) == whole


def test_what_is_to_be_done_is_followed(store: Store, data: Path) -> None:
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


def test_what_is_archived_there_is_archived_here(store: Store, data: Path) -> None:
    it = OpenCode(archived=BEGIN)
    it.turn(1)
    it.to_database(data / "opencode.db")
    assert run(store, data).hows == [How.NEW]
    assert store.sessions(Page()) == []
    assert store.session(SESSION).archived_us is not None
    # Whoever takes it out again here has it.
    it.turn(2)
    it.to_database(data / "opencode.db")
    assert run(store, data).hows == [How.EXTENDED]


def test_a_database_that_cannot_be_read_is_told_of(store: Store, data: Path) -> None:
    it = OpenCode()
    it.turn(1)
    it.to_database(data / "opencode-dev.db")
    (data / "opencode.db").write_bytes(b"SQLite format 3\0" + bytes(500))
    report = run(store, data).report
    assert report.hows == {How.NEW: 1}
    ((place, why),) = report.failed.items()
    assert place == str(data / "opencode.db")
    assert "cannot be read" in why
