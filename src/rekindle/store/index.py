"""The index of a store: which words stand where. It has a file of its own, beside the store's.

It is made from the store and can be thrown away, so a damaged or outdated one is made anew.
Writing it holds up no conversation: the store is only read.

passage   what stands together. Its rowid is its place in the store (see `migrations.place`), so
          a session's passages lie together, and the last ones are the newest sessions'.
          `parts` are the humps of names in `words`.
progress  how far a session is indexed: up to the entry `seq`; its last turn so far is number
          `turn` and begins at `turn_seq`. `updated_us` and `is_live` are the session's then: as
          long as they stay so, there is nothing new.

Words that are removed are overwritten, in the index of words too, which takes FTS5 some 5 ms a
passage.
"""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import apsw

from rekindle.errors import StoreUnavailable
from rekindle.store.migrations import place
from rekindle.store.opening import Database, index_path, make_private_file

_APPLICATION_ID = 0x52656B78
_VERSION = 1

_SCHEMA = """
    create virtual table passage using fts5(
        turn unindexed, at_us unindexed, origin unindexed, ident unindexed, words, parts,
        tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3'
    );
    insert into passage (passage, rank) values ('secure-delete', 1);
    insert into passage (passage, rank) values ('hashsize', 8000000);
    create table progress (
        session integer primary key,
        id text not null,
        updated_us integer not null,
        is_live integer not null,
        seq integer not null,
        turn integer not null,
        turn_seq integer not null
    ) strict;
"""

_ORPHANS = """
    select session from progress
    where not exists (
        select 1 from store.session
        where key = progress.session and id = progress.id and deleted_us is null
    )
"""
_SOME_OF_A_SESSION = """
    delete from passage where rowid in (
        select rowid from passage where rowid between ? and ? limit 20
    )
"""
_BEGIN_ANEW = """
    update progress set updated_us = -1, seq = 0, turn = 1, turn_seq = 0 where session = ?
"""
_FEW = 50

_Values = Sequence[object] | Mapping[str, object]


class Index:
    """The index of the store at `store`, open; made where there is none, or it cannot be used."""

    def __init__(self, store: Path, *, anew: bool = False, patience: float = 1.0) -> None:
        self._path = index_path(store)
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

    def sweep(self, seconds: float) -> None:
        """Remove the words of sessions that are deleted or gone, as many as there is time for."""
        deadline = time.monotonic() + seconds
        orphans = self.query(_ORPHANS)
        for (key,) in orphans:
            while time.monotonic() < deadline and self._remove_some(key):
                pass
        if orphans:
            self._empty_log()

    def forget(self, key: int) -> None:
        """Remove all words of a session, however long it takes."""
        while self._remove_some(key):
            pass
        self._empty_log()

    def count(self, key: int, most: int) -> int:
        """Return how many passages a session has here; beyond `most` they are not counted."""
        sql = "select 1 from passage where rowid between ? and ? limit ?"
        return len(self.query(sql, (*places(key), most)))

    def _remove_some(self, key: int) -> bool:
        """Remove a few passages; tell whether there may be more."""
        with self.writing():
            before = self._db.total_changes()
            self._db.execute(_SOME_OF_A_SESSION, places(key))
            is_more = self._db.total_changes() > before
            if is_more:
                self._db.execute(_BEGIN_ANEW, (key,))
            else:
                self._db.execute("delete from progress where session = ?", (key,))
        return is_more

    def _empty_log(self) -> None:
        with self.translated():
            # What was removed would else lie in the log until it is written over.
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

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
            words = f"the index {self._path} is damaged: `rekindle reindex` makes it anew"
            raise StoreUnavailable(words) from error
        except (apsw.Error, OSError) as error:
            raise StoreUnavailable(f"the index {self._path} failed: {error}") from error


def places(key: int) -> tuple[int, int]:
    """Return the first and the last place that passages of a session can have."""
    return place(key, 0), place(key + 1, 0) - 1


def forget_soon(store: Path, key: int) -> None:
    """Remove all words of a session quickly. Where it has many, the index begins anew.

    For where a conversation waits.
    """
    with Index(store) as index:
        has_few = index.count(key, _FEW) < _FEW
        if has_few:
            index.forget(key)
    if not has_few:
        Index(store, anew=True).close()


def _open(path: Path, *, anew: bool, patience: float) -> Database:
    make_private_file(path)
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    db: Database = apsw.Connection(str(path), flags=flags)
    try:
        db.set_busy_timeout(int(patience * 1000))
        if anew or not _is_current(db, path):
            _make_anew(db)
        db.pragma("secure_delete", 1)
        db.pragma("synchronous", "normal")
    except BaseException:
        db.close()
        raise
    return db


def _is_current(db: Database, path: Path) -> bool:
    """Tell whether it is an index of this version; raise when it is something of others'."""
    try:
        application_id, version = db.pragma("application_id"), db.pragma("user_version")
        is_empty = not db.execute("select 1 from sqlite_schema limit 1").fetchall()
    except (apsw.NotADBError, apsw.CorruptError):
        return False
    if application_id != _APPLICATION_ID and not is_empty:
        raise StoreUnavailable(f"{path} is a database, but no index of Rekindle's")
    return application_id == _APPLICATION_ID and version == _VERSION


def _make_anew(db: Database) -> None:
    """Begin with an empty file, whatever there was."""
    db.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 1)
    db.execute("vacuum")
    db.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 0)
    db.pragma("journal_mode", "wal")
    db.execute("begin immediate")
    # Another may have been here in between, and had the same to do.
    if db.pragma("application_id") != _APPLICATION_ID:
        db.execute(_SCHEMA)
        db.pragma("application_id", _APPLICATION_ID)
        db.pragma("user_version", _VERSION)
    db.execute("commit")


def _attach(db: Database, store: Path) -> None:
    uri = store.absolute().as_uri()
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        db.execute("attach ? as store", (f"{uri}?{mode}",))
        try:
            db.execute("select 1 from store.session limit 1").fetchall()
        except apsw.CantOpenError:
            # In a folder that cannot be written SQLite cannot share its log.
            db.execute("detach store")
        else:
            return
    raise apsw.CantOpenError(f"cannot open {store}")
