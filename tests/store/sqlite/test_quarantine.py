"""A damaged store is quarantined unchanged. Any other file is left alone."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from threading import Event, Thread

import apsw
import pytest

from rekindle.composition import open_store
from rekindle.errors import StoreDamaged, StoreUnavailable
from rekindle.store.maintenance import RecoveryReport
from rekindle.store.sqlite import connection, quarantine
from rekindle.store.sqlite.filelock import FileLock
from rekindle.store.sqlite.files import awaiting_recovery, lock_path, recovered_path, report_path
from rekindle.store.sqlite.inspect import Inspection
from rekindle.store.sqlite.quarantine import is_damaged, recover, reports
from rekindle.store.sqlite.store import SqliteStore
from rekindle.transcript.titles import title_from_prompt
from stdio_client import TIMEOUT
from store_damage import ALL, Files, chunks, files_beside, fill


@pytest.fixture(autouse=True)
def _no_leftovers() -> Iterator[None]:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0  # noqa: PTH208
    yield
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208


def damaged(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        fill(store, range(3))
    with path.open("r+b") as file:
        file.write(b"\xff" * 100)
    return path


def test_quarantine_keeps_the_files_and_overwrites_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine.time, "strftime", lambda *_: "20260102T030405Z")
    asides: list[Files] = []
    for _ in range(3):
        path = damaged(tmp_path)
        path.chmod(0o644)
        asides.append({"": path.read_bytes()})
        assert recover(path, title_from_prompt)
    names = [f"s.db.damaged-20260102T030405Z{end}" for end in ("", "-2", "-3")]
    assert [Path(it.path).name for it in reports(path)] == names
    for name, files in zip(names, asides, strict=True):
        assert files_beside(tmp_path / name) == files
        for file in (tmp_path / name, tmp_path / f"{name}.json"):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [it.at_us for it in reports(path)] == [1_767_323_045_000_000] * 3
    (tmp_path / names[0]).unlink()
    assert len(reports(path)) == 3


def test_intact_stores_and_other_files_are_not_quarantined(tmp_path: Path) -> None:
    letter, theirs, ours = tmp_path / "letter", tmp_path / "theirs.db", tmp_path / "s.db"
    letter.write_bytes(b"Dear all, " * 1000)
    with closing(apsw.Connection(str(theirs))) as db:
        db.execute("create table precious (x)")
        db.execute("insert into precious values (1)")
    with SqliteStore(ours) as store:
        fill(store, range(3))
    before = {it.name: it.read_bytes() for it in (letter, theirs, ours)}
    assert [
        recover(it, title_from_prompt) for it in (letter, theirs, ours, tmp_path / "none.db")
    ] == [None] * 4
    assert {it.name: it.read_bytes() for it in (letter, theirs, ours)} == before
    assert not [it.name for it in tmp_path.iterdir() if ".damaged-" in it.name]


def test_newer_and_busy_stores_are_not_quarantined(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        fill(store, range(3))
        store._query("create table later (x)")  # noqa: SLF001
        store._query("pragma user_version = 9999")  # noqa: SLF001
    before = path.read_bytes()
    with Inspection(path) as examined:
        assert examined.schema() == 9999
    assert recover(path, title_from_prompt) is None
    with closing(apsw.Connection(str(path))) as db:
        db.pragma("locking_mode", "exclusive")
        db.execute("begin exclusive")
        with pytest.raises(StoreUnavailable, match="is locked"):
            recover(path, title_from_prompt)
    assert path.read_bytes() == before


def test_the_next_process_finishes_a_killed_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = damaged(tmp_path)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(quarantine.PageRecovery, "complete", die)
        with pytest.raises(KeyboardInterrupt):
            recover(path, title_from_prompt)
    assert not path.exists()
    for create in (True, False):
        with pytest.raises(StoreDamaged, match="is not recovered yet"):
            open_store(path, create=create)
    assert not path.exists()
    report = recover(path, title_from_prompt)
    assert report
    assert report.sessions_saved == 3
    open_store(path, create=True).close()
    assert not [it.name for it in tmp_path.iterdir() if "salvaged" in it.name]


def test_the_report_survives_a_kill_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = damaged(tmp_path)
    write = quarantine._write  # noqa: SLF001

    def check_before_rename(file: Path, data: bytes) -> None:
        assert not path.is_file()
        write(file, data)

    monkeypatch.setattr(quarantine, "_write", check_before_rename)
    report = recover(path, title_from_prompt)
    assert report
    # Killed before the new store was renamed.
    path.rename(recovered_path(path))
    with pytest.raises(StoreDamaged, match="is not recovered yet"):
        open_store(path, create=True)
    assert recover(path, title_from_prompt) == report
    # Killed after that.
    assert reports(path) == [report]
    assert not recovered_path(path).exists()
    # If the rename failed, the recovery is not complete.
    path.rename(tmp_path / "away")
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        quarantine._recover(path, Path(report.path), title_from_prompt, print)  # noqa: SLF001
    path.rmdir()
    assert awaiting_recovery(path) == Path(report.path)
    assert recover(path, title_from_prompt) == report


def test_the_last_quarantined_store_is_found_despite_clock_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stamp in ("20260102T030405Z", "20250102T030405Z"):
        path = damaged(tmp_path)
        monkeypatch.setattr(quarantine.time, "strftime", lambda *_, it=stamp: it)
        report = recover(path, title_from_prompt, is_certain=True)
        assert report
        report_path(Path(report.path)).unlink()
    path.unlink()
    assert awaiting_recovery(path) == tmp_path / "s.db.damaged-20250102T030405Z"


def test_an_open_store_leaves_its_wal_for_the_recovery(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store, closing(FileLock(lock_path(path))) as lock:
        fill(store, range(3))
        # As a process that is killed before it has renamed the WAL.
        quarantine._move_to_quarantine(path, lock)  # noqa: SLF001
        with pytest.raises(StoreUnavailable, match="was removed or replaced"):
            store.write([chunks("ses_1", 1, 1)], sync=True)
        report = recover(path, title_from_prompt)
    assert report
    assert (report.sessions_saved, report.entries_saved) == (3, 15)


def test_a_store_recovered_meanwhile_is_not_quarantined_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = damaged(tmp_path)
    saved: list[RecoveryReport | None] = []
    lock_it = quarantine._locked  # noqa: SLF001

    def acquire_late(path: Path) -> AbstractContextManager[FileLock]:
        monkeypatch.setattr(quarantine, "_locked", lock_it)
        saved.append(recover(path, title_from_prompt, is_certain=True))
        return lock_it(path)

    monkeypatch.setattr(quarantine, "_locked", acquire_late)
    assert recover(path, title_from_prompt, is_certain=True) == saved[0] == reports(path)[0]
    assert len(reports(path)) == 1


def test_one_process_recovers_and_the_others_wait(tmp_path: Path) -> None:
    path = damaged(tmp_path)
    has_begun, may_go_on = Event(), Event()
    came: list[RecoveryReport | None] = []

    def block(_: float) -> None:
        has_begun.set()
        assert may_go_on.wait(TIMEOUT)

    one = Thread(target=lambda: came.append(recover(path, title_from_prompt, progress=block)))
    other = Thread(target=lambda: came.append(recover(path, title_from_prompt)))
    one.start()
    assert has_begun.wait(TIMEOUT)
    other.start()
    other.join(0.2)
    assert other.is_alive()
    may_go_on.set()
    for thread in (one, other):
        thread.join(TIMEOUT)
    assert came[0] == came[1] == reports(path)[0]
    assert len(reports(path)) == 1


def test_checking_for_damage_holds_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = damaged(tmp_path)
    is_looking, may_go_on = Event(), Event()
    came: list[RecoveryReport | None] = []

    def look(_: Path) -> bool:
        is_looking.set()
        return may_go_on.wait(TIMEOUT)

    monkeypatch.setattr(quarantine, "is_damaged", look)
    one = Thread(target=lambda: came.append(recover(path, title_from_prompt)))
    one.start()
    assert is_looking.wait(TIMEOUT)
    with closing(FileLock(lock_path(path))) as lock:
        assert lock.acquire(0)
        # Another process was faster.
        moved = quarantine._move_to_quarantine(path, lock)  # noqa: SLF001
        other = quarantine._recover(path, moved, title_from_prompt, print)  # noqa: SLF001
        may_go_on.set()
    one.join(TIMEOUT)
    assert came == [other] == reports(path)


def test_a_recovery_without_a_report_is_named(tmp_path: Path) -> None:
    path = damaged(tmp_path)
    report = recover(path, title_from_prompt)
    assert report
    assert report.text.endswith(": 3 sessions and 15 entries were recovered, and no loss is known")
    report_path(Path(report.path)).write_bytes(b"nonsense")
    (known,) = reports(path)
    assert known.text.endswith("; the recovery did not finish")


def test_recovery_needs_enough_disk_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = damaged(tmp_path)
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        Path(f"{path}-wal").write_bytes(bytes(1000))
        free = path.stat().st_size + 999
        patch.setattr(quarantine.shutil, "disk_usage", lambda _: usage._replace(free=free))
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="no space"):
                recover(path, title_from_prompt)
    assert recover(path, title_from_prompt)


def test_an_open_store_stops_writing_after_quarantine(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        fill(store, range(3))
        report = recover(path, title_from_prompt, is_certain=True)
        assert report
        aside = files_beside(Path(report.path))
        for sync in (True, False):
            with pytest.raises(StoreUnavailable, match="was removed or replaced"):
                store.write([chunks("ses_1", 1, 1)], sync=sync)
        assert [it.id for it in store.sessions(ALL)]
    assert files_beside(Path(report.path)) == aside
    with SqliteStore(path) as new:
        assert len(new.sessions(ALL)) == 3
        new.write([chunks("ses_1", 1, 1)])


@pytest.mark.parametrize("with_log", [True, False])
def test_an_emptied_store_is_damaged(tmp_path: Path, *, with_log: bool) -> None:
    path, log = tmp_path / "s.db", tmp_path / "s.db-wal"
    with SqliteStore(path) as store:
        fill(store, range(3))
        content = log.read_bytes()
    os.truncate(path, 0)
    if with_log:
        log.write_bytes(content)
    for create in (True, False):
        with pytest.raises(StoreDamaged, match="the file is empty, and was not before"):
            open_store(path, create=create)
    assert log.exists() == with_log
    report = recover(path, title_from_prompt)
    assert report
    assert (report.sessions_saved, report.entries_saved) == ((3, 15) if with_log else (0, 0))
    assert report.text.endswith("no session could be read") != with_log
    open_store(path, create=True).close()


def test_a_new_or_removed_store_was_not_emptied(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.touch()
    lock_path(path).touch()
    for _ in range(2):
        # As a killed process leaves it, and as a creating process has it.
        SqliteStore(path).close()
        path.unlink()
    SqliteStore(path).close()
    path.unlink()
    connection._mark_as_created(path, is_created=False)  # noqa: SLF001
    path.touch()
    with SqliteStore(path, create=False) as store:
        assert store.sessions(ALL) == []


def test_writing_the_note_keeps_the_mark(tmp_path: Path) -> None:
    path = damaged(tmp_path)
    assert recover(path, title_from_prompt)
    os.truncate(path, 0)
    assert recover(path, title_from_prompt)
    assert len(reports(path)) == 2


def test_a_file_copied_over_an_open_store_is_recovered(
    tmp_path: Path,
) -> None:
    path, backup = tmp_path / "s.db", tmp_path / "backup"
    with SqliteStore(path) as store:
        fill(store, range(13))
    shutil.copy(path, backup)
    with SqliteStore(path) as store:
        fill(store, range(20, 50))
        store._truncate_wal()  # noqa: SLF001
        # As `cp` does: the same file with other pages.
        path.write_bytes(backup.read_bytes())
        store.write([chunks("ses_new", n, 3) for n in range(30)], sync=True)
    assert is_damaged(path)
    report = recover(path, title_from_prompt)
    assert report
    assert not is_damaged(path)
    with SqliteStore(path) as store:
        assert len(list(store.read("ses_new"))) == 90
