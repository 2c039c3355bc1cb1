"""The search index of a store: an FTS5 database in a file of its own, beside the store.

It is derived from the store and can be discarded, so a damaged or outdated one is built again.
Writing it does not delay a conversation, because the store is only read.

passage_N  the documents of the sessions from key N on: a shard. The rowid is the place in the
           store (see `schema.place`), so the documents of a session are adjacent, and the last
           ones belong to the newest sessions. `parts` are the parts of compound names in
           `words`. A title has seq 0 and turn 0.
shard      the first session of each shard, and its number of documents. Null means that its table
           was dropped. When the last shard is full, the next new session starts another, so
           there are few, however many sessions there are.
progress   how far a session is indexed: up to entry `seq`; its last turn has the number `turn` and
           starts at `turn_seq`. `updated_us`, `revision` and `is_live` are copied from the
           session: as long as they are the same, nothing is new.

Neither SQLite nor FTS5 overwrites every trace of a removed row: split pages keep copies, and so
does the term tree. Only a dropped table leaves nothing. So forgetting a session drops its whole
shard, and the next search indexes the rest of that shard again.
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
from rekindle.model import SearchDocument
from rekindle.store.search import (
    IndexMark,
    IndexUpdate,
    SearchHit,
    SearchRequest,
    StaleSession,
)
from rekindle.store.sqlite.connection import (
    header_of,
    is_full,
    open_read_only,
    open_unshared,
)
from rekindle.store.sqlite.files import index_path, make_private_file
from rekindle.store.sqlite.schema import REVISION_BITS, Database, place, places, seq_at
from rekindle.store.sqlite.sql import LAST_PLACE
from rekindle.text.tokens import camel_case_parts, split_unspaced

_APPLICATION_ID = 0x52656B78
_VERSION = 4

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
# This many are indexed again in seconds.
_DOCUMENTS_PER_SHARD = 30_000

_SHARD_OF = "select number, passages from shard where number <= ? order by number desc limit 1"
_NEWEST = "select coalesce(max(session), 0) from progress"
_SHARD_STARTS = "select number from shard order by number"
_END = 1 << 31
"""Greater than any key."""

_INDEXED = "select session from progress where id in (select value from json_each(?))"

_ORPHANS = """
    select session from progress
    where not exists (
        select 1 from store.session
        where key = progress.session and id = progress.id
          and (cwd is not null or parent_id is not null)
    )
"""

# A title made from the first prompt is found there.
_STALE = f"""
    select s.key, s.id, coalesce(user_title, agent_title), s.updated_us, s.revision,
           lease.session is not null, progress.id,
           progress.updated_us, progress.revision, progress.is_live,
           coalesce(seq, 0), coalesce(turn, 1), coalesce(turn_seq, 0), coalesce({LAST_PLACE}, 0)
    from store.session s
    left join progress on progress.session = s.key
    left join store.lease on lease.session = s.key and not lease.is_over
    where (progress.session is null or progress.id <> s.id or lease.session is not null
           or progress.updated_us <> s.updated_us or progress.revision <> s.revision
           or progress.is_live)
      and s.deleted_us is null and (s.cwd is not null or s.parent_id is not null)
      and s.key > :after
    order by s.key limit :limit
"""  # noqa: S608 - constants only
_EXISTS = """
    select 1 from store.session
    where key = ? and id = ? and deleted_us is null
      and (cwd is not null or parent_id is not null)
"""
_MARK = "select seq, turn, turn_seq from progress where session = ?"
_SET_PROGRESS = "insert or replace into progress values (?, ?, ?, ?, ?, ?, ?, ?)"
_DOCUMENTS = "select rowid, turn, at_us, origin, ident, words from {} where rowid between ? and ?"
_INSERT = """
    insert into {} (rowid, turn, at_us, origin, ident, words, parts) values (?, ?, ?, ?, ?, ?, ?)
"""
_IDENTS = "select ident from {} where rowid between ? and ?"
_ADD_TO_SHARD = "update shard set passages = passages + ? where number = ?"
_NEVER_US = -1
"""A time that no session has: it keeps a session stale."""

_MAGIC = b"SQLite format 3\0"
_PAUSE = 0.005
_MAX_COMPLAINTS = 10
_UNWRITABLE = (OSError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.IOError, apsw.FullError)

_Values = Sequence[object] | Mapping[str, object]


class SqliteSearchIndex:
    """The open index of the store at `store`. A missing or unusable index is created."""

    def __init__(self, store: Path, *, rebuild: bool = False, timeout: float = 1.0) -> None:
        self._path = index_path(store)
        self._store = store
        with self._translate_errors():
            self._db = _open(self._path, rebuild=rebuild, timeout=timeout)
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
        with self._translate_errors():
            return self._db.execute(sql, values).fetchall()

    @contextmanager
    def writing(self) -> Generator[None]:
        """Hold a transaction, which sees the store as of its start."""
        with self._translate_errors():
            self._db.execute("begin immediate")
            try:
                yield
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise

    def search(self, request: SearchRequest) -> list[SearchHit]:
        """Return the turns that match, best first."""
        from rekindle.store.sqlite.search_query import search  # noqa: PLC0415 - it imports this one

        return search(self, request)

    def stale(self, after: StaleSession | None = None, *, limit: int) -> list[StaleSession]:
        """Return sessions that may have changed since they were indexed, by key."""
        values = {"after": after.position if after else 0, "limit": limit}
        return [_stale_session(row) for row in self.query(_STALE, values)]

    def idents_before(self, session: StaleSession, seq: int) -> set[str | None]:
        """Return the idents of the session's documents before entry `seq`."""
        key = session.position
        table = table_of(self.query(_SHARD_OF, (key,))[0][0])
        span = (places(key)[0], place(key, seq) - 1)
        return {ident for (ident,) in self.query(_IDENTS.format(table), span)}

    def replace(self, updates: Sequence[IndexUpdate]) -> None:
        """Apply updates in one transaction."""
        if not updates:
            return
        with self.writing():
            for update in updates:
                if self._applies(update):
                    self._replace(update)

    def _applies(self, update: IndexUpdate) -> bool:
        key, expected = update.session.position, update.expected_mark
        marks = self._db.execute(_MARK, (key,)).fetchall() or [(0, 1, 0)]
        is_as_expected = marks == [(expected.seq, expected.turn, expected.turn_seq)]
        values = (key, update.session.session_id)
        return is_as_expected and bool(self._db.execute(_EXISTS, values).fetchall())

    def _replace(self, update: IndexUpdate) -> None:
        session, mark = update.session, update.new_mark
        key = session.position
        first, end = places(key)
        last = end if update.last_seq is None else place(key, update.last_seq)
        shard = self._shard_for(key)
        self._replace_documents(shard, key, (place(key, update.first_seq), last), update.documents)
        if update.is_complete:
            titles = [update.title] if update.title else []
            self._replace_documents(shard, key, (first, first), titles)
        updated_us = session.updated_us if update.is_complete else _NEVER_US
        values = (key, session.session_id, updated_us, *session.version)
        self._db.execute(_SET_PROGRESS, (*values, mark.seq, mark.turn, mark.turn_seq))

    def _replace_documents(
        self, shard: int, key: int, span: tuple[int, int], documents: list[SearchDocument]
    ) -> None:
        """Replace the documents in a span of places; write only the differences."""
        wanted = {place(key, document.seq): _document_row(document) for document in documents}
        table = table_of(shard)
        rows = self._db.execute(_DOCUMENTS.format(table), span).fetchall()
        present = {row[0]: row[1:] for row in rows}
        removed = [(rowid,) for rowid, row in present.items() if wanted.get(rowid) != row]
        self._db.executemany(f"delete from {table} where rowid = ?", removed)  # noqa: S608
        # FTS5 is fastest with ascending rowids.
        added = [
            (rowid, *row, camel_case_parts(str(row[-1])))
            for rowid, row in sorted(wanted.items())
            if present.get(rowid) != row
        ]
        self._db.executemany(_INSERT.format(table), added)
        self._db.execute(_ADD_TO_SHARD, (len(added) - len(removed), shard))

    def shards(self) -> list[int]:
        """Return the existing shards, the one with the newest sessions first."""
        sql = "select number from shard where passages is not null order by 1 desc"
        return [number for (number,) in self.query(sql)]

    def _shard_for(self, key: int) -> int:
        """Return the shard for the documents of a session; create it if necessary.

        Call it inside a transaction, and once per session.
        """
        ((shard, documents),) = self._db.execute(_SHARD_OF, (key,)).fetchall()
        is_full = documents is not None and documents >= _DOCUMENTS_PER_SHARD
        if is_full and key > self._db.execute(_NEWEST).fetchall()[0][0]:
            shard, documents = key, None
        if documents is None:
            self._db.execute("insert or replace into shard values (?, 0)", (shard,))
            self._db.execute(_SHARD.format(table=table_of(shard)))
        return shard

    def remove_missing(self) -> None:
        """Remove the documents of sessions that the store does not have any more."""
        self._drop([key for (key,) in self.query(_ORPHANS)])

    def forget(self, *session_ids: str) -> None:
        """Remove every trace of the documents of sessions."""
        rows = self.query(_INDEXED, (json.dumps(session_ids),))
        self._drop([key for (key,) in rows])

    def compact(self) -> None:
        """Return unused space to the disk. It does not delay recording."""
        if self.query("pragma freelist_count") != [(0,)]:
            self.query("vacuum main")
            self.truncate_wal()

    def counts(self) -> tuple[int, int]:
        """Return the number of documents, and of sessions."""
        documents = [self.query(f"select count(*) from {table_of(it)}") for it in self.shards()]  # noqa: S608
        sessions = self.query("select count(*) from progress")
        return sum(rows[0][0] for rows in documents), sessions[0][0]

    def _drop(self, keys: list[int]) -> None:
        """Drop the shards that contain these sessions."""
        if not keys:
            return
        with self.writing():
            starts = [number for (number,) in self._db.execute(_SHARD_STARTS).fetchall()]
            for number in {bisect(starts, key) - 1 for key in keys}:
                first, end = [*starts, _END][number : number + 2]
                self._db.execute(f"drop table if exists {table_of(first)}")
                self._db.execute("update shard set passages = null where number = ?", (first,))
                sql = "delete from progress where session >= ? and session < ?"
                self._db.execute(sql, (first, end))
        # Otherwise the documents remain in the WAL until it is overwritten.
        with suppress(StoreUnavailable):
            self.truncate_wal()

    def truncate_wal(self) -> None:
        """Checkpoint and empty the WAL. Raises StoreUnavailable while other processes read."""
        with self._translate_errors():
            self._db.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def close(self) -> None:
        """Close the file."""
        with self._translate_errors():
            self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        """Raise errors of SQLite and the system as StoreError."""
        try:
            yield
        except (apsw.BusyError, apsw.LockedError) as error:
            raise StoreUnavailable(
                f"the index {self._path} is in use by another process"
            ) from error
        except (apsw.CorruptError, apsw.NotADBError) as error:
            # The store is attached to the same connection, and SQLite does not say which one it is.
            if complaints(self._store):
                raise IndexDamaged(
                    f"the index {self._path} is damaged; `rekindle reindex` rebuilds it"
                ) from error
            raise StoreDamaged(f"the store {self._store} is damaged: {error}") from error
        except apsw.ReadOnlyError as error:
            raise StoreUnavailable(f"the index {self._path} cannot be written") from error
        except (apsw.Error, OSError, UnicodeEncodeError, OverflowError) as error:
            why = "the disk is full" if is_full(error) else str(error)
            raise StoreUnavailable(f"the index {self._path} failed: {why}") from error


def _stale_session(row: tuple[Any, ...]) -> StaleSession:
    key, id_, title, *now, indexed_id, was_us, revised, was_live, seq, turn, turn_seq, last = row
    updated_us, revision, is_live = now
    last_seq = seq_at(last)
    was_truncated = (revised or 0) >> REVISION_BITS != revision >> REVISION_BITS
    is_another = indexed_id not in {None, id_}
    return StaleSession(
        session_id=id_,
        title=title,
        updated_us=updated_us,
        last_seq=last_seq,
        mark=IndexMark(seq, turn, turn_seq),
        is_indexed=indexed_id is not None,
        is_outdated=is_another or seq > last_seq or was_truncated,
        is_noted=[was_us, revised, was_live] == now,
        position=key,
        version=(revision, is_live),
    )


def _document_row(document: SearchDocument) -> tuple[object, ...]:
    return (
        document.turn,
        document.at_us,
        document.kind.value,
        document.ident,
        split_unspaced(document.text),
    )


def complaints(store: Path) -> list[str]:
    """Return the damage that SQLite finds in the index of a store, if it has one.

    An index of another version is not damaged: it is built again when it is opened.
    """
    path = index_path(store)
    if not path.exists():
        return []
    try:
        db = open_read_only(path)
        try:
            if db.pragma("application_id") != _APPLICATION_ID:
                return []
            found = db.execute(f"pragma quick_check({_MAX_COMPLAINTS})").fetchall()
            return [str(row[0]) for row in found if row[0] != "ok"]
        finally:
            db.close()
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return [str(error)]
    except (apsw.Error, OSError) as error:
        raise StoreUnavailable(f"the index {path} cannot be examined: {error}") from error


def table_of(shard: int) -> str:
    """Return the name of the table of a shard."""
    return f"passage_{shard}"


def _open(path: Path, *, rebuild: bool, timeout: float) -> Database:
    try:
        return _open_for_writing(path, rebuild=rebuild, timeout=timeout)
    except (OSError, apsw.Error) as error:
        may_be_read = isinstance(error, _UNWRITABLE) and path.is_file()
        if rebuild or not may_be_read:
            raise
        return _open_unwritable(path, error)


def _open_unwritable(path: Path, why: Exception) -> Database:
    """Open an index that cannot be written. Its documents can still be found."""
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


def _open_for_writing(path: Path, *, rebuild: bool, timeout: float) -> Database:
    _check_not_foreign(path)
    make_private_file(path)
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    db: Database = apsw.Connection(str(path), flags=flags)
    try:
        db.set_busy_timeout(int(timeout * 1000))
        if rebuild or _is_unusable(db, path):
            _clear(db)
        if db.pragma("user_version") != _VERSION:
            _create(db, timeout)
        db.pragma("secure_delete", 1)
        db.pragma("synchronous", "normal")
    except BaseException:
        db.close()
        raise
    return db


def _check_not_foreign(path: Path) -> None:
    """Raise StoreUnavailable if a file with the index's name is not a database.

    Such a file is not ours, and would be overwritten. An empty page may be all that a crash left.
    """
    if path.is_symlink():
        raise StoreUnavailable(
            f"{path} is a symbolic link, which Rekindle does not follow; move it away"
        )
    if not path.exists() or path.stat().st_size == 0:
        return
    start = header_of(path)
    if not start.startswith(_MAGIC) and (start.strip(b"\0") or not start):
        raise StoreUnavailable(f"{path} is a file, but not a Rekindle index; move it away")


def _is_unusable(db: Database, path: Path) -> bool:
    """Return whether an index is damaged or of another version. Raises if it is not an index."""
    try:
        # In one transaction: another process may be creating it at this moment.
        db.execute("begin")
        application_id, version = db.pragma("application_id"), db.pragma("user_version")
        is_new = not db.execute("select 1 from sqlite_schema limit 1").fetchall()
    except (apsw.NotADBError, apsw.CorruptError):
        return True
    finally:
        if db.in_transaction:
            db.execute("rollback")
    if application_id != _APPLICATION_ID and not is_new:
        raise StoreUnavailable(f"{path} is a database, but not a Rekindle index; move it away")
    return not is_new and version != _VERSION


def _clear(db: Database) -> None:
    """Remove everything. No other process may have it open."""
    db.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 1)
    db.execute("vacuum")
    db.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 0)


def _create(db: Database, timeout: float) -> None:
    _set_wal_mode(db, timeout)
    db.execute("begin immediate")
    # Another process may have created it in between.
    if db.pragma("user_version") != _VERSION:
        db.execute(_SCHEMA)
        db.pragma("application_id", _APPLICATION_ID)
        db.pragma("user_version", _VERSION)
    db.execute("commit")


def _set_wal_mode(db: Database, timeout: float) -> None:
    """Switch to WAL mode. SQLite needs exclusive access for it, and does not wait by itself."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            db.pragma("journal_mode", "wal")
        except apsw.BusyError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _attach(db: Database, store: Path) -> None:
    uri = store.absolute().as_uri()
    unshared = (apsw.CantOpenError, apsw.IOError)
    if db.readonly("main"):
        # Then this process may have the store open exclusively.
        unshared += (apsw.BusyError,)
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        try:
            db.execute("attach ? as store", (f"{uri}?{mode}",))
            db.execute("select 1 from store.session limit 1").fetchall()
        except unshared:
            # In a folder that is full or cannot be written, SQLite cannot share its WAL.
            if "store" in db.db_names():
                db.execute("detach store")
        else:
            return
    raise apsw.CantOpenError(f"cannot open {store}")
