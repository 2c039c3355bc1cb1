"""Where OpenCode keeps its sessions, and reading them without changing a file."""

import os
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from importer_results import entries_of, items_of, read_sessions
from opencode_files import CWD, SESSION, OpenCode, open_database, said
from other_user import as_stranger
from recorded_sessions import opened
from rekindle.importers.base import ImportNotes
from rekindle.importers.database import ReadOnlyDatabase
from rekindle.importers.opencode.session import IMPORTER
from rekindle.store.sqlite.store import SqliteStore


def opencode_session(turns: int = 1, session: str = SESSION, **fields: object) -> OpenCode:
    opencode = OpenCode(session, **fields)
    for number in range(1, turns + 1):
        opencode.turn(number)
    return opencode


def stamps(path: Path) -> dict[str, str]:
    return {found.part: found.stamp for found in IMPORTER.find(path, None)}


def file_states(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the metadata and a hash of the content of each file in a folder."""
    return {
        path.name: (
            path.stat().st_ino,
            path.stat().st_size,
            path.stat().st_mtime_ns,
            hash(path.read_bytes()),
        )
        for path in folder.iterdir()
    }


@contextmanager
def unchanged(folder: Path) -> Generator[None]:
    before = file_states(folder)
    mode = folder.stat().st_mode
    yield
    assert file_states(folder) == before
    assert folder.stat().st_mode == mode


# -- locations ------------------------------------------------------------------------------------


def test_data_folder_comes_from_the_environment(tmp_path: Path) -> None:
    home = Path("/home/user")
    assert IMPORTER.folders({}, home) == [home / ".local/share/opencode"]
    elsewhere = {"XDG_DATA_HOME": str(tmp_path)}
    data = tmp_path / "opencode"
    assert IMPORTER.folders(elsewhere, home) == [data]
    assert IMPORTER.folders({**elsewhere, "OPENCODE_DB": ":memory:"}, home) == [data]
    assert IMPORTER.folders({**elsewhere, "OPENCODE_DB": "my.db"}, home) == [data, data / "my.db"]
    assert IMPORTER.folders({**elsewhere, "OPENCODE_DB": "/x/y.db"}, home) == [
        data,
        Path("/x/y.db"),
    ]
    opencode_session().to_database(data / "opencode-dev.db")
    named = {**elsewhere, "OPENCODE_DB": "opencode-dev.db"}
    assert IMPORTER.folders(named, home) == [data]


def test_database_of_each_release_channel_is_found(tmp_path: Path) -> None:
    opencode_session(session="ses_a").to_database(tmp_path / "opencode.db")
    opencode_session(session="ses_b").to_database(tmp_path / "opencode-dev.db")
    opencode_session(session="ses_c").to_database(tmp_path / "other.db")
    assert list(stamps(tmp_path)) == ["ses_a", "ses_b"]


def test_find_accepts_a_single_file(tmp_path: Path) -> None:
    path = opencode_session().to_database(tmp_path / "backup.sqlite")
    assert items_of(read_sessions(IMPORTER, path)[0]) == ["Question 1", "Answer 1"]
    for path in (opencode_session().to_tree(tmp_path), opencode_session().to_first_tree(tmp_path)):
        assert items_of(read_sessions(IMPORTER, path)[0]) == ["Question 1", "Answer 1"]
    assert len(read_sessions(IMPORTER, tmp_path / "storage")) == 1


def test_files_of_other_programs_are_ignored(tmp_path: Path) -> None:
    open_database(tmp_path / "foreign.db").execute("drop table session")
    with SqliteStore(tmp_path / "ours.db") as store:
        store.write([opened("s")])
    (tmp_path / "ses_x.json").write_text("{}")
    (tmp_path / "x.jsonl").write_text("{}")
    (tmp_path / "storage").mkdir()
    (tmp_path / "project" / "x").mkdir(parents=True)
    for path in (tmp_path, *tmp_path.iterdir()):
        assert list(IMPORTER.find(path, None)) == []


def test_find_returns_only_sessions_of_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    opencode_session(session="ses_a").to_database(path)
    opencode_session(session="ses_b", directory="/elsewhere").to_database(path)
    assert [found.part for found in IMPORTER.find(path, CWD)] == ["ses_a"]
    assert [found.part for found in IMPORTER.find(path, "/elsewhere")] == ["ses_b"]


def test_folder_comes_from_the_project_if_the_session_has_none(tmp_path: Path) -> None:
    session = OpenCode(directory=None)
    session.user(said("Hello"))
    path = session.to_tree(tmp_path)
    assert read_sessions(IMPORTER, path)[0].incoming.cwd is None
    project = tmp_path / "storage" / "project" / "abc.json"
    project.parent.mkdir()
    project.write_text('{"worktree":"/work/tree"}')
    assert read_sessions(IMPORTER, path)[0].incoming.cwd == "/work/tree"


# -- stamps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "update session set title = 'x' where id = 'ses_a'",
        "update session set tokens_input = 5 where id = 'ses_a'",
        "update session set revert = '{\"messageID\":\"x\"}' where id = 'ses_a'",
        "update part set time_updated = 1 << 50 where id = 'prt_a0018'",
        "update message set time_updated = 1 << 50 where id = 'msg_a0017'",
        # The running message comes before prompts that were typed meanwhile.
        "update part set time_updated = 1 << 50 where id = 'prt_a0012'",
        "update message set time_updated = 1 << 50 where id = 'msg_a0010'",
        "delete from message where id = 'msg_a0001'",
        "delete from part where id = 'prt_a0018'",
        "insert into todo values ('ses_a', 'x', 'pending', 'low', 0, 1, 1)",
        "insert into session_message values ('m', 'ses_a', 'user', 1, 1, 1, '{}')",
    ],
)
def test_stamp_changes_with_the_rows_of_a_session(change: str, tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    db = open_database(path)
    opencode_session(3, "ses_a").into(db)
    opencode_session(3, "ses_b").into(db)
    before = stamps(path)
    assert stamps(path) == before
    db.execute(change)
    assert db.total_changes() > 0
    after = stamps(path)
    assert [name for name in before if before[name] != after[name]] == ["ses_a"]
    db.close()


def test_stamp_changes_with_the_files_of_a_session(tmp_path: Path) -> None:
    session = opencode_session(2)
    path = session.to_tree(tmp_path)
    before = stamps(tmp_path)
    (last,) = (tmp_path / "storage" / "part" / session.messages[-1].id).glob("*2.json")
    last.write_text(last.read_text().replace("Answer", "Another"))
    assert stamps(tmp_path) != before
    before = stamps(tmp_path)
    (last,) = (tmp_path / "storage" / "part" / session.messages[1].id).glob("*5.json")
    last.write_text(last.read_text().replace("Answer", "Another"))
    assert stamps(tmp_path) != before
    before = stamps(tmp_path)
    path.write_text(path.read_text().replace("New session", "Old"))
    assert stamps(tmp_path) != before


# -- databases are not changed --------------------------------------------------------------------


def test_closed_database_is_not_changed(tmp_path: Path) -> None:
    path = opencode_session(2).to_database(tmp_path / "opencode.db")
    assert [file.name for file in tmp_path.iterdir()] == ["opencode.db"]
    with unchanged(tmp_path):
        assert len(items_of(read_sessions(IMPORTER, path)[0])) == 4


_OTHER = """
import pickle, sys
from pathlib import Path
from opencode_files import open_database
db = open_database(Path(sys.argv[1]))
while True:
    try:
        pickle.load(sys.stdin.buffer).into(db)
    except EOFError:
        break
    print(flush=True)
"""


@contextmanager
def another_process(path: Path) -> Generator[Callable[[OpenCode], None]]:
    """Open a database in another process; yield a function that writes a session there."""
    command = [sys.executable, "-c", _OTHER, path]
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **paths}
    ) as process:
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout

        def write(session: OpenCode) -> None:
            pickle.dump(session, stdin)
            stdin.flush()
            assert stdout.readline() == b"\n"

        yield write
        stdin.close()


def test_wal_of_an_open_database_is_read(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    session = OpenCode()
    with another_process(path) as write:
        for turns in range(1, 30):
            session.turn(turns)
            write(session)
            assert path.with_name("opencode.db-wal").stat().st_size > 0
            with unchanged(tmp_path):
                assert len(items_of(read_sessions(IMPORTER, path)[0])) == 2 * turns
                assert ReadOnlyDatabase(path).is_shared


def test_session_is_read_as_of_one_moment(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    session = opencode_session(1)
    with another_process(path) as write:
        write(session)
        (found,) = IMPORTER.find(path, None)
        (read,) = IMPORTER.read(found, ImportNotes())
        before = entries_of(read)
        for turns in range(2, 60):
            session.turn(turns)
            write(session)
        assert entries_of(read) == before
        assert len(items_of(read_sessions(IMPORTER, path)[0])) == 118


def test_wal_is_read_without_write_permission(open_folder: Path) -> None:
    path = open_folder / "opencode.db"
    with another_process(path) as write:
        write(opencode_session(3))
        open_folder.chmod(0o555)
        with unchanged(open_folder), as_stranger():
            assert ReadOnlyDatabase(path).is_shared
            assert len(items_of(read_sessions(IMPORTER, path)[0])) == 6
        open_folder.chmod(0o755)
        write(opencode_session(4))
    assert len(items_of(read_sessions(IMPORTER, path)[0])) == 8


@pytest.mark.parametrize("missing", ["", "opencode.db-shm"])
@pytest.mark.parametrize("is_writable", [True, False])
def test_leftover_wal_is_read(missing: str, open_folder: Path, *, is_writable: bool) -> None:
    live, left = open_folder / "live", open_folder / "left"
    db = open_database(live / "opencode.db")
    opencode_session(3).into(db)
    shutil.copytree(live, left)
    db.close()
    if missing:
        (left / missing).unlink()
    if not is_writable:
        for path in (*left.iterdir(), left):
            path.chmod(path.stat().st_mode & ~0o222)
    with unchanged(left), nullcontext() if is_writable else as_stranger():
        assert len(items_of(read_sessions(IMPORTER, left / "opencode.db")[0])) == 6
    left.chmod(0o700)


def test_invalid_wal_is_ignored(tmp_path: Path) -> None:
    path = opencode_session(2).to_database(tmp_path / "opencode.db")
    path.with_name("opencode.db-wal").write_bytes(bytes(100))
    with unchanged(tmp_path):
        assert len(items_of(read_sessions(IMPORTER, path)[0])) == 4


def test_database_that_changes_during_the_import_is_read(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    db = open_database(path)
    session = opencode_session(1)
    session.into(db)
    is_done = threading.Event()

    def write() -> None:
        own = open_database(path)
        own.set_busy_timeout(10_000)
        for number in range(2, 40):
            session.turn(number)
            session.into(own)
        own.close()
        is_done.set()

    writer = threading.Thread(target=write)
    writer.start()
    count = 0
    while not is_done.is_set():
        texts = items_of(read_sessions(IMPORTER, path)[0])
        assert len(texts) >= count
        assert texts == [f"{item} {1 + place // 2}" for place, item in enumerate(names(len(texts)))]
        count = len(texts)
    writer.join()
    assert len(items_of(read_sessions(IMPORTER, path)[0])) == 78
    db.close()


def names(count: int) -> list[str]:
    return ["Question", "Answer"] * (count // 2)


@pytest.mark.parametrize("has_log", [True, False])
def test_writer_that_starts_during_an_unshared_read_is_detected(
    tmp_path: Path, *, has_log: bool
) -> None:
    live = opencode_session(1).to_database(tmp_path / "live" / "opencode.db")
    path = tmp_path / "left" / "opencode.db"
    db = open_database(live)
    if has_log:
        opencode_session(1, "ses_other").into(db)
    shutil.copytree(live.parent, path.parent)
    db.close()
    path.with_name("opencode.db-shm").unlink()
    if not has_log:
        path.with_name("opencode.db-wal").unlink()
    (found, *_) = IMPORTER.find(path, None)
    (read,) = IMPORTER.read(found, ImportNotes())
    own = open_database(path)
    opencode_session(5).into(own)
    own.close()
    with pytest.raises(OSError, match="just begun to write"):
        entries_of(read)
    assert len(items_of(read_sessions(IMPORTER, path)[0])) == 10


def test_file_that_is_not_a_database_does_not_stop_the_scan(tmp_path: Path) -> None:
    (tmp_path / "opencode.db").write_text("no database")
    opencode_session().to_database(tmp_path / "opencode-dev.db")
    torn, sound = IMPORTER.find(tmp_path, None)
    assert sound.part == SESSION
    assert torn.error == "the database cannot be read: file is not a database"


def test_unreadable_path_does_not_stop_the_scan(open_folder: Path) -> None:
    opencode_session(session="ses_a").to_database(open_folder / "opencode.db")
    hidden = opencode_session(session="ses_b").to_tree(open_folder, "hidden").parent
    unknown = opencode_session(session="ses_c")
    unknown.to_tree(open_folder)
    messages = open_folder / "storage" / "message" / "ses_c"
    for folder in (hidden, messages):
        folder.chmod(0)
    with as_stranger():
        sound, *others = IMPORTER.find(open_folder, None)
        assert sound.part == "ses_a"
        assert [found.path for found in others] == [hidden.parent / "abc" / "ses_c.json", hidden]
        assert all("Permission denied" in found.error for found in others)
    for folder in (hidden, messages):
        folder.chmod(0o755)
    assert len(read_sessions(IMPORTER, open_folder)) == 3


def test_files_deleted_during_the_scan_are_skipped(tmp_path: Path) -> None:
    for name in ("ses_a", "ses_b", "ses_c"):
        last = opencode_session(session=name).to_tree(tmp_path)
    found = IMPORTER.find(tmp_path, None)
    next(found)
    last.with_name("ses_b.json").unlink()
    assert [hit.path for hit in found] == [last]


def test_names_with_invalid_bytes_are_skipped(tmp_path: Path) -> None:
    path = opencode_session().to_tree(tmp_path)
    for folder in (path.parent, tmp_path / "storage" / "message" / SESSION):
        (folder / os.fsdecode(b"ses_\xff.json")).write_text('{"role":"user"}')
    assert [len(entries_of(source)) for source in read_sessions(IMPORTER, tmp_path)] == [3]


def test_find_marks_sub_agents_in_files(tmp_path: Path) -> None:
    path = opencode_session(session="ses_b").to_tree(tmp_path)
    path.write_text(path.read_text().replace('"parentID": null', '"parentID": "ses_a"'))
    opencode_session(session="ses_c").to_tree(tmp_path)
    assert [found.is_child for found in IMPORTER.find(tmp_path, None)] == [True, False]


def test_unreadable_database_raises_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot be read"):
        ReadOnlyDatabase(tmp_path)
