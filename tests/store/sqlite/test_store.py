"""Properties of the SQLite store beyond the contract."""

import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from threading import Timer
from typing import NoReturn

import apsw
import pytest
from msgspec.structs import replace

from rekindle.errors import LeaseLost, SessionNotFound, StoreDamaged, StoreTooNew, StoreUnavailable
from rekindle.model import (
    Deleted,
    EntryBatch,
    Forgotten,
    Forked,
    Kind,
    LeaseHolder,
    LeaseResult,
    Opened,
    Page,
    Side,
)
from rekindle.store.sqlite import sql
from rekindle.store.sqlite.codec import page_conditions
from rekindle.store.sqlite.filelock import FileLock
from rekindle.store.sqlite.leases import Leases
from rekindle.store.sqlite.schema import APPLICATION_ID, MIGRATIONS
from rekindle.store.sqlite.store import SqliteStore


def batch(*lines: bytes, session: str = "s") -> EntryBatch:
    return EntryBatch(
        session_id=session,
        side=Side.AGENT,
        kind=Kind.UPDATE,
        at_us=1,
        data=b"\n".join(lines),
        count=len(lines),
    )


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_files_and_folders_are_private_with_any_umask(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "s.db"
    umask = os.umask(0)
    try:
        with SqliteStore(path) as store:
            store.write([batch(b"1")])
            files = sorted(path.parent.iterdir())
            assert [file.name for file in files] == ["s.db", "s.db-shm", "s.db-wal", "s.db.lock"]
            assert {mode(file) for file in files} == {0o600}
    finally:
        os.umask(umask)
    assert mode(path.parent) == mode(path.parent.parent) == 0o700


def test_an_existing_folder_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    SqliteStore(tmp_path / "s.db").close()
    assert mode(tmp_path) == 0o755


def test_a_newer_store_is_refused_and_left_untouched(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    SqliteStore(path).close()
    newer = len(MIGRATIONS) + 1
    with closing(apsw.Connection(str(path))) as db:
        db.execute(f"create table later (x); pragma user_version = {newer}")
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match=f"has schema {newer}.*upgrade Rekindle"):
        SqliteStore(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("schema", [1, len(MIGRATIONS) - 1])
def test_a_breaking_upgrade_waits_for_running_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: int
) -> None:
    path = tmp_path / "s.db"
    with closing(apsw.Connection(str(path))) as db:
        for migration in MIGRATIONS[:schema]:
            db.execute(migration)
        db.pragma("application_id", APPLICATION_ID)
        db.pragma("user_version", schema)
        db.execute(
            "insert into session (id, agent_session_id, created_us, updated_us)"
            " values ('s', 's', 1, 1)"
        )
        db.execute("insert into lease (session, token, pid, host) values (1, 'old', 12345678, 'h')")
    live = tmp_path / "s.db.live" / "old"
    live.parent.mkdir()
    monkeypatch.setattr("rekindle.store.sqlite.schema.BREAKING", {len(MIGRATIONS)})
    with closing(FileLock(live)) as lock:
        lock.acquire(0)
        with pytest.raises(StoreUnavailable, match="process 12345678 on h runs an earlier version"):
            SqliteStore(path)
    live.unlink()
    with SqliteStore(path) as store:
        assert [it.id for it in store.sessions(Page(with_unopened=True))] == ["s"]


def test_an_upgrade_while_open_raises_store_too_new(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        store.write([batch(b"1")])
        newer = len(MIGRATIONS) + 1
        with closing(apsw.Connection(str(path))) as db:
            db.execute(f"alter table stretch add column later text; pragma user_version = {newer}")
        with pytest.raises(StoreTooNew, match=f"has schema {newer}"):
            store.write([batch(b"2")])


def test_a_new_holder_survives_a_concurrent_liveness_probe(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    holder = LeaseHolder(token="ours", pid=1, machine="here")  # noqa: S106 - no password
    live = tmp_path / "s.db.live" / holder.token
    live.parent.mkdir()
    look = FileLock(live)
    look.acquire(0)
    with SqliteStore(path) as store, SqliteStore(path) as other:
        store.write([batch(b"1")])

        def probe_as_dead() -> None:
            live.unlink()
            look.close()

        ending = Timer(0.05, probe_as_dead)
        ending.start()
        store.acquire_lease("s", holder, takeover=False)
        ending.join()
        assert live.exists()
        another = LeaseHolder(token="another", pid=2, machine="here")  # noqa: S106 - no password
        assert other.acquire_lease("s", another, takeover=False).holder == holder


def test_every_older_schema_is_migrated(tmp_path: Path) -> None:
    for done in range(len(MIGRATIONS)):
        path = tmp_path / f"{done}.db"
        with closing(apsw.Connection(str(path))) as db:
            for step in MIGRATIONS[:done]:
                db.execute(step)
            db.execute(f"pragma user_version = {done}")
            db.execute(f"pragma application_id = {APPLICATION_ID if done else 0}")
        with SqliteStore(path) as store:
            store.write([batch(b"1")])
            assert [entry.line for entry in store.read("s")] == [b"1"]


def test_titles_made_from_handovers_are_removed_by_the_migration(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    handover = "This conversation was continued in a new process, and you have no memory"
    rows = {
        "fork": (f'"{handover[:45]}…"', "Fix it"),
        "imported": (None, f"{handover}…"),
        "citing": ("Why it ended", "Why “This conversation was continued in a new process”?"),
    }
    with closing(apsw.Connection(str(path))) as db:
        for step in MIGRATIONS[:7]:
            db.execute(step)
        db.execute(f"pragma user_version = 7; pragma application_id = {APPLICATION_ID}")
        for name, titles in rows.items():
            db.execute(
                "insert into session (id, agent_session_id, created_us, updated_us, agent_title,"
                " prompt_title) values (?1, ?1, 1, 1, ?2, ?3)",
                (name, *titles),
            )
    with SqliteStore(path) as store:
        assert {name: list(store.titles(name).values()) for name in rows} == {
            "fork": ["Fix it"],
            "imported": [],
            "citing": list(reversed(rows["citing"])),
        }


def test_a_dead_holder_of_an_earlier_release_is_not_mistaken_for_another_process(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.db"
    with closing(apsw.Connection(str(path))) as db:
        for step in MIGRATIONS[:7]:
            db.execute(step)
        db.execute(f"pragma user_version = 7; pragma application_id = {APPLICATION_ID}")
        for key, (name, token) in enumerate([("dead", "gone"), ("live", "held")], start=1):
            db.execute(
                "insert into session (key, id, agent_session_id, created_us, updated_us)"
                " values (?1, ?2, ?2, 1, 1)",
                (key, name),
            )
            db.execute(
                "insert into lease (session, token, pid, host) values (?, ?, ?, ?)",
                (key, token, os.getppid(), os.uname().nodename),
            )
    folder = tmp_path / "s.db.live"
    folder.mkdir()
    with closing(FileLock(folder / "held")) as lock, SqliteStore(path) as store:
        lock.acquire(1)
        # Another process has the id of the dead holder now.
        assert store.leased_ids() == {"live"}


@pytest.mark.parametrize(
    ("page", "index"),
    [
        (Page(prompted=True), "session_by_prompt"),
        (Page(prompted=True, cwd="/p"), "session_by_cwd_and_prompt"),
        (Page(archived=True), "session_by_archive"),
        (Page(archived=True, cwd="/p"), "session_by_cwd_and_archive"),
        (Page(placeholders=True, with_archived=True), "session_by_mark"),
    ],
)
def test_pages_of_the_protocol_are_found_by_an_index(
    tmp_path: Path, page: Page, index: str
) -> None:
    with SqliteStore(tmp_path / "s.db") as store, store.writing() as db:
        conditions, values = page_conditions(replace(page, before=(9, "s")))
        where = " and ".join(conditions)
        order = "order by updated_us desc, id desc limit 50"
        plan = db.execute(f"explain query plan {sql.SESSION} where {where} {order}", values)
        steps = [row[3] for row in plan]
    assert any(index in step.split() for step in steps)
    assert not any("TEMP B-TREE" in step for step in steps)


def test_unused_sessions_are_found_by_an_index(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "s.db") as store:
        plan = store._query(f"explain query plan {sql.UNUSED_SESSIONS}", (9, 0, "", "[]", 5))  # noqa: SLF001
    assert "session_by_creation" in str(plan)


def test_a_commit_that_fails_forgets_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    holder = LeaseHolder(token="t", pid=1, machine="here")  # noqa: S106 - no password
    forgotten = Forgotten(session_id="s", at_us=1)
    unknown = Forked(session_id="f", at_us=1, parent_id="nobody", until_seq=1)
    with SqliteStore(path) as store:
        store.write([Opened(session_id="s", at_us=1, cwd="/p")])
        store.acquire_lease("s", holder)
        with pytest.raises(SessionNotFound):
            store.write([forgotten, unknown])
        store.write([Opened(session_id="t", at_us=1)])
        assert store.lease_holder("s") == holder
        # The lease of a removed session must not be taken over with a replaced store.
        assert store._leases.remembered() == {"s": holder}  # noqa: SLF001
        store.write([forgotten])
        assert store._leases.remembered() == {}  # noqa: SLF001


def test_opening_for_reading_creates_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="there is no store"):
        SqliteStore(tmp_path / "s.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_locked_store_is_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path, timeout=0.05) as store:
        store.write([batch(b"1")])
        other = apsw.Connection(str(path))
        other.execute("begin immediate")
        with pytest.raises(StoreUnavailable, match="locked by another process"):
            store.write([batch(b"2")])
        assert [entry.line for entry in store.read("s")] == [b"1"]
        other.close()
        store.write([batch(b"3")])
        assert [entry.line for entry in store.read("s")] == [b"1", b"3"]


@pytest.mark.parametrize("garbage", [b"garbage" * 1000, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_damaged_store_raises_store_damaged(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(garbage)
    with pytest.raises(StoreUnavailable, match="is damaged"):
        SqliteStore(path)
    assert path.read_bytes() == garbage


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts a small disk")
def test_a_row_with_missing_lines_is_damage(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "s.db") as store:
        store.write([batch(b"1", b"2", b"3")])
        with closing(apsw.Connection(str(tmp_path / "s.db"))) as db:
            db.execute("update stretch set data = x'31000a33'")
        with pytest.raises(StoreDamaged, match="does not have its 3 entries"):
            list(store.read("s"))


def test_a_full_disk_writes_nothing_partially(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount") or "mount"
    umount = shutil.which("umount") or "umount"
    mounting = [mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if subprocess.run(mounting, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        with SqliteStore(disk / "s.db") as store:
            store.write([batch(b"1")])
            with pytest.raises(StoreUnavailable, match="is full"):
                store.write([batch(b"2"), batch(b"x" * 4_000_000)])
            store.write([batch(b"3")])
            assert [entry.line for entry in store.read("s")] == [b"1", b"3"]
    finally:
        subprocess.run([umount, str(disk)], check=True)


WRITER = """
import sys
from pathlib import Path
from rekindle.model import EntryBatch, Kind, LeaseHolder, LeaseResult, Side
from rekindle.store.sqlite.store import SqliteStore
path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with SqliteStore(path) as store:
    for number in range(count):
        store.write([EntryBatch(session_id=name, side=Side.AGENT, kind=Kind.UPDATE, at_us=number,
                             data=b"%d" % number)], sync=number % 50 == 0)
"""


def test_eight_concurrent_writers_lose_nothing(tmp_path: Path) -> None:
    path, count = tmp_path / "s.db", 300
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, path, f"s{name}", str(count)], stderr=subprocess.PIPE
        )
        for name in range(8)
    ]
    for writer in writers:
        _, stderr = writer.communicate(timeout=60)
        assert (writer.returncode, stderr) == (0, b"")
    with SqliteStore(path) as store:
        assert len(store.sessions(Page(with_unopened=True))) == 8
        for name in range(8):
            lines = [entry.line for entry in store.read(f"s{name}")]
            assert lines == [b"%d" % number for number in range(count)]


def test_concurrent_writers_of_one_session_leave_no_seq_gaps(tmp_path: Path) -> None:
    path, count = tmp_path / "s.db", 200
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, path, "s", str(count)]) for _ in range(3)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    with SqliteStore(path) as store:
        assert [entry.seq for entry in store.read("s")] == list(range(1, 3 * count + 1))


def test_alternating_writers_of_one_session_leave_no_seq_gaps(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as one, SqliteStore(path) as other:
        for number in range(10):
            (one if number % 3 else other).write([batch(b"%d" % number)])
        assert [(e.seq, e.line) for e in one.read("s")] == [(n + 1, b"%d" % n) for n in range(10)]


def test_only_synced_writes_wait_for_the_disk(tmp_path: Path) -> None:
    # Values of `synchronous`: 2 waits for the disk at each commit, 1 does not.
    with SqliteStore(tmp_path / "s.db") as store:
        for sync, level in ((True, 2), (False, 1), (True, 2)):
            store.write([batch(b"x")], sync=sync)
            assert store._db.pragma("synchronous") == level  # noqa: SLF001


def test_a_stopped_lock_holder_blocks_no_writer(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path, timeout=0.05) as one, SqliteStore(path, timeout=0.05) as other:
        assert one.lock.acquire(1)
        other.write([batch(b"1")])
        assert [entry.line for entry in one.read("s")] == [b"1"]
        one.lock.release()


HOLDER = """
import sys
from pathlib import Path
from rekindle.model import LeaseHolder, LeaseResult, Opened
from rekindle.store.sqlite.store import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
store.write([Opened(session_id="s", at_us=1)])
print(store.acquire_lease("s", LeaseHolder(token="theirs", pid=7, machine="there")), flush=True)
sys.stdin.read()
"""


def test_a_process_of_an_earlier_release_fences_and_shrinks_no_epoch(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    ours, theirs = (LeaseHolder(token=it, pid=1, machine="here") for it in ("ours", "theirs"))
    with SqliteStore(path) as store, SqliteStore(path) as other:
        store.write([batch(b"1", session="s")])
        other.acquire_lease("s", theirs)
        assert store.acquire_lease("s", ours, takeover=True).epoch == 2
        # As release 0.1 acquires a lease. It may run while the store is upgraded.
        columns = "insert or replace into lease (session, token, pid, host)"
        with other.writing() as db:
            values = os.getppid(), os.uname().nodename
            db.execute(f"{columns} values (1, 'earlier', ?, ?)", values)
        other.release_leases(theirs)
        with pytest.raises(LeaseLost) as caught:
            store.write([batch(b"2", session="s")])
        assert (caught.value.until_seq, caught.value.holder.token) == (1, "earlier")
        assert store.acquire_lease("s", ours, takeover=True).epoch == 3
        store.write([batch(b"2", session="s")])


def test_a_commit_that_fails_with_a_lease_fences_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    ours = LeaseHolder(token="ours", pid=1, machine="here")  # noqa: S106 - no password
    with SqliteStore(path) as store:
        store.write([batch(b"1", session="s")])
        acquire = Leases.acquire

        def fail(leases: Leases, *args: object, **options: object) -> NoReturn:
            acquire(leases, *args, **options)  # type: ignore[arg-type]
            raise OSError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(Leases, "acquire", fail)
            with pytest.raises(StoreUnavailable):
                store.acquire_lease("s", ours)
        assert store.lease_mark("s") is None


def test_the_leases_of_a_replaced_store_stay_fenced(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    ours, theirs = (LeaseHolder(token=it, pid=1, machine="here") for it in ("ours", "theirs"))
    former = SqliteStore(path)
    with SqliteStore(path) as other:
        former.write([batch(b"1", session="s")])
        former.acquire_lease("s", ours)
        other.acquire_lease("s", theirs, takeover=True)
        with SqliteStore(path) as store:
            store.continue_from(former)
            former.close()
            with pytest.raises(LeaseLost):
                store.write([batch(b"2", session="s")])


def test_a_purge_between_the_check_and_the_error_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    ours, theirs = (LeaseHolder(token=it, pid=1, machine="here") for it in ("ours", "theirs"))
    with SqliteStore(path) as store, SqliteStore(path) as other:
        store.write([batch(b"1", session="s")])
        store.acquire_lease("s", ours)
        store.write([batch(b"2", session="s")])
        other.acquire_lease("s", theirs, takeover=True)
        check = Leases.check

        def check_late(leases: Leases, session_id: str, key: int) -> None:
            other.write([Deleted(session_id="s", at_us=1)])
            other.purge("s")
            check(leases, session_id, key)

        monkeypatch.setattr(Leases, "check", check_late)
        store.write([batch(b"3", session="s")])
        assert [entry.line for entry in store.read("s")] == [b"3"]


def test_a_killed_holder_loses_its_lease(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout
    assert process.stdin
    assert b"holder=None, was_held_by_another=False, epoch=1" in process.stdout.readline()
    ours = LeaseHolder(token="ours", pid=1, machine="here")  # noqa: S106 - no password
    with SqliteStore(path) as store:
        theirs = store.acquire_lease("s", ours).holder
        assert theirs is not None
        assert (theirs.token, theirs.pid, theirs.machine) == ("theirs", 7, "there")
        process.kill()
        process.wait()
        assert store.lease_holder("s") is None
        assert store.acquire_lease("s", ours) == LeaseResult(
            was_held_by_another=True, epoch=2, former=theirs
        )
        assert store.lease_holder("s") == ours
    assert list((tmp_path / "s.db.live").iterdir()) == []
    process.stdin.close()
    process.stdout.close()
