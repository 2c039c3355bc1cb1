"""A damaged store: set aside as it is, and what can be read of it saved in a new one.

It is renamed first, which takes no time, and from then on nobody writes to it: whoever has it open
sees before each commit that it was replaced. Until the new one is in its place there is no store,
and nobody makes an empty one, because what was set aside and has no report yet waits to be saved.
So a kill at any moment loses nothing: the next one that opens the store saves it.

Exactly one does it: whoever has the store's lock. The others wait for it, and find a store.
"""

import calendar
import os
import shutil
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path

import apsw
import msgspec

from rekindle.errors import StoreDamaged, StoreUnavailable
from rekindle.store.address import index_path
from rekindle.store.sqlite.connection import (
    last_set_aside,
    lock_path,
    made_path,
    open_for_writing,
    report_path,
    set_aside,
    translated,
    waiting,
)
from rekindle.store.sqlite.filelock import FileLock, note_in
from rekindle.store.sqlite.inspect import NEWEST_SCHEMA, Examination
from rekindle.store.sqlite.pages import Image
from rekindle.store.sqlite.recovery import Salvager, Tally
from rekindle.store.sqlite.schema import Database

_PATIENCE = 600.0
_PATIENCE_WITH_COMMITS = 1000
_JUST_NOW = 60.0
_OF_DATABASE = ("", "-wal", "-shm", "-journal")
_STAMP = "%Y%m%dT%H%M%SZ"


class Report(Tally, kw_only=True, rename="camel"):
    """What became of a damaged store."""

    at_us: int
    path: str
    """Where it was set aside."""
    is_finished: bool = True
    """Whether it is known what was saved."""


def salvage(
    path: Path, *, is_sure: bool = False, tick: Callable[[float], object] = lambda _: None
) -> Report | None:
    """Set a damaged store aside, and save what can be read in a new one; tell how much.

    Return None if it is not damaged, or was never a store of ours. If another is at it, it is
    waited for, and what became of it is told. With `is_sure` it is not looked at before.
    Raises StoreUnavailable.
    """
    if not _was_ours(path):
        return None
    seen = _state_of(path)
    with translated(path):
        # Without the lock, because it takes long, and others go on writing meanwhile.
        if path.exists() and not is_sure and not is_damaged(path):
            return _made_just_now(path)
        with _locked(path) as lock:
            is_another = _state_of(path) != seen
            if path.exists() and is_another:
                return _made_just_now(path)
            aside = _set_aside(path, lock) if path.exists() else waiting(path)
            return _save(path, aside, tick) if aside else None


def is_damaged(path: Path) -> bool:
    """Tell whether a store of ours makes no sense, by a look at all of it."""
    try:
        with Examination(path) as store:
            if not 0 < (store.schema() or 0) <= NEWEST_SCHEMA:
                # Somebody else's, or of a newer Rekindle: not for us to judge.
                return False
            return bool(
                store.complaints(full=False)
                or not store.fits_its_schema()
                or store.unreadable_sessions()
                or store.has_senseless_entries()
            )
    except StoreDamaged:
        return True


def reports(path: Path) -> list[Report]:
    """Return what became of the damaged stores that lay here, the oldest first."""
    return [_report(aside) for aside in set_aside(path)]


def in_words(report: Report) -> str:
    """Say what became of a damaged store."""
    where = f"the damaged store was set aside as {report.path}"
    if not report.is_finished:
        return f"{where}; what was saved of it is not known"
    if not report.sessions_saved + report.sessions_lost + report.entries_lost:
        return f"{where}: nothing in it could be read"
    saved = f"{_several(report.sessions_saved, 'session')} and {_entries(report.entries_saved)}"
    if not report.sessions_lost + report.entries_lost:
        return f"{where}: {saved} were saved, and nothing is known to be lost"
    lost = f"{_several(report.sessions_lost, 'session')} and {_entries(report.entries_lost)}"
    return f"{where}: {saved} were saved; {lost} were lost, as far as can be known"


def _several(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _entries(number: int) -> str:
    return f"{number} {'entry' if number == 1 else 'entries'}"


def _was_ours(path: Path) -> bool:
    """Tell whether there is, or was, a store: a mere file is never moved."""
    # Whoever has written to a store has left its lock.
    if lock_path(path).exists():
        return True
    try:
        with Examination(path) as store:
            return store.schema() is not None
    except StoreUnavailable:
        return False


@contextmanager
def _locked(path: Path) -> Generator[FileLock]:
    lock = FileLock(lock_path(path))
    try:
        if not lock.acquire(_PATIENCE):
            raise StoreUnavailable(f"the store {path} is locked by another process")
        yield lock
    finally:
        lock.close()


def _state_of(path: Path) -> tuple[int | None, bytes]:
    """Return by what it is seen that a store has been replaced."""
    return path.stat().st_ino if path.exists() else None, note_in(lock_path(path))


def _set_aside(path: Path, lock: FileLock) -> Path:
    """Rename a store. The file itself comes first: what is left beside it follows in any case."""
    stamp = time.strftime(_STAMP, time.gmtime())
    first = path.with_name(f"{path.name}.damaged-{stamp}")
    others = (first.with_name(f"{first.name}-{number}") for number in count(2))
    taken = set(set_aside(path))
    aside = next(it for it in chain([first], others) if it not in taken)
    # First, because whoever has it open looks here whether to look further.
    lock.write(aside.suffix.encode())
    db = _keep_out(path)
    try:
        path.rename(aside)
    finally:
        if db is not None:
            db.close()
    return aside


def _keep_out(path: Path) -> Database | None:
    """Let nobody commit who has given up waiting for the lock, if SQLite can still do that."""
    if not path.stat().st_size or path.with_name(path.name + "-journal").exists():
        # SQLite would remove the log of an empty one, and undo what it finds in a journal.
        return None
    try:
        db: Database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.Error:
        return None
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    db.set_busy_timeout(_PATIENCE_WITH_COMMITS)
    with suppress(apsw.Error):
        db.execute("begin immediate")
    return db


def _save(path: Path, aside: Path, tick: Callable[[float], object]) -> Report:
    for end in _OF_DATABASE[1:]:
        # A new store must not find the log of the old one.
        beside = path.with_name(path.name + end)
        if beside.exists():
            beside.rename(aside.with_name(aside.name + end))
    for end in _OF_DATABASE:
        file = aside.with_name(aside.name + end)
        if file.exists() and file.stat().st_uid == os.geteuid():
            file.chmod(0o600)
    _check_there_is_room(aside)
    made = made_path(path)
    # In this order, also below: with a report, and nothing that waits to be renamed, all is done.
    report_path(aside).unlink(missing_ok=True)
    _remove(made)
    try:
        tally = _fill(made, aside, tick)
        _sync(made)
        report = Report(**msgspec.structs.asdict(tally), at_us=_time_of(aside), path=str(aside))
        _write(report_path(aside), msgspec.json.encode(report))
        made.rename(path)
    except BaseException:
        if made.exists():
            report_path(aside).unlink(missing_ok=True)
        raise
    finally:
        _remove(made)
    _sync(path.parent)
    _forget_words(path)
    return report


def _forget_words(path: Path) -> None:
    """Empty the index: it has words of what is lost. Whoever searches next makes it anew."""
    if index_path(path).exists():
        from rekindle.store.sqlite.search_index import Index  # noqa: PLC0415 - seldom needed

        with suppress(StoreUnavailable):
            Index(path, anew=True).close()


def _check_there_is_room(aside: Path) -> None:
    files = (aside.with_name(aside.name + end) for end in ("", "-wal"))
    needed = sum(file.stat().st_size for file in files if file.exists())
    if shutil.disk_usage(aside.parent).free < needed:
        raise StoreUnavailable(
            f"the disk has no room to save what can be read of the damaged store {aside}"
        )


def _fill(made: Path, aside: Path, tick: Callable[[float], object]) -> Tally:
    db = open_for_writing(made, patience=1.0)
    try:
        # Whoever is interrupted begins anew, and it is synced at the end: no log is needed.
        db.pragma("journal_mode", "memory")
        db.pragma("synchronous", "off")
        with Image(aside) as image:
            salvager = Salvager(image, db)
            for done in salvager.fill():
                tick(done)
            tally = salvager.settle()
        db.pragma("journal_mode", "wal")
        return tally
    finally:
        db.close()


def _remove(made: Path) -> None:
    for end in (*_OF_DATABASE, ".lock"):
        made.with_name(made.name + end).unlink(missing_ok=True)


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


def _made_just_now(path: Path) -> Report | None:
    """Return the report of another that has saved the store while we waited for it, if any has."""
    aside = last_set_aside(path)
    if aside is None:
        return None
    with suppress(OSError):
        if time.time() - report_path(aside).stat().st_mtime < _JUST_NOW:
            return _report(aside)
    return None


def _report(aside: Path) -> Report:
    try:
        report = msgspec.json.decode(report_path(aside).read_bytes(), type=Report)
    except (OSError, ValueError):
        return Report(at_us=_time_of(aside), path=str(aside), is_finished=False)
    return report


def _time_of(aside: Path) -> int:
    stamp = aside.name.rpartition(".damaged-")[2].partition("-")[0]
    return calendar.timegm(time.strptime(stamp, _STAMP)) * 1_000_000
