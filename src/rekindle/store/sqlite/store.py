"""The store on disk: one SQLite file in WAL mode, shared by any number of processes.

Durability: a commit is in the file before `write` returns, so it survives a crash of this process.
With `sync` it also survives a crash of the machine, together with every commit before it. Streamed
chunks are committed without waiting for the disk; the end of the turn waits once for all of them.

Privacy: only the owner can read the file, SQLite's files beside it, and the folders that are
created for them.
"""

import json
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

import apsw

from rekindle.errors import (
    LeaseLost,
    SessionAmbiguous,
    SessionNotFound,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
)
from rekindle.model import (
    ACTIVITY,
    AgentTrait,
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
from rekindle.store.base import (
    ImportedSession,
    LeaseMark,
    PendingChange,
    StoreHooks,
    UncertainWrite,
    belong_to_first,
)
from rekindle.store.fencing import PendingBranches, branched
from rekindle.store.sqlite import sql
from rekindle.store.sqlite.codec import (
    Row,
    decode_entries,
    decode_origin,
    decode_session,
    page_conditions,
)
from rekindle.store.sqlite.connection import (
    as_store_error,
    open_for_reading,
    open_for_writing,
    translate_errors,
)
from rekindle.store.sqlite.filelock import StoreLock, note_in
from rekindle.store.sqlite.files import FileIdentity, index_path, live_folder, lock_path
from rekindle.store.sqlite.leases import Leases
from rekindle.store.sqlite.schema import place, places, seq_at
from rekindle.store.sqlite.writer import Writer

if TYPE_CHECKING:
    from rekindle.store.sqlite.search_index import SqliteSearchIndex

_Values = Sequence[object] | Mapping[str, object]

_ROWS_PER_READ = 64


class SqliteStore:
    """One SQLite file. `timeout` is how many seconds to wait for other writers."""

    def __init__(
        self,
        path: Path,
        *,
        create: bool = True,
        timeout: float = 1.0,
        hooks: StoreHooks | None = None,
    ) -> None:
        self._path = path
        self._timeout = timeout
        self._hooks = hooks or StoreHooks()
        self._mutex = RLock()
        self._is_synced: bool | None = None
        self.uncertain: tuple[Sequence[Change], dict[str, int]] = (), {}
        """The changes that were committed while the store was being replaced, and where their
        sessions ended then."""
        # Names the store that was quarantined last. Reading it is cheaper than a stat of the file.
        self._note = note_in(lock_path(path))
        with translate_errors(path):
            self._db: Any = open_for_writing(path, timeout) if create else open_for_reading(path)
            self._identity = FileIdentity(path)
        self._lock: StoreLock | None = None
        self._leases = Leases(self._db, live_folder(path))
        self._writer = Writer(self._db, self._leases)

    def write(
        self, changes: Sequence[Change], *, sync: bool = False, timeout: float | None = None
    ) -> None:
        """Apply `changes`."""
        # Every chunk of every answer comes through here, so it uses no context managers.
        wait = self._timeout if timeout is None else timeout
        try:
            with self._mutex:
                try:
                    self._commit(changes, sync=sync, timeout=wait)
                except apsw.ConstraintError:
                    # Another process has appended to the session: find its end again.
                    self._commit(changes, sync=sync, timeout=wait)
                if self._writer.forgotten:
                    self._note_forgotten()
        except (apsw.Error, OSError, UnicodeEncodeError, OverflowError) as error:
            raise as_store_error(error, self._path) from error

    def uncertain_write(self, changes: Sequence[Change]) -> UncertainWrite | None:
        """Return how to recognise changes that may have been written."""
        # If a sync fails, SQLite reports a failed commit. The commit is in the WAL nevertheless,
        # and SQLite finds it there when the file is opened after all its users have ended.
        batch, start = self._writer.last or (None, 1)
        return UncertainWrite.of(changes, batch, seq_at(start) - 1)

    def branch_changes(self, lost: LeaseLost, changes: Sequence[Change]) -> list[Change]:
        """Return the changes of a write whose lease is lost for the branch of the session."""
        return branched(self, self._hooks, lost, changes)

    def extend(
        self,
        session_id: str,
        after: int,
        changes: Iterable[Change],
        *,
        sync: bool = True,
        latest_us: int | None = None,
    ) -> bool:
        """Apply `changes` if no other process has appended to the session."""
        with self._appending(sync=sync):
            for (key,) in self._execute("select key from session where id = ?", (session_id,)):
                self._leases.check(session_id, key)
            is_as_expected = self._writer.last_seq(session_id) == after
            self._writer.apply_all(changes if is_as_expected else (), latest_us)
            self._execute(sql.REVISE, (session_id,))
        return is_as_expected

    def apply_pending(
        self, token: str, changes: Iterable[PendingChange], *, timeout: float | None = None
    ) -> list[str]:
        """Apply pending changes that were not applied before."""
        from rekindle.store.sqlite.pending import apply_once  # noqa: PLC0415 - seldom needed

        with self._appending(timeout):
            # Not fenced: the changes of a lost lease go to the branch.
            writer = Writer(self._db)
            branches = PendingBranches(self, self._hooks, self._find_lost)
            problems = apply_once(branches, self._db, token, changes, writer.apply)
        self._writer.forgotten += writer.forgotten
        self._note_forgotten()
        return problems

    def _find_lost(self, mark: LeaseMark) -> LeaseLost | None:
        keys = self._execute("select key from session where id = ?", (mark.session_id,))
        return self._leases.find_lost(mark, keys[0][0]) if keys else None

    def forget_pending(self, token: str) -> None:
        """Forget how many changes were applied."""
        with self.writing():
            self._execute("delete from pending where token = ?", (token,))

    def read(self, session_id: str, *, after: int = 0) -> Iterator[Entry]:
        """Yield entries."""
        key = self._key_of(session_id)
        first, end = places(key)
        start = self._query(sql.ROW_WITH, (first, place(key, after + 1)))[0][0] or first
        while rows := self._query(sql.READ, (start, end, _ROWS_PER_READ)):
            for row in rows:
                with translate_errors(self._path):
                    entries = decode_entries(row)
                yield from (entry for entry in entries if entry.seq > after)
            start = rows[-1][0] + 1

    def session(self, session_id: str) -> Session:
        """Return one session."""
        rows = self._query(f"{sql.SESSION} where id = ?", (session_id,))
        if not rows:
            raise SessionNotFound(session_id)
        return self._decode_session(rows[0])

    def last_seq(self, session_id: str) -> int:
        """Return the seq of the last entry of a session."""
        known = self._writer.known_last_seq(session_id)
        if known is not None:
            return known
        rows = self._query(f"{sql.SESSION} where id = ?", (session_id,))
        return self._decode_session(rows[0]).last_seq if rows else 0

    def sessions(self, page: Page) -> list[Session]:
        """List sessions."""
        conditions, values = page_conditions(page)
        where = f"where {' and '.join(conditions)}" if conditions else ""
        statement = f"{sql.SESSION} {where} order by updated_us desc, id desc limit :limit"
        rows = self._query(statement, values | {"limit": page.limit})
        return [self._decode_session(row) for row in rows]

    def find(self, prefix: str) -> Session:
        """Return the session that `prefix` identifies."""
        # A range, because `like` has wildcards, ignores case and uses no index here.
        values = {"prefix": prefix, "beyond": prefix + chr(0x10FFFF)}
        rows = self._query(sql.FIND, values)
        if not rows or not prefix:
            raise SessionNotFound(prefix)
        ids = [row[0] for row in rows]
        if ids[0] != prefix and not belong_to_first(ids):
            raise SessionAmbiguous(prefix, ids)
        return self._decode_session(rows[0])

    def titles(self, session_id: str) -> dict[TitleSource, str]:
        """Return all titles."""
        rows = self._query(sql.TITLES, (session_id,))
        if not rows:
            raise SessionNotFound(session_id)
        by_source = zip(TitleSource, rows[0], strict=True)
        return {source: title for source, title in by_source if title is not None}

    def known_ids(self, session_ids: Sequence[str], *, recorded_only: bool = False) -> set[str]:
        """Return the ids that belong to a session."""
        ids = json.dumps(list(session_ids))
        query = sql.RECORDED_IDS if recorded_only else sql.KNOWN_IDS
        return {row[0] for row in self._query(query, {"ids": ids})}

    def find_by_agent_id(self, agent_session_id: str) -> str | None:
        """Return the session that an agent knows by this id."""
        rows = self._query(sql.FIND_BY_AGENT_ID, {"id": agent_session_id})
        return rows[0][0] if rows else None

    def archive_differences(self, states: Mapping[str, bool]) -> list[Session]:
        """Return the sessions whose archive state differs from the agent's own."""
        rows = self._query(sql.ARCHIVE_DIFFERENCES, {"states": json.dumps(states)})
        return [self._decode_session(row) for row in rows]

    def agent_commands(self, identities: Collection[str]) -> list[tuple[str, ...]]:
        """Return the commands of agents."""
        asked = json.dumps([identity for identity in identities if identity])
        rows = self._query(sql.AGENT_COMMANDS, {"identities": asked})
        return [tuple(json.loads(command)) for (command,) in rows]

    def agent_traits(self, release: str) -> frozenset[AgentTrait]:
        """Return the traits of a release of an agent."""
        rows = self._query("select trait from agent_trait where release = ?", (release,))
        known = {trait.value for trait in AgentTrait}
        # A newer Rekindle may have recorded others.
        return frozenset(AgentTrait(trait) for (trait,) in rows if trait in known)

    def forgotten_ids(self, agent_session_ids: Sequence[str]) -> dict[str, int]:
        """Return the times of forgotten sessions."""
        return dict(self._query(sql.FORGOTTEN_IDS, (json.dumps(list(agent_session_ids)),)))

    def imported(self) -> Iterator[ImportedSession]:
        """Yield the sessions that have an origin."""
        for session_id, cwd, is_deleted, origin in self._query(sql.IMPORTED):
            with translate_errors(self._path):
                yield ImportedSession(session_id, cwd, decode_origin(origin), bool(is_deleted))

    def acquire_lease(
        self, session_id: str, holder: LeaseHolder, *, takeover: bool = False
    ) -> LeaseResult:
        """Give `holder` the exclusive use of a session."""
        key = self._key_of(session_id)
        with self._mutex, translate_errors(self._path):
            # Every prompt asks, and mostly the lease is ours already. Reading is cheaper.
            epoch = self._leases.own_epoch(session_id, key, holder)
        if epoch is not None:
            return LeaseResult(epoch=epoch)
        with self._mutex:
            with self.writing():
                result = self._leases.acquire(session_id, key, holder, takeover=takeover)
            if result.holder is None:
                # Only now: a lease that could not be committed must not fence this process.
                self._leases.committed(session_id, holder, result.epoch)
        return result

    def lease_mark(self, session_id: str) -> LeaseMark | None:
        """Return the lease that was acquired through this instance."""
        return self._leases.marks.get(session_id)

    def update_holder(self, holder: LeaseHolder) -> None:
        """Store the new fields of a holder."""
        with self.writing():
            self._leases.update(holder)

    def lease_holder(self, session_id: str) -> LeaseHolder | None:
        """Return the live process that holds the lease of a session."""
        key = self._key_of(session_id)
        with self._mutex, translate_errors(self._path):
            return self._leases.holder(key)

    def leased_ids(self) -> set[str]:
        """Return the sessions whose lease is held by a live process."""
        with self._mutex, translate_errors(self._path):
            keys = json.dumps(list(self._leases.holders()))
            return {row[0] for row in self._execute(sql.IDS, (keys,))}

    def release_leases(self, holder: LeaseHolder, session_id: str | None = None) -> None:
        """Release the lease of one session, or all of them."""
        key = None if session_id is None else self._key_of(session_id)
        with self.writing():
            self._leases.release(holder, key, session_id)

    def statuses(self, session_ids: Sequence[str]) -> dict[str, SessionStatus]:
        """Return the status of each known session."""
        with self._mutex, translate_errors(self._path):
            leased = self._leases.holders().keys()
            return self._totals.statuses(self._db, leased, session_ids, self._hooks.turn_has_ended)

    def subagents(self, *session_ids: str) -> list[Session]:
        """Return the sub-agents of sessions."""
        rows = self._query(sql.SUBAGENTS, {"ids": json.dumps(session_ids)})
        return [self._decode_session(row) for row in rows]

    def purge(self, *session_ids: str) -> None:
        """Purge deleted sessions, but keep their tombstones."""
        rows = self._query(sql.DELETED_KEYS, (json.dumps(session_ids),))
        deleted = [session_id for _, session_id in rows]
        # A sub-agent without a message counts as purged, and is found through its parent only.
        subagents = self._query(sql.DELETED_SUBAGENT_KEYS, {"ids": json.dumps(deleted)})
        rows = list(dict.fromkeys([*rows, *subagents]))
        # The index comes first, because a session that is not purged yet is purged again later.
        self._forget_documents(*(session_id for _, session_id in rows))
        with self.writing():
            for key, session_id in rows:
                self._clear(key, session_id)
                self._execute(sql.BLANK, (key,))
        for _, session_id in rows:
            self._leases.forget(session_id)
        # Otherwise purged text remains in the WAL until it is overwritten. A process that reads the
        # WAL now keeps it there, but nothing can be read from this store any more.
        with suppress(StoreUnavailable):
            self._truncate_wal()

    def scrub(self, tick: Callable[[], object]) -> None:
        """Rewrite the whole file: unused parts of pages hold copies of removed rows."""
        with self._mutex, translate_errors(self._path):
            self._totals.check_rewrite_is_short(self._db, self._leases)
        self._rewrite(tick)
        self._truncate_wal()
        self._with_index(lambda index: index.truncate_wal())

    def entries_size(self, session_ids: Sequence[str]) -> int:
        """Return the number of bytes in the entries of sessions."""
        with self._mutex, translate_errors(self._path):
            return self._totals.entries_size(self._db, session_ids)

    def overview(self) -> Overview:
        """Return totals of the whole store."""
        with self._mutex, translate_errors(self._path):
            return self._totals.overview(self._db, self._path)

    def compact(self) -> Iterator[float]:
        """Return free pages to the disk, a few at a time."""
        with self._mutex, translate_errors(self._path):
            if not self._totals.can_compact_in_steps(self._db):
                self._totals.check_no_leases(self._leases)
                self._rewrite(lambda: None)
            steps = self._totals.count_steps(self._db)
        for step in range(steps):
            started = time.monotonic()
            with self.writing():
                self._totals.compact_step(self._db)
            yield (step + 1) / (steps + 1)
            # Waiting writers poll for the lock: leave it free as long as it was held.
            time.sleep(time.monotonic() - started)
        self._truncate_wal()
        self._with_index(lambda index: index.compact())
        yield 1.0

    def _rewrite(self, tick: Callable[[], object]) -> None:
        """Rewrite the whole file. Other processes cannot write meanwhile."""
        with self._mutex, translate_errors(self._path):
            is_held = self.lock.acquire(self._timeout)
            try:
                self._totals.rewrite(self._db, tick)
            finally:
                if is_held:
                    self.lock.release()

    @property
    def _totals(self):  # noqa: ANN202 - a module
        from rekindle.store.sqlite import totals  # noqa: PLC0415 - not needed to record

        return totals

    def _with_index(self, action: "Callable[[SqliteSearchIndex], object]") -> None:
        """Call `action` with the search index, if there is one."""
        if index_path(self._path).exists():
            from rekindle.store.sqlite.search_index import (  # noqa: PLC0415 - seldom needed
                SqliteSearchIndex,
            )

            with SqliteSearchIndex(self._path) as index:
                action(index)

    def _truncate_wal(self) -> None:
        with self._mutex, translate_errors(self._path):
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def deleted_ids(self, before_us: int, limit: int = -1) -> list[str]:
        """Return the sessions that were deleted before this time."""
        return [row[0] for row in self._query(sql.DELETED, (before_us, limit))]

    def unused_sessions(
        self, before_us: int, *, after: tuple[int, str] = (0, ""), limit: int = -1
    ) -> list[Session]:
        """Return the sessions that no client has used."""
        with self._mutex, translate_errors(self._path):
            leased = json.dumps(list(self._leases.holders()))
        rows = self._query(sql.UNUSED_SESSIONS, (before_us, *after, leased, limit))
        return [self._decode_session(row) for row in rows]

    def erase(self, session_id: str) -> None:
        """Remove a session."""
        with self.writing():
            own = self._execute("select key, id from session where id = ?", (session_id,))
            values = {"ids": json.dumps([id_ for _, id_ in own])}
            rows = own + self._execute(sql.SUBAGENT_KEYS, values)
            for key, id_ in rows:
                self._clear(key, id_)
                self._execute("delete from session where key = ?", (key,))
        # The index comes last, because a session may be indexed as long as it exists.
        self._forget_documents(session_id, *(id_ for _, id_ in rows))

    def _clear(self, key: int, session_id: str) -> None:
        """Remove the entries of a session, and overwrite them."""
        self._db.pragma("secure_delete", 1)
        self._writer.remove_parts(key, session_id)

    def _note_forgotten(self) -> None:
        """Remove what is left of sessions that Forgotten has removed from the database."""
        forgotten, self._writer.forgotten = self._writer.forgotten, []
        for session_id in forgotten:
            self._leases.forget(session_id)
        # A damaged index must not fail a write that has succeeded.
        with suppress(StoreError):
            self._forget_documents(*forgotten)

    def _forget_documents(self, *session_ids: str) -> None:
        if session_ids:
            self._with_index(lambda index: index.forget(*session_ids))

    def continue_from(self, former: Self) -> None:
        """Take over the leases of an instance that is closed next."""
        if not self._identity.is_same(former._identity):
            from rekindle.store.sqlite.replacement import (  # noqa: PLC0415 - seldom needed
                ReplacedSqliteStore,
                UncertainCommit,
            )

            commit = UncertainCommit.of(*former.uncertain)
            self._hooks.on_replaced(ReplacedSqliteStore(former, commit), self)
        self._leases.inherit(former._leases)

    def own_leases(self) -> dict[str, LeaseHolder]:
        """Return the leases that were acquired through this instance, by session id."""
        try:
            with self._mutex, translate_errors(self._path):
                return self._leases.own()
        except StoreDamaged:
            return self._leases.remembered()

    def close(self) -> None:
        """Release the leases that were acquired through this instance, and close the file."""
        if self._leases.are_in_use:
            # Liveness is seen by a lock, but a clean exit must not be reported as a crash.
            with suppress(StoreUnavailable), self.writing():
                self._leases.release_all()
        with self._mutex, translate_errors(self._path):
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
    def lock(self) -> StoreLock:
        """The lock that writers take in turn."""
        if self._lock is None:
            self._lock = StoreLock(lock_path(self._path))
        return self._lock

    def _commit(self, changes: Sequence[Change], *, sync: bool, timeout: float) -> None:
        self._writer.last = None
        self._set_sync(sync=sync)
        self._db.set_busy_timeout(int(timeout * 1000))
        is_held = self.lock.acquire(0)
        if not is_held:
            # A process that quarantines the store holds the lock until the recovery is complete.
            self._identity.check()
            is_held = self.lock.acquire(timeout)
        try:
            if sync or self.lock.read() != self._note:
                self._identity.check()
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
                        # A process that quarantines the store also holds SQLite's lock, if it can.
                        self._identity.check()
                    self._writer.apply_all(changes)
            if not is_held:
                self._check_not_replaced(changes)
        except BaseException:
            self._writer.rolled_back()
            raise
        finally:
            if is_held:
                self.lock.release()

    def _set_sync(self, *, sync: bool) -> None:
        if sync is not self._is_synced:
            self._db.pragma("synchronous", "full" if sync else "normal")
            self._is_synced = sync

    def _check_not_replaced(self, changes: Sequence[Change]) -> None:
        try:
            self._identity.check()
        except StoreUnavailable:
            self.uncertain = changes, dict(self._writer.ends)
            raise

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._execute("begin immediate")
        try:
            yield
            self._execute("commit")
        except BaseException:
            # Some errors, such as a full disk, have rolled the transaction back already.
            if self._db.in_transaction:
                self._execute("rollback")
            raise

    @contextmanager
    def _appending(self, timeout: float | None = None, *, sync: bool = True) -> Generator[None]:
        """Hold a transaction that appends changes from an iterable."""
        with self._mutex:
            self._writer.ends.clear()
            try:
                self._set_sync(sync=sync)
                with self.writing(timeout):
                    yield
            except BaseException:
                self._writer.rolled_back()
                raise

    @contextmanager
    def writing(self, timeout: float | None = None) -> Generator[Any]:
        """Hold a transaction for a change that does not delay a conversation."""
        wait = self._timeout if timeout is None else timeout
        with self._mutex, translate_errors(self._path):
            self._db.set_busy_timeout(int(wait * 1000))
            is_held = self.lock.acquire(wait)
            try:
                with self._transaction():
                    self._identity.check()
                    yield self._db
                if not is_held:
                    self._identity.check()
            finally:
                if is_held:
                    self.lock.release()

    # -- reading ------------------------------------------------------------------------

    def _query(self, statement: str, values: _Values = ()) -> list[Row]:
        with self._mutex, translate_errors(self._path):
            return self._execute(statement, values)

    def _execute(self, statement: str, values: _Values = ()) -> list[Row]:
        return self._db.execute(statement, values).fetchall()

    def _decode_session(self, row: Row) -> Session:
        with translate_errors(self._path):
            return decode_session(row)

    def _key_of(self, session_id: str) -> int:
        rows = self._query("select key from session where id = ?", (session_id,))
        if not rows:
            raise SessionNotFound(session_id)
        return rows[0][0]
