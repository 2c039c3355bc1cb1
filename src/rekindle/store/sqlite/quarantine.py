"""Quarantine a damaged store, and copy its readable parts into a new one.

The damaged store is renamed first, which takes no time. From then on no process writes to it: a
process that has it open sees before each commit that it was replaced. Until the new store is
complete, no process creates an empty one, because a quarantined store without a report waits for
recovery. So a kill at any moment loses nothing: the next process recovers it.

Only the process that holds the store's lock recovers it. The others wait, and then find a store.
"""

import calendar
import os
import shutil
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import Any

import apsw
import msgspec

from rekindle.errors import StoreDamaged, StoreUnavailable
from rekindle.store.maintenance import Progress, RecoveryReport
from rekindle.store.sqlite.connection import open_for_writing, translate_errors
from rekindle.store.sqlite.file_pages import DatabaseImage
from rekindle.store.sqlite.filelock import StoreLock, note_in
from rekindle.store.sqlite.files import (
    DATABASE_SUFFIXES,
    awaiting_recovery,
    index_path,
    last_quarantined,
    lock_path,
    quarantined,
    recovered_path,
    report_path,
)
from rekindle.store.sqlite.inspect import NEWEST_SCHEMA, Inspection
from rekindle.store.sqlite.recovery import PageRecovery, RecoveryCounts
from rekindle.store.sqlite.schema import Database

_LOCK_TIMEOUT = 600.0
_COMMIT_TIMEOUT_MS = 1000
_RECENT_SECONDS = 60.0
_STAMP = "%Y%m%dT%H%M%SZ"


TitleFromPrompt = Callable[[list[Any]], str | None]


def recover(
    path: Path,
    title_from_prompt: TitleFromPrompt,
    *,
    is_certain: bool = False,
    progress: Progress = lambda _: None,
) -> RecoveryReport | None:
    """Quarantine a damaged store, and copy its readable parts into a new one.

    Return None if the store is not damaged, or was never a store. If another process is at it, wait
    and return its report. With `is_certain`, do not check for damage first.
    Raises StoreUnavailable.
    """
    if not _was_a_store(path):
        return None
    seen = _state_of(path)
    with translate_errors(path):
        # Without the lock, because it takes long, and other processes go on writing meanwhile.
        if path.exists() and not is_certain and not is_damaged(path):
            return _recent_report(path)
        with _locked(path) as lock:
            was_replaced = _state_of(path) != seen
            if path.exists() and was_replaced:
                return _recent_report(path)
            exists = path.exists()
            damaged = _move_to_quarantine(path, lock) if exists else awaiting_recovery(path)
            return _recover(path, damaged, title_from_prompt, progress) if damaged else None


def is_damaged(path: Path) -> bool:
    """Return whether a store is damaged. Reads all of it."""
    try:
        with Inspection(path) as store:
            if not 0 < (store.schema() or 0) <= NEWEST_SCHEMA:
                # Another application's database, or a newer store: not for us to judge.
                return False
            return bool(
                store.complaints(full=False)
                or not store.matches_schema()
                or store.unreadable_sessions()
                or store.orphaned_keys()
                or store.has_malformed_entries()
            )
    except StoreDamaged:
        return True


def reports(path: Path) -> list[RecoveryReport]:
    """Return the reports of all recoveries of this store, oldest first."""
    return [_report(damaged) for damaged in quarantined(path)]


def _was_a_store(path: Path) -> bool:
    """Return whether there is or was a store. Any other file is never moved."""
    # Every process that has written to a store has left a lock file.
    if lock_path(path).exists():
        return True
    try:
        with Inspection(path) as store:
            return store.schema() is not None
    except StoreUnavailable:
        return False


@contextmanager
def _locked(path: Path) -> Generator[StoreLock]:
    lock = StoreLock(lock_path(path))
    try:
        if not lock.acquire(_LOCK_TIMEOUT):
            raise StoreUnavailable(
                f"the store {path} is locked by another process; try again later"
            )
        yield lock
    finally:
        lock.close()


def _state_of(path: Path) -> tuple[int | None, bytes]:
    """Return values that differ once a store has been replaced."""
    return path.stat().st_ino if path.exists() else None, note_in(lock_path(path))


def _move_to_quarantine(path: Path, lock: StoreLock) -> Path:
    """Rename a store. The database comes first; the files beside it follow in any case."""
    stamp = time.strftime(_STAMP, time.gmtime())
    first = path.with_name(f"{path.name}.damaged-{stamp}")
    others = (first.with_name(f"{first.name}-{number}") for number in count(2))
    taken = set(quarantined(path))
    damaged = next(path for path in chain([first], others) if path not in taken)
    # The note comes first: processes that have the store open read it before each commit.
    lock.write(damaged.suffix.encode())
    db = _block_commits(path)
    try:
        path.rename(damaged)
    finally:
        if db is not None:
            db.close()
    return damaged


def _block_commits(path: Path) -> Database | None:
    """Keep processes that gave up waiting for our lock from committing, if SQLite still can."""
    if not path.stat().st_size or path.with_name(path.name + "-journal").exists():
        # SQLite would remove the WAL of an empty file, and roll back a journal.
        return None
    try:
        db: Database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.Error:
        return None
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    db.set_busy_timeout(_COMMIT_TIMEOUT_MS)
    with suppress(apsw.Error):
        db.execute("begin immediate")
    return db


def _recover(
    path: Path, damaged: Path, title_from_prompt: TitleFromPrompt, progress: Progress
) -> RecoveryReport:
    for end in DATABASE_SUFFIXES[1:]:
        # The new store must not find the WAL of the old one.
        beside = path.with_name(path.name + end)
        if beside.exists():
            beside.rename(damaged.with_name(damaged.name + end))
    for end in DATABASE_SUFFIXES:
        file = damaged.with_name(damaged.name + end)
        if file.exists() and file.stat().st_uid == os.geteuid():
            file.chmod(0o600)
    _check_disk_space(damaged)
    new = recovered_path(path)
    # The order matters, also below: a report without a file to rename means that all is done.
    report_path(damaged).unlink(missing_ok=True)
    _remove(new)
    try:
        counts = _fill(new, damaged, title_from_prompt, progress)
        _sync(new)
        report = RecoveryReport(
            **msgspec.structs.asdict(counts), at_us=_time_of(damaged), path=str(damaged)
        )
        _write(report_path(damaged), msgspec.json.encode(report))
        new.rename(path)
    except BaseException:
        if new.exists():
            report_path(damaged).unlink(missing_ok=True)
        raise
    finally:
        _remove(new)
    _sync(path.parent)
    _empty_index(path)
    return report


def _empty_index(path: Path) -> None:
    """Empty the index, which has documents of lost entries. The next search fills it again."""
    if index_path(path).exists():
        from rekindle.store.sqlite.search_index import (  # noqa: PLC0415 - seldom needed
            SqliteSearchIndex,
        )

        with suppress(StoreUnavailable):
            SqliteSearchIndex(path, rebuild=True).close()


def _check_disk_space(damaged: Path) -> None:
    files = (damaged.with_name(damaged.name + end) for end in ("", "-wal"))
    needed = sum(file.stat().st_size for file in files if file.exists())
    if shutil.disk_usage(damaged.parent).free < needed:
        raise StoreUnavailable(
            f"the disk has no space to recover the damaged store {damaged}; free some space"
        )


def _fill(
    new: Path, damaged: Path, title_from_prompt: TitleFromPrompt, progress: Progress
) -> RecoveryCounts:
    db = open_for_writing(new, timeout=1.0)
    try:
        # An interrupted recovery starts again, and the file is synced at the end: no WAL is needed.
        db.pragma("journal_mode", "memory")
        db.pragma("synchronous", "off")
        with DatabaseImage(damaged) as image:
            recovery = PageRecovery(image, db, title_from_prompt)
            for done in recovery.copy_rows():
                progress(done)
            counts = recovery.complete()
        db.pragma("journal_mode", "wal")
        return counts
    finally:
        db.close()


def _remove(new: Path) -> None:
    for end in (*DATABASE_SUFFIXES, ".lock"):
        new.with_name(new.name + end).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write(path: Path, data: bytes) -> None:
    half = path.with_name(path.name + ".new")
    fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
    half.rename(path)


def _recent_report(path: Path) -> RecoveryReport | None:
    """Return the report of another process that has recovered the store meanwhile, if any."""
    damaged = last_quarantined(path)
    if damaged is None:
        return None
    with suppress(OSError):
        if time.time() - report_path(damaged).stat().st_mtime < _RECENT_SECONDS:
            return _report(damaged)
    return None


def _report(damaged: Path) -> RecoveryReport:
    try:
        report = msgspec.json.decode(report_path(damaged).read_bytes(), type=RecoveryReport)
    except (OSError, ValueError):
        return RecoveryReport(at_us=_time_of(damaged), path=str(damaged), is_finished=False)
    return report


def _time_of(damaged: Path) -> int:
    stamp = damaged.name.rpartition(".damaged-")[2].partition("-")[0]
    return calendar.timegm(time.strptime(stamp, _STAMP)) * 1_000_000
