"""The store on disk: one SQLite file in WAL mode, shared by any number of processes.

Durability. A commit survives the death of this process, because it is in the file before
`write` returns. It survives the death of the machine with `sync`, which also saves every
commit before it: streamed chunks are committed without waiting for the disk, and the
turn's end waits once for all of them.

Private. The file, and SQLite's files beside it, can be read by their owner only; folders
that are made for them likewise.
"""

import json
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

import apsw

from rekindle.errors import SessionAmbiguous, SessionNotFound, StoreDamaged, StoreUnavailable
from rekindle.model import (
    ACTIVITY,
    Change,
    Entry,
    EntryBatch,
    LeaseHolder,
    LeaseResult,
    Overview,
    Page,
    Session,
    SessionStatus,
    TitleSource,
)
from rekindle.store.address import index_path
from rekindle.store.base import ImportedSession, are_one
from rekindle.store.sqlite import maintenance, sql
from rekindle.store.sqlite.codec import Row, conditions_of, entries_in, origin_in, session_in
from rekindle.store.sqlite.connection import (
    in_words,
    lock_path,
    open_for_reading,
    open_for_writing,
    translated,
)
from rekindle.store.sqlite.file_identity import Whereabouts
from rekindle.store.sqlite.filelock import FileLock, note_in
from rekindle.store.sqlite.leases import Leases
from rekindle.store.sqlite.schema import place, places
from rekindle.store.sqlite.writer import Writer

if TYPE_CHECKING:
    from rekindle.store.sqlite.search_index import Index

_Values = Sequence[object] | Mapping[str, object]

_ROWS_A_READ = 64


class SqliteStore:
    """One SQLite file. `patience` is how many seconds to wait for other writers."""

    def __init__(self, path: Path, *, create: bool = True, patience: float = 1.0) -> None:
        self._path = path
        self._patience = patience
        self._mutex = RLock()
        self._is_synced: bool | None = None
        self.doubtful: tuple[Sequence[Change], dict[str, int]] = (), {}
        """What was committed when the store was replaced, and where sessions ended then."""
        # Which store was set aside last: cheaper to look at than whether the file is still there.
        self._note = note_in(lock_path(path))
        with translated(path):
            self._db: Any = open_for_writing(path, patience) if create else open_for_reading(path)
            self._whereabouts = Whereabouts(path)
        self._lock: FileLock | None = None
        self._writer = Writer(self._db)
        self._leases = Leases(self._db, path.with_name(path.name + ".live"))

    def write(
        self, changes: Sequence[Change], *, sync: bool = False, patience: float | None = None
    ) -> None:
        """Apply `changes`."""
        # This is the way of every chunk of every answer, so it has no context managers.
        wait = self._patience if patience is None else patience
        try:
            with self._mutex:
                try:
                    self._commit(changes, sync=sync, patience=wait)
                except apsw.ConstraintError:
                    # Another process has written to the same session: look where it ends now.
                    self._commit(changes, sync=sync, patience=wait)
        except (apsw.Error, OSError) as error:
            raise in_words(error, self._path) from error

    def extend(
        self, session_id: str, after: int, changes: Iterable[Change], *, sync: bool = True
    ) -> bool:
        """Apply `changes` if nobody has written to the session."""
        with self._appending(sync=sync):
            is_as_expected = self._writer.last_seq(session_id) == after
            self._writer.apply_all(changes if is_as_expected else ())
            self._execute(sql.REVISE, (session_id,))
        return is_as_expected

    def take_pending(
        self, token: str, changes: Iterable[Change], *, patience: float | None = None
    ) -> list[str]:
        """Apply what waits."""
        from rekindle.store.sqlite.pending import take  # noqa: PLC0415 - seldom needed

        with self._appending(patience):
            return take(self._db, token, changes, self._writer.apply)

    def drop_pending(self, token: str) -> None:
        """Forget what has waited."""
        with self.writing():
            self._execute("delete from pending where token = ?", (token,))

    def read(self, session_id: str, *, after: int = 0) -> Iterator[Entry]:
        """Yield entries."""
        key = self._key_of(session_id)
        first, end = places(key)
        start = self._query(sql.ROW_WITH, (first, place(key, after + 1)))[0][0] or first
        while rows := self._query(sql.READ, (start, end, _ROWS_A_READ)):
            for row in rows:
                with translated(self._path):
                    entries = entries_in(row)
                yield from (entry for entry in entries if entry.seq > after)
            start = rows[-1][0] + 1

    def session(self, session_id: str) -> Session:
        """Return one session."""
        rows = self._query(f"{sql.SESSION} where id = ?", (session_id,))
        if not rows:
            raise SessionNotFound(session_id)
        return self._session_in(rows[0])

    def sessions(self, page: Page) -> list[Session]:
        """List sessions."""
        conditions, values = conditions_of(page)
        where = f"where {' and '.join(conditions)}" if conditions else ""
        statement = f"{sql.SESSION} {where} order by updated_us desc, id desc limit :limit"
        rows = self._query(statement, values | {"limit": page.limit})
        return [self._session_in(row) for row in rows]

    def find(self, prefix: str) -> Session:
        """Return the session that `prefix` means."""
        # A range, because `like` knows wildcards, ignores case and uses no index here.
        values = {"prefix": prefix, "beyond": prefix + chr(0x10FFFF)}
        rows = self._query(sql.FIND, values)
        if not rows or not prefix:
            raise SessionNotFound(prefix)
        ids = [row[0] for row in rows]
        if ids[0] != prefix and not are_one(ids):
            raise SessionAmbiguous(prefix, ids)
        return self._session_in(rows[0])

    def titles(self, session_id: str) -> dict[TitleSource, str]:
        """Return all titles."""
        rows = self._query(sql.TITLES, (session_id,))
        if not rows:
            raise SessionNotFound(session_id)
        both = zip(TitleSource, rows[0], strict=True)
        return {source: title for source, title in both if title is not None}

    def bound(self, session_ids: Sequence[str]) -> set[str]:
        """Return the ids that are known here."""
        asked = json.dumps(list(session_ids))
        return {row[0] for row in self._query(sql.BOUND, {"asked": asked})}

    def known_to_agent_as(self, agent_session_id: str) -> str | None:
        """Return the session that an agent has under that id."""
        rows = self._query(sql.OF_AGENT, {"asked": agent_session_id})
        return rows[0][0] if rows else None

    def agent_commands(self, identities: Collection[str]) -> list[tuple[str, ...]]:
        """Return the commands of agents."""
        asked = json.dumps([identity for identity in identities if identity])
        rows = self._query(sql.AGENT_COMMANDS, {"identities": asked})
        return [tuple(json.loads(command)) for (command,) in rows]

    def imported(self) -> Iterator[ImportedSession]:
        """Yield what was imported."""
        for session_id, cwd, is_deleted, origin in self._query(sql.IMPORTED):
            with translated(self._path):
                yield ImportedSession(session_id, cwd, origin_in(origin), bool(is_deleted))

    def claim(self, session_id: str, holder: LeaseHolder, *, takeover: bool = False) -> LeaseResult:
        """Let `holder` drive a session."""
        key = self._key_of(session_id)
        with self.writing():
            return self._leases.claim(session_id, key, holder, takeover=takeover)

    def holder(self, session_id: str) -> LeaseHolder | None:
        """Return who drives a session."""
        key = self._key_of(session_id)
        with self._mutex, translated(self._path):
            return self._leases.holder(key)

    def driven(self) -> set[str]:
        """Return the sessions that somebody drives."""
        with self._mutex, translated(self._path):
            keys = json.dumps(list(self._leases.driven()))
            return {row[0] for row in self._execute(sql.IDS, (keys,))}

    def release(self, holder: LeaseHolder, session_id: str | None = None) -> None:
        """Give sessions up."""
        key = None if session_id is None else self._key_of(session_id)
        with self.writing():
            self._leases.drop(holder, key, session_id)

    def standings(self, session_ids: Sequence[str]) -> dict[str, SessionStatus]:
        """Tell how it stands with sessions."""
        with self._mutex, translated(self._path):
            return maintenance.standings(self._db, self._leases, session_ids)

    def purge(self, *session_ids: str) -> None:
        """Remove all but that they were deleted."""
        rows = self._query(sql.DELETED_KEYS, (json.dumps(session_ids),))
        # First, because what is not purged yet is tried again.
        self._forget_words(*(session_id for _, session_id in rows))
        with self.writing():
            for key, session_id in rows:
                self._clear(key, session_id)
                self._execute(sql.BLANK, (key,))
        # What was said would else lie in the log until it is written over. Whoever reads it now
        # keeps it there, but nobody can have it from here any more.
        with suppress(StoreUnavailable):
            self._empty_log()

    def scrub(self, tick: Callable[[], object]) -> None:
        """Write the whole file anew: pages that were split have copies where nothing is used."""
        with self._mutex, translated(self._path):
            maintenance.check_nobody_waits_long(self._db, self._leases)
        self._rewrite(tick)
        self._empty_log()
        self._with_index(lambda index: index.empty_log())

    def weigh(self, session_ids: Sequence[str]) -> int:
        """Add up the lines."""
        with self._mutex, translated(self._path):
            return maintenance.weigh(self._db, session_ids)

    def overview(self) -> Overview:
        """Count everything."""
        with self._mutex, translated(self._path):
            return maintenance.overview(self._db, self._path)

    def compact(self) -> Iterator[float]:
        """Give back free pages, a few at a time."""
        with self._mutex, translated(self._path):
            if not maintenance.gives_back_in_steps(self._db):
                maintenance.check_nobody_records(self._leases)
                self._rewrite(lambda: None)
            steps = maintenance.count_steps(self._db)
        for step in range(steps):
            begun = time.monotonic()
            with self.writing():
                maintenance.compact_step(self._db)
            yield (step + 1) / (steps + 1)
            # Whoever waits for the lock looks for it now and then: let them find it free.
            time.sleep(time.monotonic() - begun)
        self._empty_log()
        self._with_index(lambda index: index.compact())
        yield 1.0

    def _rewrite(self, tick: Callable[[], object]) -> None:
        """Write the whole file anew, which keeps all others from writing meanwhile."""
        with self._mutex, translated(self._path):
            is_held = self.lock.acquire(self._patience)
            try:
                maintenance.rewrite(self._db, tick)
            finally:
                if is_held:
                    self.lock.release()

    def _with_index(self, do: "Callable[[Index], object]") -> None:
        """Do something to the index, if there is one."""
        if index_path(self._path).exists():
            from rekindle.store.sqlite.search_index import Index  # noqa: PLC0415 - seldom needed

            with Index(self._path) as index:
                do(index)

    def _empty_log(self) -> None:
        with self._mutex, translated(self._path):
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def deleted(self, before_us: int, limit: int = -1) -> list[str]:
        """Return what was deleted."""
        return [row[0] for row in self._query(sql.DELETED, (before_us, limit))]

    def erase(self, session_id: str) -> None:
        """Remove a session."""
        with self.writing():
            for (key,) in self._execute("select key from session where id = ?", (session_id,)):
                self._clear(key, session_id)
                self._execute("delete from session where key = ?", (key,))
        # Last, because it may be indexed as long as it is there.
        self._forget_words(session_id)

    def _clear(self, key: int, session_id: str) -> None:
        """Remove what was said in a session, and overwrite it."""
        self._db.pragma("secure_delete", 1)
        self._execute("delete from stretch where place between ? and ?", places(key))
        self._execute("delete from lease where session = ?", (key,))
        self._execute("delete from former where session = ?", (key,))
        self._writer.ends.pop(session_id, None)

    def _forget_words(self, *session_ids: str) -> None:
        if session_ids:
            self._with_index(lambda index: index.forget(*session_ids))

    def succeed(self, former: Self) -> None:
        """Take the place of one that is closed next: what it has claimed stays claimed."""
        if not self._whereabouts.is_same(former._whereabouts):
            from rekindle.transfer.rescue import rescue  # noqa: PLC0415 - seldom needed

            rescue(former, self)
        self._leases.inherit(former._leases)

    def claims(self) -> dict[str, LeaseHolder]:
        """Return the sessions that are driven by way of this very object, and in whose name."""
        try:
            with self._mutex, translated(self._path):
                return self._leases.held()
        except StoreDamaged:
            return self._leases.claimed()

    def close(self) -> None:
        """Close the file, and give up what was claimed by way of this very object."""
        if self._leases.is_in_use:
            # Whoever is alive is seen by a lock; but one who has left should not look killed.
            with suppress(StoreUnavailable), self.writing():
                self._leases.drop_all()
        with self._mutex, translated(self._path):
            self._leases.close()
            self._db.close()
            if self._lock is not None:
                self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- writing ------------------------------------------------------------------------

    @property
    def lock(self) -> FileLock:
        """The lock between writers."""
        if self._lock is None:
            self._lock = FileLock(lock_path(self._path))
        return self._lock

    def _commit(self, changes: Sequence[Change], *, sync: bool, patience: float) -> None:
        self._sync_from_now_on(sync=sync)
        self._db.set_busy_timeout(int(patience * 1000))
        is_held = self.lock.acquire(0)
        if not is_held:
            # Whoever sets a damaged store aside has the lock until what can be saved is saved.
            self._whereabouts.check()
            is_held = self.lock.acquire(patience)
        try:
            if sync or self.lock.read() != self._note:
                self._whereabouts.check()
            first = changes[0] if len(changes) == 1 else None
            if (
                is_held
                and isinstance(first, EntryBatch)
                and first.kind not in ACTIVITY
                and first.session_id in self._writer.ends
            ):
                # One statement is a transaction by itself.
                self._writer.append(first)
            else:
                with self._transaction():
                    if not is_held:
                        # Whoever sets a damaged store aside has SQLite's lock, too, if it can.
                        self._whereabouts.check()
                    self._writer.apply_all(changes)
            if not is_held:
                self._see_that_it_counts(changes)
        except BaseException:
            self._writer.ends.clear()
            raise
        finally:
            if is_held:
                self.lock.release()

    def _sync_from_now_on(self, *, sync: bool) -> None:
        if sync is not self._is_synced:
            self._db.pragma("synchronous", "full" if sync else "normal")
            self._is_synced = sync

    def _see_that_it_counts(self, changes: Sequence[Change]) -> None:
        try:
            self._whereabouts.check()
        except StoreUnavailable:
            self.doubtful = changes, dict(self._writer.ends)
            raise

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._execute("begin immediate")
        try:
            yield
            self._execute("commit")
        except BaseException:
            # Some errors (a full disk) have rolled the transaction back already.
            if self._db.in_transaction:
                self._execute("rollback")
            raise

    @contextmanager
    def _appending(self, patience: float | None = None, *, sync: bool = True) -> Generator[None]:
        """Hold a transaction that appends what is drawn one by one."""
        with self._mutex:
            self._writer.ends.clear()
            try:
                self._sync_from_now_on(sync=sync)
                with self.writing(patience):
                    yield
            except BaseException:
                self._writer.ends.clear()
                raise

    @contextmanager
    def writing(self, patience: float | None = None) -> Generator[Any]:
        """Hold a transaction that is not on the way of a conversation."""
        wait = self._patience if patience is None else patience
        with self._mutex, translated(self._path):
            self._db.set_busy_timeout(int(wait * 1000))
            is_held = self.lock.acquire(wait)
            try:
                with self._transaction():
                    self._whereabouts.check()
                    yield self._db
                if not is_held:
                    self._whereabouts.check()
            finally:
                if is_held:
                    self.lock.release()

    # -- reading ------------------------------------------------------------------------

    def _query(self, sql: str, values: _Values = ()) -> list[Row]:
        with self._mutex, translated(self._path):
            return self._execute(sql, values)

    def _execute(self, sql: str, values: _Values = ()) -> list[Row]:
        return self._db.execute(sql, values).fetchall()

    def _session_in(self, row: Row) -> Session:
        with translated(self._path):
            return session_in(row)

    def _key_of(self, session_id: str) -> int:
        rows = self._query("select key from session where id = ?", (session_id,))
        if not rows:
            raise SessionNotFound(session_id)
        return rows[0][0]
