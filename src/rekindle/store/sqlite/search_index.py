"""The index of a store: which words stand where. It has a file of its own, beside the store's.

It is made from the store and can be thrown away, so a damaged or outdated one is made anew.
Writing it holds up no conversation: the store is only read.

passage_N  what stands together, of the sessions from key N on: a shard. Its rowid is its place in
           the store (see `migrations.place`), so a session's passages lie together, and the last
           ones are the newest sessions'. `parts` are the humps of names in `words`. A title lies
           at seq 0, and in turn 0.
shard      with which sessions shards begin, and how many passages each has; null: its table is not
           there, because something of it was forgotten. When the last one is full, the next new
           session begins another, so there are few, however many sessions there are.
progress   how far a session is indexed: up to the entry `seq`; its last turn so far is number
           `turn` and begins at `turn_seq`. `updated_us`, `revision` and `is_live` are the
           session's then: as long as they stay so, there is nothing new.

Forgetting. Neither SQLite nor FTS5 overwrites every trace of a row that is removed: pages that were
split keep copies, and the tree above the words keeps some of them. Only of a table that is dropped
nothing is left. So whatever must be forgotten takes its shard along, and the rest of the shard is
indexed again by whoever searches next.
"""

import json
import time
from bisect import bisect
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import apsw

from rekindle.errors import IndexDamaged, StoreDamaged, StoreUnavailable
from rekindle.store.address import index_path
from rekindle.store.sqlite.connection import (
    is_full,
    make_private_file,
    open_read_only,
    open_unshared,
)
from rekindle.store.sqlite.schema import Database

_APPLICATION_ID = 0x52656B78
_VERSION = 3

_SCHEMA = """
    create table shard (number integer primary key, passages integer) strict;
    insert into shard values (0, null);
    create table progress (
        session integer primary key,
        id text not null,
        updated_us integer not null,
        revision integer not null,
        is_live integer not null,
        seq integer not null,
        turn integer not null,
        turn_seq integer not null
    ) strict;
"""

_SHARD = """
    create virtual table {table} using fts5(
        turn unindexed, at_us unindexed, origin unindexed, ident unindexed, words, parts,
        tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3'
    );
    insert into {table} ({table}, rank) values ('hashsize', 8000000);
"""
# So many are indexed again in seconds.
_PASSAGES_A_SHARD = 30_000

_SHARD_OF = "select number, passages from shard where number <= ? order by number desc limit 1"
_NEWEST = "select coalesce(max(session), 0) from progress"
_BEGINNINGS = "select number from shard order by number"
_BEYOND = 1 << 31
"""More than any session's key can be."""

_KNOWN = "select session from progress where id in (select value from json_each(?))"

_ORPHANS = """
    select session from progress
    where not exists (
        select 1 from store.session
        where key = progress.session and id = progress.id and cwd is not null
    )
"""

_PAUSE = 0.005
_MOST_COMPLAINTS = 10
_UNWRITABLE = (OSError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.IOError, apsw.FullError)

_Values = Sequence[object] | Mapping[str, object]


class Index:
    """The index of the store at `store`, open; made where there is none, or it cannot be used."""

    def __init__(self, store: Path, *, anew: bool = False, patience: float = 1.0) -> None:
        self._path = index_path(store)
        self._store = store
        with self.translated():
            self._db = _open(self._path, anew=anew, patience=patience)
            try:
                _attach(self._db, store)
            except BaseException:
                self._db.close()
                raise

    @property
    def db(self) -> Database:
        """The connection, to which the store is attached as `store`."""
        return self._db

    def query(self, sql: str, values: _Values = ()) -> list[tuple[Any, ...]]:
        """Run SQL."""
        with self.translated():
            return self._db.execute(sql, values).fetchall()

    @contextmanager
    def writing(self) -> Generator[None]:
        """Hold a transaction, in which the store is seen as it is after all others have written."""
        with self.translated():
            self._db.execute("begin immediate")
            try:
                yield
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise

    def shards(self) -> list[int]:
        """Return the shards there are, the one with the newest sessions first."""
        sql = "select number from shard where passages is not null order by 1 desc"
        return [number for (number,) in self.query(sql)]

    def table_of(self, key: int) -> str:
        """Return the table that has a session's passages, if any has."""
        return table_of(self.query(_SHARD_OF, (key,))[0][0])

    def shard_for(self, key: int) -> int:
        """Return the shard for a session's passages, making it if need be.

        Call inside a transaction, and once for all that it writes of the session.
        """
        ((shard, passages),) = self._db.execute(_SHARD_OF, (key,)).fetchall()
        is_full = passages is not None and passages >= _PASSAGES_A_SHARD
        if is_full and key > self._db.execute(_NEWEST).fetchall()[0][0]:
            shard, passages = key, None
        if passages is None:
            self._db.execute("insert or replace into shard values (?, 0)", (shard,))
            self._db.execute(_SHARD.format(table=table_of(shard)))
        return shard

    def count(self, shard: int, more: int) -> None:
        """Take note that a shard has more passages now. Call inside a transaction."""
        sql = "update shard set passages = passages + ? where number = ?"
        self._db.execute(sql, (more, shard))

    def sweep(self) -> None:
        """Forget the sessions that the store does not have any more."""
        self._drop([key for (key,) in self.query(_ORPHANS)])

    def forget(self, *session_ids: str) -> None:
        """Let nothing be left of the words of sessions."""
        rows = self.query(_KNOWN, (json.dumps(session_ids),))
        self._drop([key for (key,) in rows])

    def compact(self) -> None:
        """Give back the space that holds nothing. Nobody waits for that who records."""
        if self.query("pragma freelist_count") != [(0,)]:
            self.query("vacuum main")
            self.empty_log()

    def counts(self) -> tuple[int, int]:
        """Return how many passages of how many sessions there are."""
        passages = [self.query(f"select count(*) from {table_of(it)}") for it in self.shards()]  # noqa: S608
        sessions = self.query("select count(*) from progress")
        return sum(rows[0][0] for rows in passages), sessions[0][0]

    def _drop(self, keys: list[int]) -> None:
        """Let go of the shards that have these sessions."""
        if not keys:
            return
        with self.writing():
            begins = [number for (number,) in self._db.execute(_BEGINNINGS).fetchall()]
            for place in {bisect(begins, key) - 1 for key in keys}:
                first, end = [*begins, _BEYOND][place : place + 2]
                self._db.execute(f"drop table if exists {table_of(first)}")
                self._db.execute("update shard set passages = null where number = ?", (first,))
                sql = "delete from progress where session >= ? and session < ?"
                self._db.execute(sql, (first, end))
        # What was there would else lie in the log until it is written over.
        with suppress(StoreUnavailable):
            self.empty_log()

    def empty_log(self) -> None:
        """Let nothing lie in the log beside the file. Raises StoreUnavailable while others read."""
        with self.translated():
            self._db.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def close(self) -> None:
        """Close the file."""
        with self.translated():
            self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def translated(self) -> Generator[None]:
        """Turn what SQLite and the system say into what a person can act on."""
        try:
            yield
        except (apsw.BusyError, apsw.LockedError) as error:
            words = f"the index {self._path} is in use by another process"
            raise StoreUnavailable(words) from error
        except (apsw.CorruptError, apsw.NotADBError) as error:
            # The store is read by way of the same connection, and SQLite does not say which it is.
            if complaints(self._store):
                words = f"the index {self._path} is damaged: `rekindle reindex` makes it anew"
                raise IndexDamaged(words) from error
            raise StoreDamaged(f"the store {self._store} is damaged: {error}") from error
        except apsw.ReadOnlyError as error:
            raise StoreUnavailable(f"the index {self._path} cannot be written") from error
        except (apsw.Error, OSError) as error:
            why = "the disk is full" if is_full(error) else str(error)
            raise StoreUnavailable(f"the index {self._path} failed: {why}") from error


def complaints(store: Path) -> list[str]:
    """Return what is wrong with the index of a store, if it has one; nothing is changed.

    One of another version counts as well: it is made anew by whoever uses it.
    """
    path = index_path(store)
    if not path.exists():
        return []
    try:
        db = open_read_only(path)
        try:
            if db.pragma("application_id") != _APPLICATION_ID:
                return []
            found = db.execute(f"pragma quick_check({_MOST_COMPLAINTS})").fetchall()
            return [str(row[0]) for row in found if row[0] != "ok"]
        finally:
            db.close()
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return [str(error)]
    except (apsw.Error, OSError) as error:
        raise StoreUnavailable(f"the index {path} cannot be looked at: {error}") from error


def table_of(shard: int) -> str:
    """Return the name of the table that a shard is."""
    return f"passage_{shard}"


def _open(path: Path, *, anew: bool, patience: float) -> Database:
    try:
        return _open_for_writing(path, anew=anew, patience=patience)
    except (OSError, apsw.Error) as error:
        may_be_read = isinstance(error, _UNWRITABLE) and path.is_file()
        if anew or not may_be_read:
            raise
        return _open_as_it_is(path, error)


def _open_as_it_is(path: Path, why: Exception) -> Database:
    """Open an index that cannot be written: what is indexed can still be found."""
    db = open_unshared(path)
    try:
        is_ours = db.pragma("application_id") == _APPLICATION_ID
        is_usable = is_ours and db.pragma("user_version") == _VERSION
    except apsw.Error:
        is_usable = False
    if not is_usable:
        db.close()
        raise why
    return db


def _open_for_writing(path: Path, *, anew: bool, patience: float) -> Database:
    make_private_file(path)
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    db: Database = apsw.Connection(str(path), flags=flags)
    try:
        db.set_busy_timeout(int(patience * 1000))
        if anew or _is_unusable(db, path):
            _empty(db)
        if db.pragma("user_version") != _VERSION:
            _make(db, patience)
        db.pragma("secure_delete", 1)
        db.pragma("synchronous", "normal")
    except BaseException:
        db.close()
        raise
    return db


def _is_unusable(db: Database, path: Path) -> bool:
    """Tell whether it is damaged or of another version; raise when it is something of others'."""
    try:
        # At one moment: another may be making it just now.
        db.execute("begin")
        application_id, version = db.pragma("application_id"), db.pragma("user_version")
        is_new = not db.execute("select 1 from sqlite_schema limit 1").fetchall()
    except (apsw.NotADBError, apsw.CorruptError):
        return True
    finally:
        if db.in_transaction:
            db.execute("rollback")
    if application_id != _APPLICATION_ID and not is_new:
        raise StoreUnavailable(f"{path} is a database, but no index of Rekindle's")
    return not is_new and version != _VERSION


def _empty(db: Database) -> None:
    """Let nothing be left, whatever there was. Nobody else may have it open."""
    db.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 1)
    db.execute("vacuum")
    db.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 0)


def _make(db: Database, patience: float) -> None:
    _use_a_log(db, patience)
    db.execute("begin immediate")
    # Another may have been here in between, and had the same to do.
    if db.pragma("user_version") != _VERSION:
        db.execute(_SCHEMA)
        db.pragma("application_id", _APPLICATION_ID)
        db.pragma("user_version", _VERSION)
    db.execute("commit")


def _use_a_log(db: Database, patience: float) -> None:
    """Change to WAL, for which SQLite needs the file alone, and does not wait by itself."""
    until = time.monotonic() + patience
    while True:
        try:
            db.pragma("journal_mode", "wal")
        except apsw.BusyError:
            if time.monotonic() >= until:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _attach(db: Database, store: Path) -> None:
    uri = store.absolute().as_uri()
    unshared = (apsw.CantOpenError, apsw.IOError)
    if db.readonly("main"):
        # Then we ourselves may have the store open, and alone.
        unshared += (apsw.BusyError,)
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        try:
            db.execute("attach ? as store", (f"{uri}?{mode}",))
            db.execute("select 1 from store.session limit 1").fetchall()
        except unshared:
            # In a folder that cannot be written, or is full, SQLite cannot share its log.
            if "store" in db.db_names():
                db.execute("detach store")
        else:
            return
    raise apsw.CantOpenError(f"cannot open {store}")
