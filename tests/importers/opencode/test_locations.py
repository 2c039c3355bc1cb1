"""Where OpenCode's sessions are found, and that nothing of it is ever changed."""

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

from importer_results import entries_of, talks_of, told
from opencode_files import CWD, SESSION, OpenCode, open_database, said
from other_user import as_stranger
from recorded_sessions import opened
from rekindle.importers.base import ImportNotes
from rekindle.importers.database import ReadOnlyDatabase
from rekindle.importers.opencode.session import IMPORTER
from rekindle.store.sqlite.store import SqliteStore


def talk(turns: int = 1, session: str = SESSION, **fields: object) -> OpenCode:
    it = OpenCode(session, **fields)
    for number in range(1, turns + 1):
        it.turn(number)
    return it


def stamps(path: Path) -> dict[str, str]:
    return {found.part: found.stamp for found in IMPORTER.find(path, None)}


def looks(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return how all files of a folder look, from the outside and from the inside."""
    return {
        it.name: (it.stat().st_ino, it.stat().st_size, it.stat().st_mtime_ns, hash(it.read_bytes()))
        for it in folder.iterdir()
    }


@contextmanager
def unchanged(folder: Path) -> Generator[None]:
    before = looks(folder)
    mode = folder.stat().st_mode
    yield
    assert looks(folder) == before
    assert folder.stat().st_mode == mode


# -- which files are its own ----------------------------------------------------------------------


def test_it_is_looked_for_where_the_tool_has_it(tmp_path: Path) -> None:
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
    talk().to_database(data / "opencode-dev.db")
    named = {**elsewhere, "OPENCODE_DB": "opencode-dev.db"}
    assert IMPORTER.folders(named, home) == [data]


def test_each_channel_has_a_database(tmp_path: Path) -> None:
    talk(session="ses_a").to_database(tmp_path / "opencode.db")
    talk(session="ses_b").to_database(tmp_path / "opencode-dev.db")
    talk(session="ses_c").to_database(tmp_path / "other.db")
    assert list(stamps(tmp_path)) == ["ses_a", "ses_b"]


def test_a_single_file_is_enough(tmp_path: Path) -> None:
    path = talk().to_database(tmp_path / "backup.sqlite")
    assert told(talks_of(IMPORTER, path)[0]) == ["Question 1", "Answer 1"]
    for path in (talk().to_tree(tmp_path), talk().to_first_tree(tmp_path)):
        assert told(talks_of(IMPORTER, path)[0]) == ["Question 1", "Answer 1"]
    assert len(talks_of(IMPORTER, tmp_path / "storage")) == 1


def test_what_is_not_its_own_is_left_alone(tmp_path: Path) -> None:
    open_database(tmp_path / "foreign.db").execute("drop table session")
    with SqliteStore(tmp_path / "ours.db") as store:
        store.write([opened("s")])
    (tmp_path / "ses_x.json").write_text("{}")
    (tmp_path / "x.jsonl").write_text("{}")
    (tmp_path / "storage").mkdir()
    (tmp_path / "project" / "x").mkdir(parents=True)
    for path in (tmp_path, *tmp_path.iterdir()):
        assert list(IMPORTER.find(path, None)) == []


def test_only_sessions_of_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    talk(session="ses_a").to_database(path)
    talk(session="ses_b", directory="/elsewhere").to_database(path)
    assert [it.part for it in IMPORTER.find(path, CWD)] == ["ses_a"]
    assert [it.part for it in IMPORTER.find(path, "/elsewhere")] == ["ses_b"]


def test_a_project_says_where_it_is_if_a_session_does_not(tmp_path: Path) -> None:
    it = OpenCode(directory=None)
    it.user(said("Hello"))
    path = it.to_tree(tmp_path)
    assert talks_of(IMPORTER, path)[0].incoming.cwd is None
    project = tmp_path / "storage" / "project" / "abc.json"
    project.parent.mkdir()
    project.write_text('{"worktree":"/work/tree"}')
    assert talks_of(IMPORTER, path)[0].incoming.cwd == "/work/tree"


# -- what has changed -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "update session set title = 'x' where id = 'ses_a'",
        "update session set tokens_input = 5 where id = 'ses_a'",
        "update session set revert = '{\"messageID\":\"x\"}' where id = 'ses_a'",
        "update part set time_updated = 1 << 50 where id = 'prt_a0018'",
        "update message set time_updated = 1 << 50 where id = 'msg_a0017'",
        # What goes on stands before what was typed meanwhile.
        "update part set time_updated = 1 << 50 where id = 'prt_a0012'",
        "update message set time_updated = 1 << 50 where id = 'msg_a0010'",
        "delete from message where id = 'msg_a0001'",
        "delete from part where id = 'prt_a0018'",
        "insert into todo values ('ses_a', 'x', 'pending', 'low', 0, 1, 1)",
        "insert into session_message values ('m', 'ses_a', 'user', 1, 1, 1, '{}')",
    ],
)
def test_a_session_that_has_changed_is_known_by_its_stamp(change: str, tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    db = open_database(path)
    talk(3, "ses_a").into(db)
    talk(3, "ses_b").into(db)
    before = stamps(path)
    assert stamps(path) == before
    db.execute(change)
    assert db.total_changes() > 0
    after = stamps(path)
    assert [name for name in before if before[name] != after[name]] == ["ses_a"]
    db.close()


def test_files_that_have_changed_are_known_by_their_stamp(tmp_path: Path) -> None:
    it = talk(2)
    path = it.to_tree(tmp_path)
    before = stamps(tmp_path)
    (last,) = (tmp_path / "storage" / "part" / it.messages[-1].id).glob("*2.json")
    last.write_text(last.read_text().replace("Answer", "Another"))
    assert stamps(tmp_path) != before
    before = stamps(tmp_path)
    (last,) = (tmp_path / "storage" / "part" / it.messages[1].id).glob("*5.json")
    last.write_text(last.read_text().replace("Answer", "Another"))
    assert stamps(tmp_path) != before
    before = stamps(tmp_path)
    path.write_text(path.read_text().replace("New session", "Old"))
    assert stamps(tmp_path) != before


# -- nothing is changed ---------------------------------------------------------------------------


def test_a_database_that_nobody_has_open_stays_as_it_is(tmp_path: Path) -> None:
    path = talk(2).to_database(tmp_path / "opencode.db")
    assert [it.name for it in tmp_path.iterdir()] == ["opencode.db"]
    with unchanged(tmp_path):
        assert len(told(talks_of(IMPORTER, path)[0])) == 4


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
    """Have a database open somewhere else; yields how to have sessions written there."""
    command = [sys.executable, "-c", _OTHER, path]
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **paths}
    ) as process:
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout

        def write(it: OpenCode) -> None:
            pickle.dump(it, stdin)
            stdin.flush()
            assert stdout.readline() == b"\n"

        yield write
        stdin.close()


def test_the_log_of_an_open_database_is_read(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    it = OpenCode()
    with another_process(path) as write:
        for turns in range(1, 30):
            it.turn(turns)
            write(it)
            assert path.with_name("opencode.db-wal").stat().st_size > 0
            with unchanged(tmp_path):
                assert len(told(talks_of(IMPORTER, path)[0])) == 2 * turns
                assert ReadOnlyDatabase(path).is_shared


def test_a_session_is_read_as_it_was_at_one_moment(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    it = talk(1)
    with another_process(path) as write:
        write(it)
        (found,) = IMPORTER.find(path, None)
        (read,) = IMPORTER.read(found, ImportNotes())
        before = entries_of(read)
        for turns in range(2, 60):
            it.turn(turns)
            write(it)
        assert entries_of(read) == before
        assert len(told(talks_of(IMPORTER, path)[0])) == 118


def test_the_log_of_an_open_database_is_read_by_who_may_not_write(open_folder: Path) -> None:
    path = open_folder / "opencode.db"
    with another_process(path) as write:
        write(talk(3))
        open_folder.chmod(0o555)
        with unchanged(open_folder), as_stranger():
            assert ReadOnlyDatabase(path).is_shared
            assert len(told(talks_of(IMPORTER, path)[0])) == 6
        open_folder.chmod(0o755)
        write(talk(4))
    assert len(told(talks_of(IMPORTER, path)[0])) == 8


@pytest.mark.parametrize("missing", ["", "opencode.db-shm"])
@pytest.mark.parametrize("is_writable", [True, False])
def test_the_log_that_a_crash_has_left_is_read(
    missing: str, open_folder: Path, *, is_writable: bool
) -> None:
    live, left = open_folder / "live", open_folder / "left"
    db = open_database(live / "opencode.db")
    talk(3).into(db)
    shutil.copytree(live, left)
    db.close()
    if missing:
        (left / missing).unlink()
    if not is_writable:
        for it in (*left.iterdir(), left):
            it.chmod(it.stat().st_mode & ~0o222)
    with unchanged(left), nullcontext() if is_writable else as_stranger():
        assert len(told(talks_of(IMPORTER, left / "opencode.db")[0])) == 6
    left.chmod(0o700)


def test_a_log_that_says_nothing_is_left_alone(tmp_path: Path) -> None:
    path = talk(2).to_database(tmp_path / "opencode.db")
    path.with_name("opencode.db-wal").write_bytes(bytes(100))
    with unchanged(tmp_path):
        assert len(told(talks_of(IMPORTER, path)[0])) == 4


def test_a_database_that_is_written_to_meanwhile_is_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    db = open_database(path)
    it = talk(1)
    it.into(db)
    is_done = threading.Event()

    def write() -> None:
        own = open_database(path)
        own.set_busy_timeout(10_000)
        for number in range(2, 40):
            it.turn(number)
            it.into(own)
        own.close()
        is_done.set()

    writer = threading.Thread(target=write)
    writer.start()
    count = 0
    while not is_done.is_set():
        words = told(talks_of(IMPORTER, path)[0])
        assert len(words) >= count
        assert words == [f"{it} {1 + place // 2}" for place, it in enumerate(names(len(words)))]
        count = len(words)
    writer.join()
    assert len(told(talks_of(IMPORTER, path)[0])) == 78
    db.close()


def names(count: int) -> list[str]:
    return ["Question", "Answer"] * (count // 2)


@pytest.mark.parametrize("has_log", [True, False])
def test_who_begins_to_write_while_it_is_read_alone_is_noticed(
    tmp_path: Path, *, has_log: bool
) -> None:
    live = talk(1).to_database(tmp_path / "live" / "opencode.db")
    path = tmp_path / "left" / "opencode.db"
    db = open_database(live)
    if has_log:
        talk(1, "ses_other").into(db)
    shutil.copytree(live.parent, path.parent)
    db.close()
    path.with_name("opencode.db-shm").unlink()
    if not has_log:
        path.with_name("opencode.db-wal").unlink()
    (found, *_) = IMPORTER.find(path, None)
    (read,) = IMPORTER.read(found, ImportNotes())
    own = open_database(path)
    talk(5).into(own)
    own.close()
    with pytest.raises(OSError, match="just begun to write"):
        entries_of(read)
    assert len(told(talks_of(IMPORTER, path)[0])) == 10


def test_a_file_that_is_no_database_keeps_no_other_out(tmp_path: Path) -> None:
    (tmp_path / "opencode.db").write_text("no database")
    talk().to_database(tmp_path / "opencode-dev.db")
    torn, sound = IMPORTER.find(tmp_path, None)
    assert sound.part == SESSION
    assert torn.error == "the database cannot be read: file is not a database"


def test_a_folder_or_file_that_cannot_be_read_keeps_no_other_out(open_folder: Path) -> None:
    talk(session="ses_a").to_database(open_folder / "opencode.db")
    hidden = talk(session="ses_b").to_tree(open_folder, "hidden").parent
    unknown = talk(session="ses_c")
    unknown.to_tree(open_folder)
    messages = open_folder / "storage" / "message" / "ses_c"
    for folder in (hidden, messages):
        folder.chmod(0)
    with as_stranger():
        sound, *others = IMPORTER.find(open_folder, None)
        assert sound.part == "ses_a"
        assert [it.path for it in others] == [hidden.parent / "abc" / "ses_c.json", hidden]
        assert all("Permission denied" in it.error for it in others)
    for folder in (hidden, messages):
        folder.chmod(0o755)
    assert len(talks_of(IMPORTER, open_folder)) == 3


def test_files_may_go_while_others_are_found(tmp_path: Path) -> None:
    for name in ("ses_a", "ses_b", "ses_c"):
        last = talk(session=name).to_tree(tmp_path)
    found = IMPORTER.find(tmp_path, None)
    next(found)
    last.with_name("ses_b.json").unlink()
    assert [it.path for it in found] == [last]


def test_names_that_are_no_text_are_passed_over(tmp_path: Path) -> None:
    path = talk().to_tree(tmp_path)
    for folder in (path.parent, tmp_path / "storage" / "message" / SESSION):
        (folder / os.fsdecode(b"ses_\xff.json")).write_text('{"role":"user"}')
    assert [len(entries_of(it)) for it in talks_of(IMPORTER, tmp_path)] == [3]


def test_sub_agents_in_files_are_known_at_once(tmp_path: Path) -> None:
    path = talk(session="ses_b").to_tree(tmp_path)
    path.write_text(path.read_text().replace('"parentID": null', '"parentID": "ses_a"'))
    talk(session="ses_c").to_tree(tmp_path)
    assert [it.is_child for it in IMPORTER.find(tmp_path, None)] == [True, False]


def test_a_database_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot be read"):
        ReadOnlyDatabase(tmp_path)
