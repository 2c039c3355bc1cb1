"""Opening the store on disk: for writing, where it is made if there is none, and for reading.

A file is only ever changed if it is ours: a new one, or one that says so. A store of a newer
Rekindle is left as it is, down to SQLite's own files beside it.
"""

import errno
import os
import re
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import apsw

from rekindle.errors import (
    StoreDamaged,
    StoreError,
    StoreMissing,
    StoreTooNew,
    StoreUnavailable,
)
from rekindle.store.sqlite.filelock import FileLock, is_marked, note_in
from rekindle.store.sqlite.schema import (
    APPLICATION_ID,
    MIGRATIONS,
    Database,
    migrate,
    schema_of,
    schema_version,
    tables_in,
)
from rekindle.store.sqlite.wal import hides_commits

_LARGEST_IDLE_WAL = 16 * 1024 * 1024
# A checkpoint waits for the disk, inside some commit. Rarer ones hold fewer lines up.
_PAGES_A_CHECKPOINT = 4000
_PATIENCE_OF_READERS_MS = 1000

# Where SQLite's file format has the size of a page, whether there is a log, and what never changes.
_FORMS = (bytes.fromhex("1000020200402020"), bytes.fromhex("1000010100402020"))
_NEWEST_FORMAT = 4
_HEADER = 100
# What SQLite says where a table is not as we have made it: what was typed is never part of our SQL.
_MISSED = re.compile(r"no such (table|column|index)|has no column|has \d+ columns")

INCREMENTAL = 2
"""The mode of `auto_vacuum` in which free pages are given back when asked for, and in steps."""


def lock_path(path: Path) -> Path:
    """Return the file whose lock the writers of a store take in turn."""
    return path.with_name(path.name + ".lock")


def open_for_writing(path: Path, patience: float) -> Database:
    """Open a store, making or upgrading it where it must be."""
    _check_is_no_folder(path)
    is_new = not path.exists()
    if is_new:
        _check_nothing_waits(path)
        _mark_as_made(path, is_made=False)
    else:
        _check_file(path)
    # If one that is there is set aside just now, none may be made in its place.
    make_private_file(path, create=is_new)
    db: Database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.set_busy_timeout(int(patience * 1000))
        done = _check(db, path)
        check_log(db, path)
        if done < len(MIGRATIONS):
            _upgrade(db, path, patience)
        _mark_as_made(path, is_made=True)
        db.pragma("wal_autocheckpoint", _PAGES_A_CHECKPOINT)
        db.pragma("journal_size_limit", _LARGEST_IDLE_WAL)
        # On macOS a sync reaches the disk only with this; elsewhere it changes nothing.
        db.pragma("fullfsync", 1)
    except BaseException:
        db.close()
        raise
    return db


def open_for_reading(path: Path) -> Database:
    """Open a store without changing anything, except that an older one is upgraded."""
    if not path.exists():
        _check_nothing_waits(path)
        raise StoreMissing(str(path))
    _check_is_no_folder(path)
    db = open_read_only(path)
    try:
        done = _check(db, path)
        check_log(db, path)
    except BaseException:
        db.close()
        raise
    if done < len(MIGRATIONS):
        db.close()
        return open_for_writing(path, patience=1.0)
    return db


def open_read_only(path: Path) -> Database:
    """Open a database, whosever it is and however old, without changing anything."""
    _check_file(path)
    db: Database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    # Who comes after one that was killed, or with the last that leaves, cares for the log alone.
    db.set_busy_timeout(_PATIENCE_OF_READERS_MS)
    try:
        schema_version(db)
    except apsw.CantOpenError:
        db.close()
        return open_unshared(path)
    except apsw.IOError as error:
        db.close()
        return _open_alone(path, error)
    except apsw.ReadOnlyError:
        db.close()
        return _open_undone(path)
    except BaseException:
        db.close()
        raise
    return db


def open_unshared(path: Path) -> Database:
    """Open a database where nothing can be written, so that its log cannot be shared."""
    uri = f"{path.absolute().as_uri()}?immutable=1"
    return apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def _open_alone(path: Path, why: Exception) -> Database:
    """Open a database to be read by nobody else: on a full disk there is no room to share."""
    db: Database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.pragma("query_only", 1)
        db.pragma("locking_mode", "exclusive")
        schema_version(db)
    except apsw.Error:
        db.close()
        raise why from None
    return db


def _open_undone(path: Path) -> Database:
    """Open a store whose maker was killed, and let SQLite undo what it had only begun."""
    if not lock_path(path).exists():
        # Somebody else's, as far as can be seen.
        raise apsw.ReadOnlyError("it was not closed properly, and is not opened to be mended")
    db: Database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        schema_version(db)
        db.pragma("query_only", 1)
    except BaseException:
        db.close()
        raise
    return db


def is_full(error: Exception) -> bool:
    """Tell whether something failed for want of room on the disk."""
    match error:
        case apsw.FullError():
            return True
        case apsw.IOError():
            # Types do not know it.
            return getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE
        case OSError():
            return error.errno == errno.ENOSPC
        case _:
            return False


def _check_is_no_folder(path: Path) -> None:
    if path.is_dir():
        raise StoreUnavailable(f"{path} is a folder, and no store: name a file in it")


def _check_nothing_waits(path: Path) -> None:
    aside = waiting(path)
    if aside is not None:
        raise StoreDamaged(
            f"the store {path} was damaged: what can be read of {aside.name} is not saved yet"
        )


def set_aside(path: Path) -> list[Path]:
    """Return the damaged stores that were set aside here, the oldest first."""
    ours = re.compile(re.escape(path.name) + r"\.damaged-\d{8}T\d{6}Z(-\d+)?(\.json)?")
    try:
        names = [it for it in os.listdir(path.parent) if ours.fullmatch(it)]  # noqa: PTH208 - names
    except OSError:
        return []
    found = {path.with_name(name.removesuffix(".json")) for name in names}
    # By the time, then by the number.
    return sorted(found, key=lambda it: [part.zfill(9) for part in it.suffix.split("-")])


def report_path(aside: Path) -> Path:
    """Return the file that tells what was saved of a damaged store.

    It is written when the new store is made, and only has to be renamed.
    """
    return aside.with_name(f"{aside.name}.json")


def made_path(path: Path) -> Path:
    """Return where a store is made of what can be read of a damaged one, before it is renamed."""
    return path.with_name(path.name + ".salvaged")


def last_set_aside(path: Path) -> Path | None:
    """Return the damaged store that was set aside last, if it is known."""
    found = set_aside(path)
    noted = note_in(lock_path(path)).decode(errors="replace")
    if noted:
        # The clock may have been set back since another.
        return next((aside for aside in found if aside.suffix == noted), None)
    return found[-1] if found else None


def waiting(path: Path) -> Path | None:
    """Return the damaged store of which nothing is saved yet; only where there is none else."""
    aside = None if path.exists() else last_set_aside(path)
    if aside is None or not aside.exists():
        return None
    is_saved = report_path(aside).exists() and not made_path(path).exists()
    return None if is_saved else aside


def _check(db: Database, path: Path) -> int:
    """Return the schema of a store that is ours; raise what it is otherwise."""
    # Closing would else bring a log that somebody left into the file.
    was_kept = db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, -1)
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    # As of one moment: somebody else may be making its tables just now.
    with db:
        check_header(db, path)
        done = schema_version(db)
        if db.pragma("application_id") != APPLICATION_ID and (done or tables_in(db)):
            raise StoreUnavailable(f"{path} is a database, but no store of Rekindle's")
        if done > len(MIGRATIONS):
            raise StoreTooNew(str(path), done, len(MIGRATIONS))
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, was_kept)
    return done


def _mark_as_made(path: Path, *, is_made: bool) -> None:
    """Note that the store has something in it; before it is made, that it may still be empty."""
    if is_made == is_marked(lock_path(path)):
        return
    # Where it cannot be noted, one that is emptied is taken for a new one.
    with suppress(OSError):
        lock = FileLock(lock_path(path))
        lock.mark(is_set=is_made)
        lock.close()


def was_emptied(path: Path) -> bool:
    """Tell whether a store that had something in it is an empty file now. Raises OSError."""
    # Twice, because it may be made just now.
    return all((_is_empty(path), is_marked(lock_path(path)), _is_empty(path)))


def _is_empty(path: Path) -> bool:
    return path.stat().st_size == 0


def _check_file(path: Path) -> None:
    """Raise StoreDamaged if the file of a store says what none of ours does, and SQLite trusts."""
    if was_emptied(path):
        raise StoreDamaged(f"the store {path} is damaged: the file is empty, and was not")
    header = _header(path)
    schema = int.from_bytes(header[60:64], "big")
    is_ours = header[68:72] == APPLICATION_ID.to_bytes(4, "big")
    if not is_ours or not 0 < schema <= len(MIGRATIONS):
        return
    is_format_known = int.from_bytes(header[44:48], "big") <= _NEWEST_FORMAT
    if header[16:24] not in _FORMS or not is_format_known:
        raise StoreDamaged(f"the store {path} is damaged: its header makes no sense")


def _header(path: Path) -> bytes:
    """Return how a file begins; nothing if it is shorter.

    SQLite reads it: if we closed the file, it would lose its locks wherever else we have it open.
    """
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
    try:
        file = apsw.VFSFile("", str(path), flags)
    except apsw.CantOpenError:
        # Whoever opens it next says why.
        return b""
    try:
        return file.xRead(_HEADER, 0)
    except apsw.IOError:
        return b""
    finally:
        file.xClose()


def check_header(db: Database, path: Path) -> None:
    """Raise StoreDamaged if a store says to be another's, or newer, and its tables say otherwise.

    Where the tables are not exactly those of a schema that is known, nothing is said: it may be so.
    Call inside a transaction.
    """
    # Before the first look at it: somebody else may be making it just now.
    was_made = is_marked(lock_path(path))
    is_ours = db.pragma("application_id") == APPLICATION_ID
    if is_ours and 0 < schema_version(db) <= len(MIGRATIONS):
        return
    # Without a lock it may be a copy that somebody has made for another purpose.
    if not lock_path(path).exists():
        return
    tables = tables_in(db)
    if schema_of(tables):
        raise StoreDamaged(
            f"the store {path} is damaged: what it says to be does not fit its tables"
        )
    if not tables and was_made:
        # A new store has all of it in its log, for as long as that is short.
        raise StoreDamaged(f"the store {path} is damaged: nothing is in it, and its log is gone")


def check_log(db: Database, path: Path) -> None:
    """Raise StoreDamaged if SQLite does not see all that was committed to its log."""
    if hides_commits(db, path):
        # Closing would else remove it.
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        raise StoreDamaged(
            f"the store {path} is damaged: its log has more than can be read in its order"
        )


def _upgrade(db: Database, path: Path, patience: float) -> None:
    lock = FileLock(lock_path(path))
    lock.acquire(patience)
    try:
        # A new file can be compacted later in small steps. Where tables are, this does nothing.
        db.pragma("auto_vacuum", INCREMENTAL)
        # The mode is kept in the file, and changing it needs the file alone.
        db.pragma("journal_mode", "wal")
        db.execute("begin immediate")
        try:
            # Somebody else may have been here first, and may be newer.
            _check(db, path)
            _migrate(db, path)
            db.execute("commit")
        except BaseException:
            if db.in_transaction:
                db.execute("rollback")
            raise
    finally:
        lock.close()


def _migrate(db: Database, path: Path) -> None:
    try:
        migrate(db)
    except apsw.SQLError as error:
        words = f"the store {path} is damaged: its tables are not those of its schema: {error}"
        raise StoreDamaged(words) from error


def make_private_file(path: Path, *, create: bool = True) -> None:
    """Make a file that only its owner can read, and the folders that lead to it."""
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    if create:
        with suppress(FileExistsError):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            os.close(os.open(path, flags, 0o600))
    # One that is there is not opened: with the first that is closed, SQLite loses its locks
    # wherever else we have it open, and others would take its log for that of a dead one.
    owner = path.stat().st_uid
    if not os.access(path, os.R_OK | os.W_OK):
        # SQLite would make do with a file that it can only read.
        number = errno.EROFS if os.statvfs(path).f_flag & os.ST_RDONLY else errno.EACCES
        raise OSError(number, os.strerror(number), str(path))
    # SQLite gives its files beside the store the store's own mode.
    if owner == os.geteuid():
        path.chmod(0o600)


@contextmanager
def translated(path: Path) -> Generator[None]:
    """Turn what SQLite and the system say into what a person can act on."""
    try:
        yield
    except (apsw.Error, OSError, ValueError) as error:
        raise in_words(error, path) from error


def _tells_of_damage(error: Exception) -> bool:
    # Types do not know it.
    result = getattr(error, "extendedresult", 0)
    match error:
        case apsw.NotADBError() | apsw.CorruptError() | ValueError():
            return True
        case apsw.IOError():
            return result == apsw.SQLITE_IOERR_SHORT_READ
        case apsw.SQLError():
            return _MISSED.search(str(error)) is not None
        case apsw.ConstraintError():
            # We write only where nothing is: if there is something, it could not be found.
            return result in {apsw.SQLITE_CONSTRAINT_PRIMARYKEY, apsw.SQLITE_CONSTRAINT_UNIQUE}
        case _:
            return False


def _schema_now(path: Path) -> int:
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
            return schema_version(db)
    except apsw.Error:
        return 0


def in_words(error: Exception, path: Path) -> StoreError:
    """Turn what SQLite and the system say into what a person can act on."""
    if is_full(error):
        return StoreUnavailable(f"the disk with the store {path} is full")
    if isinstance(error, apsw.NotADBError) and not lock_path(path).exists():
        # Whoever has written to a store has left its lock.
        words = f"{path} is no store of Rekindle's, or its beginning is damaged"
        return StoreUnavailable(words)
    if isinstance(error, apsw.SQLError) and (schema := _schema_now(path)) > len(MIGRATIONS):
        # A newer Rekindle has come by while we had it open.
        return StoreTooNew(str(path), schema, len(MIGRATIONS))
    if _tells_of_damage(error):
        return StoreDamaged(f"the store {path} is damaged: {error}")
    match error:
        case apsw.BusyError() | apsw.LockedError():
            words = f"the store {path} is locked by another process"
        case apsw.CantOpenError():
            words = f"the store {path} cannot be opened: {error}"
        case apsw.ReadOnlyError() | apsw.PermissionsError() | OSError(errno=errno.EROFS):
            words = f"the store {path} cannot be written: {error}"
        case _:
            words = f"the store {path} failed: {error}"
    return StoreUnavailable(words)
