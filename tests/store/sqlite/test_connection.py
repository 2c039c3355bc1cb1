"""Open stores, foreign databases and damaged files."""

import errno
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import apsw
import pytest

from rekindle.errors import (
    SessionNotFound,
    StoreDamaged,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
)
from rekindle.model import (
    AgentIdentity,
    EntryBatch,
    Kind,
    LeaseHolder,
    Opened,
    Page,
    Side,
    Titled,
    TitleSource,
)
from rekindle.store.sqlite.connection import as_store_error
from rekindle.store.sqlite.files import lock_path
from rekindle.store.sqlite.inspect import is_store
from rekindle.store.sqlite.quarantine import is_damaged, recover
from rekindle.store.sqlite.schema import MIGRATIONS, tables_of
from rekindle.store.sqlite.store import SqliteStore
from rekindle.transcript.titles import title_from_prompt

HOLDER = LeaseHolder(token="t", pid=1, machine="here")  # noqa: S106 - no password


def title(text: str) -> Titled:
    return Titled(session_id="s", at_us=1, source=TitleSource.USER, title=text)


def batch(line: bytes) -> EntryBatch:
    return EntryBatch(session_id="s", side=Side.AGENT, kind=Kind.UPDATE, at_us=1, data=line)


@pytest.mark.parametrize("create", [True, False])
def test_a_foreign_database_is_refused_and_left_untouched(tmp_path: Path, *, create: bool) -> None:
    path = tmp_path / "theirs.db"
    with closing(apsw.Connection(str(path))) as db:
        db.execute("create table precious (x); insert into precious values (1)")
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match="not a Rekindle store"):
        SqliteStore(path, create=create)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["theirs.db"]


def test_the_wal_of_a_newer_store_is_left_untouched(tmp_path: Path) -> None:
    path, copy = tmp_path / "s.db", tmp_path / "copy"
    copy.mkdir()
    with SqliteStore(path) as store:
        store.write([batch(b"1")])
        with closing(apsw.Connection(str(path))) as db:
            db.execute(f"pragma user_version = {len(MIGRATIONS) + 1}")
            # As a killed process leaves it.
            for file in ("s.db", "s.db-wal"):
                shutil.copy(tmp_path / file, copy / file)
    before = {file.name: file.read_bytes() for file in copy.iterdir()}
    assert len(before["s.db-wal"]) > 0
    with pytest.raises(StoreTooNew):
        SqliteStore(copy / "s.db")
    for name, content in before.items():
        assert (copy / name).read_bytes() == content


def test_every_migration_changes_the_tables() -> None:
    known = [tables_of(schema) for schema in range(len(MIGRATIONS) + 1)]
    assert len(set(known)) == len(known)


def test_a_store_in_creation_is_not_reported_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with closing(apsw.Connection(str(path))) as db:
        db.pragma("journal_mode", "wal")
    lock_path(path).touch()
    looked: list[str] = []

    def create_meanwhile(_cursor: apsw.Cursor, statement: str, _bindings: object) -> bool:
        if "sqlite_schema" in statement and not looked:
            looked.append(statement)
            SqliteStore(path).close()
        return True

    def watch(db: apsw.Connection) -> None:
        db.exec_trace = create_meanwhile

    apsw.connection_hooks.append(watch)
    try:
        SqliteStore(path).close()
    finally:
        apsw.connection_hooks.remove(watch)
    assert looked
    assert not is_damaged(path)


@pytest.mark.parametrize("what", ["user_version = 99", "application_id = 99"])
def test_a_wrong_header_is_damage_only_with_our_tables(tmp_path: Path, what: str) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        store.write([batch(b"1")])
        store._query(f"pragma {what}")  # noqa: SLF001
    for create in (True, False):
        with pytest.raises(StoreDamaged, match="does not fit its tables"):
            SqliteStore(path, create=create)
    assert is_damaged(path)
    assert is_store(path)
    with closing(apsw.Connection(str(path))) as db:
        db.execute("create index later on stretch (at_us)")
    for create in (True, False):
        with pytest.raises(StoreError, match=r"not a Rekindle store|has schema 99"):
            SqliteStore(path, create=create)
    assert recover(path, title_from_prompt) is None
    with closing(apsw.Connection(str(path))) as db:
        db.execute("drop index later")
    # It looks like a copy.
    (tmp_path / "s.db.lock").unlink()
    with pytest.raises(StoreError, match=r"not a Rekindle store|has schema 99"):
        SqliteStore(path)
    assert recover(path, title_from_prompt) is None


def rename(path: Path, name: str) -> None:
    """Flip a bit in the SQL of a table."""
    with closing(apsw.Connection(str(path))) as db:
        db.pragma("writable_schema", 1)
        for key, sql in db.execute("select rowid, sql from sqlite_schema").fetchall():
            flipped = re.sub(rf"\b{name}\b", name[:-1] + "$", sql or "", count=1)
            db.execute("update sqlite_schema set sql = ? where rowid = ?", (flipped or None, key))


COLUMNS = sorted({
    column
    for kind, _, sql in tables_of(len(MIGRATIONS)) if kind == "table"
    for column in re.findall(r"^\s+([a-z_]+) (?:text|integer|blob)", sql or "", re.MULTILINE)
})  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_a_changed_table_is_reported_as_damage(tmp_path: Path, name: str) -> None:
    path = tmp_path / "s.db"
    holder = LeaseHolder(machine="h", pid=1, token=name)
    with SqliteStore(path) as store:
        store.write([Opened(session_id="s", at_us=1, cwd="/p"), batch(b"1")])
    rename(path, name)
    try:
        with SqliteStore(path) as store:
            store.write([Opened(session_id="s", at_us=2, cwd="/p"), batch(b"2")])
            store.acquire_lease("s", holder)
            store.sessions(Page(cwd="/p"))
            store.apply_pending("t", [batch(b"3")])
            lines = [entry.line for entry in store.read("s")]
    except StoreDamaged:
        pass
    else:
        assert lines == [b"1", b"2", b"3"]
    assert is_damaged(path)


def test_opening_for_reading_changes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        store.write([batch(b"1")])
    (tmp_path / "s.db.lock").unlink()
    before = path.read_bytes()
    with SqliteStore(path, create=False) as store:
        assert [session.id for session in store.sessions(Page(with_unopened=True))] == ["s"]
        assert [entry.line for entry in store.read("s")] == [b"1"]
        with pytest.raises(StoreUnavailable, match="cannot be written"):
            store.write([batch(b"2")])
    assert path.read_bytes() == before


def test_a_store_with_an_unshareable_wal_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        store.write([batch(b"1")])
    # The shared memory file of the WAL cannot be opened.
    (tmp_path / "s.db-shm").mkdir()
    (tmp_path / "s.db-wal").mkdir()
    with SqliteStore(path, create=False) as store:
        assert [entry.line for entry in store.read("s")] == [b"1"]


def test_a_replaced_store_is_detected_at_the_next_sync(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        store.write([batch(b"1")], sync=True)
        path.rename(tmp_path / "moved.db")
        with pytest.raises(StoreUnavailable, match="was removed or replaced"):
            store.write([batch(b"2")], sync=True)
        SqliteStore(path).close()
        with pytest.raises(StoreUnavailable, match="was removed or replaced"):
            store.write([batch(b"2")], sync=True)


@pytest.mark.parametrize(
    "damage",
    [
        "update session set cwd = cast(x'ff' as text)",
        "update session set command = 'no JSON'",
        "update stretch set kind = 'nonsense'",
        "update stretch set codec = 99",
    ],
)
def test_a_malformed_row_raises_store_damaged(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        store.write([Opened(session_id="s", at_us=1, cwd="/p"), batch(b"1")])
        with closing(apsw.Connection(str(path))) as db:
            db.execute(damage)
        with pytest.raises(StoreError, match=r"is damaged|an encoding that this"):
            [store.session("s"), *store.read("s")]


def test_a_new_session_and_its_first_entry_are_written_atomically(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        with closing(apsw.Connection(str(path))) as db:
            db.execute(
                "create trigger no before insert on stretch begin select raise(abort, 'x'); end"
            )
        with pytest.raises(StoreUnavailable):
            store.write([batch(b"1")])
        assert store.sessions(Page()) == []


def test_opening_makes_a_readable_store_private(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    SqliteStore(path).close()
    path.chmod(0o644)
    SqliteStore(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "error",
    [
        apsw.exception_for(apsw.SQLITE_FULL),
        apsw.exception_for(apsw.SQLITE_IOERR_SHMSIZE),
        OSError(errno.ENOSPC, "No space left on device"),
    ],
)
def test_a_full_disk_is_named_in_the_error(error: Exception) -> None:
    assert (
        str(as_store_error(error, Path("s.db")))
        == "the disk with the store s.db is full; free some space"
    )


def test_a_read_only_disk_is_named_in_the_error() -> None:
    error = OSError(errno.EROFS, "Read-only file system")
    assert "the store s.db cannot be written: " in str(as_store_error(error, Path("s.db")))


def test_a_reader_rolls_back_a_killed_upgrade(tmp_path: Path) -> None:
    path, left = tmp_path / "s.db", tmp_path / "left"
    left.mkdir()
    with SqliteStore(path) as store:
        store.write([batch(b"1")])
    with closing(apsw.Connection(str(path))) as db:
        # A new store has this mode until its WAL exists.
        db.pragma("journal_mode", "delete")
        db.execute("begin; delete from stretch")
        db.cache_flush()
        for name in ("s.db", "s.db-journal"):
            shutil.copy(tmp_path / name, left / name)
    with pytest.raises(StoreUnavailable):
        SqliteStore(left / "s.db", create=False)
    (left / "s.db.lock").touch()
    with SqliteStore(left / "s.db", create=False) as store:
        assert [entry.line for entry in store.read("s")] == [b"1"]


HELD_BY_ANOTHER = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        # Which bytes say that somebody has the file open: https://sqlite.org/fileformat2.html
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
    except OSError:
        print("held")
"""


def test_opening_a_store_twice_keeps_its_locks(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    look = [sys.executable, "-c", HELD_BY_ANOTHER, str(path)]
    with SqliteStore(path) as first:
        first.write([batch(b"1")])
        with SqliteStore(path):
            # Otherwise a reading `sqlite3` would remove the WAL on exit.
            assert subprocess.check_output(look, text=True) == "held\n"
        assert subprocess.check_output(look, text=True) == "held\n"


@pytest.mark.parametrize("content", [b"x", b"Dear diary,\n" * 9, b".damaged-1" + bytes(54) + b"2"])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_foreign_lock_file_is_left_untouched(
    tmp_path: Path, content: bytes, *, is_new: bool
) -> None:
    path = tmp_path / "s.db"
    if not is_new:
        SqliteStore(path).close()
    lock_path(path).write_bytes(content)
    refused = pytest.raises(StoreUnavailable, match=r"s\.db\.lock is not a lock file of Rekindle")
    with refused, SqliteStore(path) as store:
        store.write([batch(b"1")])
    assert lock_path(path).read_bytes() == content
    assert path.exists() != is_new


def test_a_lock_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    path, target = tmp_path / "s.db", tmp_path / "target"
    lock_path(path).symlink_to(target)
    with pytest.raises(StoreUnavailable, match="symbolic link"):
        SqliteStore(path)
    assert not target.exists()


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.sessions(Page(before=(2**64, "s"))),
        lambda store: store.sessions(Page(before=(1, "\ud800"))),
        lambda store: store.sessions(Page(cwd="/\ud800")),
        lambda store: store.session("\ud800"),
        lambda store: store.find("\ud800"),
        lambda store: list(store.read("\ud800")),
        lambda store: store.titles("\ud800"),
        lambda store: store.find_by_agent_id("\ud800"),
        lambda store: store.lease_holder("\ud800"),
        lambda store: store.acquire_lease("\ud800", HOLDER),
        lambda store: store.release_leases(HOLDER, "\ud800"),
        lambda store: store.erase("\ud800"),
        lambda store: store.write([batch(b"1"), title("\ud800")]),
        lambda store: store.write([title("t" + "\udfff")]),
        lambda store: store.extend("\ud800", 0, []),
    ],
)
def test_a_value_that_cannot_be_stored_is_no_damage(
    tmp_path: Path, use: Callable[[SqliteStore], object]
) -> None:
    with SqliteStore(tmp_path / "s.db") as store:
        store.write([batch(b"0")])
        with (
            suppress(SessionNotFound),
            pytest.raises(StoreUnavailable, match="cannot store a value"),
        ):
            use(store)
        assert [entry.line for entry in store.read("s")] == [b"0"]
        store.write([batch(b"1")])
        assert [entry.line for entry in store.read("s")] == [b"0", b"1"]


def test_a_program_whose_name_is_not_utf_8_is_stored(tmp_path: Path) -> None:
    command = ("/bin/\udcffagent", "\udcff")
    with SqliteStore(tmp_path / "s.db") as store:
        store.write([Opened(session_id="s", at_us=1, agent=AgentIdentity(command=command))])
        assert store.session("s").agent.command == command
