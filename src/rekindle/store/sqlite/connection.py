"""Open the database of a store, and translate errors of SQLite.

A file is changed only if it is new or marked as a store. A store of a
newer Rekindle is left untouched, including SQLite's own files beside it.
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
from rekindle.store.sqlite.filelock import StoreLock, is_marked
from rekindle.store.sqlite.files import (
    awaiting_recovery,
    live_folder,
    lock_path,
    make_private_file,
)
from rekindle.store.sqlite.leases import live_holder
from rekindle.store.sqlite.schema import (
    APPLICATION_ID,
    MIGRATIONS,
    Database,
    migrate,
    needs_breaking_migration,
    schema_of,
    schema_version,
    tables_in,
)
from rekindle.store.sqlite.wal import hides_commits

_MAX_IDLE_WAL_BYTES = 16 * 1024 * 1024
# A checkpoint waits for the disk, inside some commit. Rare checkpoints delay fewer lines.
_PAGES_PER_CHECKPOINT = 4000
_READ_TIMEOUT_MS = 1000

# Bytes 16 to 23 of the file header: page size, journal mode (WAL or not), and constants.
_HEADER_VARIANTS = (bytes.fromhex("1000020200402020"), bytes.fromhex("1000010100402020"))
_MAX_SCHEMA_FORMAT = 4
_HEADER_BYTES = 100
# SQLite's messages for a table that is not as we created it. User input is never part of our SQL.
_SCHEMA_MISMATCH = re.compile(r"no such (table|column|index)|has no column|has \d+ columns")

INCREMENTAL = 2
"""The mode of `auto_vacuum` in which free pages are returned on request and in steps."""


def open_for_writing(path: Path, timeout: float) -> Database:
    """Open a store for writing; create or upgrade it if necessary."""
    _check_not_a_folder(path)
    is_new = not path.exists()
    if is_new:
        _check_not_awaiting_recovery(path)
        _check_lock_file(path)
        _mark_as_created(path, is_created=False)
    else:
        _check_file(path)
    # A store that is being quarantined at this moment must not be replaced by an empty one.
    make_private_file(path, create=is_new)
    db: Database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.set_busy_timeout(int(timeout * 1000))
        done = _check(db, path)
        check_wal(db, path)
        if done < len(MIGRATIONS):
            _upgrade(db, path, timeout)
        _mark_as_created(path, is_created=True)
        db.pragma("wal_autocheckpoint", _PAGES_PER_CHECKPOINT)
        db.pragma("journal_size_limit", _MAX_IDLE_WAL_BYTES)
        # On macOS a sync reaches the disk only with this. Elsewhere it has no effect.
        db.pragma("fullfsync", 1)
    except BaseException:
        db.close()
        raise
    return db


def open_for_reading(path: Path) -> Database:
    """Open a store without changing it, except that an older one is upgraded."""
    if not path.exists():
        _check_not_awaiting_recovery(path)
        raise StoreMissing(str(path))
    _check_not_a_folder(path)
    db = open_read_only(path)
    try:
        done = _check(db, path)
        check_wal(db, path)
    except BaseException:
        db.close()
        raise
    if done < len(MIGRATIONS):
        db.close()
        return open_for_writing(path, timeout=1.0)
    return db


def open_read_only(path: Path) -> Database:
    """Open any database, of any age, without changing anything."""
    _check_file(path)
    db: Database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    # The first process after a kill, or the last one to leave, has the WAL to itself for a moment.
    db.set_busy_timeout(_READ_TIMEOUT_MS)
    try:
        schema_version(db)
    except apsw.CantOpenError:
        db.close()
        return open_unshared(path)
    except apsw.IOError as error:
        db.close()
        return _open_exclusively(path, error)
    except apsw.ReadOnlyError:
        db.close()
        return _open_with_rollback(path)
    except BaseException:
        db.close()
        raise
    return db


def open_unshared(path: Path) -> Database:
    """Open a database in a place that cannot be written, where its WAL cannot be shared."""
    uri = f"{path.absolute().as_uri()}?immutable=1"
    return apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def _open_exclusively(path: Path, why: Exception) -> Database:
    """Open a database exclusively: on a full disk there is no room for shared memory."""
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


def _open_with_rollback(path: Path) -> Database:
    """Open a store whose creator was killed, and let SQLite roll back the unfinished part."""
    if not lock_path(path).exists():
        # As far as we can see, it is not a store of ours.
        raise apsw.ReadOnlyError(
            "its last writer did not finish, and Rekindle does not repair files of others"
        )
    db: Database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        schema_version(db)
        db.pragma("query_only", 1)
    except BaseException:
        db.close()
        raise
    return db


def is_full(error: Exception) -> bool:
    """Return whether an operation failed because the disk is full."""
    match error:
        case apsw.FullError():
            return True
        case apsw.IOError():
            # Missing in the type stubs.
            return getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE
        case OSError():
            return error.errno == errno.ENOSPC
        case _:
            return False


def _check_not_a_folder(path: Path) -> None:
    if path.is_dir():
        raise StoreUnavailable(f"{path} is a folder, not a store; name a file in it")


def _check_not_awaiting_recovery(path: Path) -> None:
    damaged = awaiting_recovery(path)
    if damaged is not None:
        raise StoreDamaged(f"the store {path} was damaged, and {damaged.name} is not recovered yet")


def _check_lock_file(path: Path) -> None:
    """Raise StoreUnavailable before a store is created beside a foreign lock file."""
    if os.path.lexists(lock_path(path)):
        StoreLock(lock_path(path)).close()


def _check(db: Database, path: Path) -> int:
    """Return the schema version of a store. Raises StoreUnavailable if it is not ours."""
    # Otherwise closing would checkpoint a WAL that another process left.
    was_kept = db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, -1)
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    # In one transaction: another process may be creating the tables at this moment.
    with db:
        check_header(db, path)
        done = schema_version(db)
        if db.pragma("application_id") != APPLICATION_ID and (done or tables_in(db)):
            raise StoreUnavailable(
                f"{path} is a database, but not a Rekindle store; name another file"
            )
        if done > len(MIGRATIONS):
            raise StoreTooNew(str(path), done, len(MIGRATIONS))
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, was_kept)
    return done


def _mark_as_created(path: Path, *, is_created: bool) -> None:
    """Note in the lock file that the store has contents, or that it may still be empty."""
    if is_created == is_marked(lock_path(path)):
        return
    # Without the note, an emptied store looks like a new one.
    with suppress(OSError):
        lock = StoreLock(lock_path(path))
        lock.mark(is_set=is_created)
        lock.close()


def was_emptied(path: Path) -> bool:
    """Return whether a store that had contents is an empty file now. Raises OSError."""
    # Checked twice, because another process may be creating it at this moment.
    return all((_is_empty(path), is_marked(lock_path(path)), _is_empty(path)))


def _is_empty(path: Path) -> bool:
    return path.stat().st_size == 0


def _check_file(path: Path) -> None:
    """Raise StoreDamaged if the header has values that SQLite trusts and no store of ours has."""
    if was_emptied(path):
        raise StoreDamaged(f"the store {path} is damaged: the file is empty, and was not before")
    header = header_of(path)
    schema = int.from_bytes(header[60:64], "big")
    is_ours = header[68:72] == APPLICATION_ID.to_bytes(4, "big")
    if not is_ours or not 0 < schema <= len(MIGRATIONS):
        return
    is_format_known = int.from_bytes(header[44:48], "big") <= _MAX_SCHEMA_FORMAT
    if header[16:24] not in _HEADER_VARIANTS or not is_format_known:
        raise StoreDamaged(f"the store {path} is damaged: its header is not valid")


def header_of(path: Path) -> bytes:
    """Return the header of a database file; empty if the file is shorter.

    SQLite reads it: if we closed the file ourselves, all our connections to it would lose their
    locks.
    """
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
    try:
        file = apsw.VFSFile("", str(path), flags)
    except apsw.CantOpenError:
        # The caller opens it next, and reports why that fails.
        return b""
    try:
        return file.xRead(_HEADER_BYTES, 0)
    except apsw.IOError:
        return b""
    finally:
        file.xClose()


def check_header(db: Database, path: Path) -> None:
    """Raise StoreDamaged if the header does not fit the tables.

    A header that names another application or a newer schema is damaged if the tables are exactly
    those of a known schema. Otherwise it may be true. Call it inside a transaction.
    """
    # Read first: another process may be creating the store at this moment.
    was_created = is_marked(lock_path(path))
    is_ours = db.pragma("application_id") == APPLICATION_ID
    if is_ours and 0 < schema_version(db) <= len(MIGRATIONS):
        return
    # Without a lock file it may be a copy that was made for another purpose.
    if not lock_path(path).exists():
        return
    tables = tables_in(db)
    if schema_of(tables):
        raise StoreDamaged(f"the store {path} is damaged: its version does not fit its tables")
    if not tables and was_created:
        # A new store has all its contents in the WAL until the first checkpoint.
        raise StoreDamaged(
            f"the store {path} is damaged: it is empty, and its write-ahead log is missing"
        )


def check_wal(db: Database, path: Path) -> None:
    """Raise StoreDamaged if SQLite does not see all commits in its WAL."""
    if hides_commits(db, path):
        # Otherwise closing would remove the WAL.
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        raise StoreDamaged(f"the store {path} is damaged: its write-ahead log is not in order")


def _upgrade(db: Database, path: Path, timeout: float) -> None:
    lock = StoreLock(lock_path(path))
    lock.acquire(timeout)
    try:
        # Lets a new file be compacted later in small steps. Without effect once there are tables.
        db.pragma("auto_vacuum", INCREMENTAL)
        # The mode is stored in the file, and changing it needs exclusive access.
        db.pragma("journal_mode", "wal")
        db.execute("begin immediate")
        try:
            # Another process may have been faster, and may be newer.
            _check(db, path)
            _check_hosts(db, path)
            _migrate(db, path)
            db.execute("commit")
        except BaseException:
            if db.in_transaction:
                db.execute("rollback")
            raise
    finally:
        lock.close()


def _check_hosts(db: Database, path: Path) -> None:
    """Raise StoreUnavailable if a running process could not use the store after the migration."""
    if not needs_breaking_migration(db):
        return
    holder = live_holder(db, live_folder(path))
    if holder is not None:
        raise StoreUnavailable(
            f"the store {path} must be upgraded, and process {holder.pid} on {holder.machine} runs"
            " an earlier version of Rekindle, which cannot use it then; end that process, or wait"
            " until it has ended"
        )


def _migrate(db: Database, path: Path) -> None:
    try:
        migrate(db)
    except apsw.SQLError as error:
        raise StoreDamaged(
            f"the store {path} is damaged: its tables do not match its schema: {error}"
        ) from error


@contextmanager
def translate_errors(path: Path) -> Generator[None]:
    """Raise errors of SQLite and the system as StoreError."""
    try:
        yield
    except (apsw.Error, OSError, ValueError, OverflowError) as error:
        raise as_store_error(error, path) from error


def is_unstorable(error: Exception) -> bool:
    """Return whether SQLite cannot hold a value: half of a surrogate pair, or a huge number.

    Such a value comes from our side, so it shows nothing about the file.
    """
    return isinstance(error, UnicodeEncodeError | OverflowError)


def _is_damage(error: Exception) -> bool:
    # Missing in the type stubs.
    result = getattr(error, "extendedresult", 0)
    match error:
        case apsw.NotADBError() | apsw.CorruptError() | ValueError():
            return True
        case apsw.IOError():
            return result == apsw.SQLITE_IOERR_SHORT_READ
        case apsw.SQLError():
            return _SCHEMA_MISMATCH.search(str(error)) is not None
        case apsw.ConstraintError():
            # We insert only where there is no row. If there is one, it could not be found before.
            return result in {apsw.SQLITE_CONSTRAINT_PRIMARYKEY, apsw.SQLITE_CONSTRAINT_UNIQUE}
        case _:
            return False


def _current_schema(path: Path) -> int:
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
            return schema_version(db)
    except apsw.Error:
        return 0


def as_store_error(error: Exception, path: Path) -> StoreError:
    """Return the StoreError for an error of SQLite or the system, with a text for the user."""
    if is_full(error):
        return StoreUnavailable(f"the disk with the store {path} is full; free some space")
    if is_unstorable(error):
        return StoreUnavailable(f"the store {path} cannot store a value: {error}")
    if isinstance(error, apsw.NotADBError) and not lock_path(path).exists():
        # Every process that has written to a store has left a lock file.
        return StoreUnavailable(f"{path} is not a Rekindle store, or its beginning is damaged")
    if isinstance(error, apsw.SQLError) and (schema := _current_schema(path)) > len(MIGRATIONS):
        # A newer Rekindle has upgraded the store while we had it open.
        return StoreTooNew(str(path), schema, len(MIGRATIONS))
    if _is_damage(error):
        return StoreDamaged(f"the store {path} is damaged: {error}")
    match error:
        case apsw.BusyError() | apsw.LockedError():
            text = f"the store {path} is locked by another process; try again later"
        case apsw.CantOpenError():
            text = f"the store {path} cannot be opened: {error}"
        case apsw.ReadOnlyError() | apsw.PermissionsError() | OSError(errno=errno.EROFS):
            text = f"the store {path} cannot be written: {error}"
        case _:
            text = f"the store {path} failed: {error}"
    return StoreUnavailable(text)
