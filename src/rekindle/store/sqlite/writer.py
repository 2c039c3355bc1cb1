"""Write changes to the database. Call it inside a transaction, or for a single statement."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import apsw
import msgspec
from msgspec.structs import asdict

from rekindle.errors import SessionNotFound
from rekindle.model import (
    ACTIVITY,
    AgentArchived,
    AgentObserved,
    AgentSaved,
    Archived,
    Change,
    Counted,
    Deleted,
    EntryBatch,
    Forgotten,
    Forked,
    Imported,
    Opened,
    RareChange,
    Titled,
    Truncated,
)
from rekindle.store.base import KEPT_FORGOTTEN_US, LeaseMark
from rekindle.store.sqlite import sql
from rekindle.store.sqlite.codec import (
    CODEC_LINES,
    Row,
    decode_entries,
    decode_session,
    opened_values,
)
from rekindle.store.sqlite.leases import Leases
from rekindle.store.sqlite.schema import Database, key_at, place, places, seq_at

_MAX_ENDS = 1000
_KEY = "select key from session where id = ?"


class Writer:
    """Applies changes through one connection. Without `leases`, entries are not fenced."""

    def __init__(self, db: Database, leases: Leases | None = None) -> None:
        self._db = db
        self._leases = leases
        self._marks: Mapping[str, LeaseMark] = {} if leases is None else leases.marks
        """The leases that fence entries, by session id. Leases add to them and remove them."""
        self._append: Callable[..., object] = db.cursor().execute
        self.ends: dict[str, int] = {}
        """The place of the next entry by session id, as far as this process knows."""
        self.forgotten: list[str] = []
        """The sessions that Forgotten has removed, until the store has noticed it."""
        self.last: tuple[EntryBatch, int] | None = None
        """The batch that was inserted last, or could not be, and its place."""

    def rolled_back(self) -> None:
        """Forget everything that a failed commit may have changed."""
        self.ends.clear()
        self.forgotten.clear()

    def apply_all(self, changes: Iterable[Change], latest_us: int | None = None) -> None:
        """Write the changes of one commit. Raises SessionNotFound.

        The time of a session becomes `latest_us` at the latest.
        """
        touched: dict[int, int] = {}
        for change in changes:
            if not isinstance(change, EntryBatch):
                self.apply(change)
                continue
            start = self._insert(change)
            if change.kind in ACTIVITY:
                key = key_at(start)
                touched[key] = max(touched.get(key, 0), change.at_us)
        for key, at_us in touched.items():
            bounded_us = at_us if latest_us is None else min(at_us, latest_us)
            self._execute(sql.TOUCH, (bounded_us, key))

    def apply(self, change: Change) -> None:
        """Write one change. Raises SessionNotFound."""
        match change:
            case EntryBatch():
                self.append(change)
            case Opened():
                values = opened_values(change)
                if change.agent_session_id is not None:
                    self._execute(sql.REMEMBER_FORMER, values)
                self._undelete_subagents(change.session_id)
                self._update_or_create(sql.OPEN, values, change)
            case Titled():
                self._update_or_create(sql.TITLE[change.source], asdict(change), change)
            case Counted():
                self._update_or_create(sql.COUNT, asdict(change), change)
            case _:
                self._apply_rare(change)

    def _apply_rare(self, change: RareChange) -> None:
        match change:
            case Forgotten():
                self._forget(change)
            case AgentSaved():
                statement = "update session set saved_turns = turns where id = ?"
                self._execute(statement, (change.session_id,))
            case AgentObserved():
                statement = "insert or ignore into agent_trait values (?, ?)"
                self._execute(statement, (change.release, change.trait))
            case Forked():
                fork(self._db, change, self._key_of(change.parent_id))
            case Deleted():
                self._delete(change)
            case Archived():
                since_us = change.at_us if change.is_archived else None
                self._execute(sql.ARCHIVE, (since_us, since_us, change.session_id))
            case AgentArchived():
                statement = "update session set agent_archived = ? where id = ?"
                self._execute(statement, (change.is_archived, change.session_id))
            case Imported():
                origin = msgspec.json.encode(change.origin).decode()
                values = {"session_id": change.session_id, "origin": origin}
                self._update_or_create(sql.IMPORT, values, change)
            case Truncated():
                key = self._key_of(change.session_id)
                self.check_lease(change.session_id, key)
                truncate(self._db, key, change.until_seq)
                self._execute(sql.TRUNCATE_EPOCHS, (change.until_seq, key))
                self._execute(sql.REVISE_TRUNCATED, (key,))
                self.ends.pop(change.session_id, None)

    def _delete(self, deleted: Deleted) -> None:
        """Delete a session and its sub-agents, if it exists."""
        session_id = deleted.session_id
        values = {"id": session_id, "ids": json.dumps([session_id]), "at_us": deleted.at_us}
        if self._execute(_KEY, (session_id,)):
            self._execute(sql.DELETE, values)

    def _undelete_subagents(self, session_id: str) -> None:
        """Undelete the sub-agents that were deleted with a session, which is undeleted next."""
        for (at_us,) in self._execute(sql.DELETION_TIME, (session_id,)):
            values = {"ids": json.dumps([session_id]), "at_us": at_us}
            self._execute(sql.UNDELETE_SUBAGENTS, values)

    def _forget(self, forgotten: Forgotten) -> None:
        session_id = forgotten.session_id
        for (key,) in self._execute(sql.UNUSED_KEY, (session_id,)):
            if forgotten.hides_agents:
                oldest_us = forgotten.at_us - KEPT_FORGOTTEN_US
                self._execute("delete from forgotten where at_us < ?", (oldest_us,))
                self._execute(sql.REMEMBER_FORGOTTEN, {"key": key, "at_us": forgotten.at_us})
            self.remove_parts(key, session_id)
            self._execute("delete from session where key = ?", (key,))
            self.forgotten.append(session_id)

    def remove_parts(self, key: int, session_id: str) -> None:
        """Remove everything that belongs to a session, except the session itself."""
        self._execute("delete from stretch where place between ? and ?", places(key))
        self._execute("delete from lease where session = ?", (key,))
        self._execute("delete from epoch where session = ?", (key,))
        self._execute("delete from former where session = ?", (key,))
        self.ends.pop(session_id, None)

    def check_lease(self, session_id: str, key: int) -> None:
        """Raise LeaseLost if another process has acquired the lease of this store since."""
        if self._leases is not None:
            self._leases.check(session_id, key)

    def append(self, batch: EntryBatch) -> None:
        """Append entries to their session."""
        start = self._insert(batch)
        # Only for ACTIVITY: a changed time moves the session in two indexes, and most entries are
        # streamed chunks.
        if batch.kind in ACTIVITY:
            self._execute(sql.TOUCH, (batch.at_us, key_at(start)))

    def _insert(self, batch: EntryBatch) -> int:
        mark = self._marks.get(batch.session_id)
        # Without a lease, another process may append or rewind meanwhile.
        known = self.ends.get(batch.session_id) if mark is not None else None
        start = known or self._find_end(batch)
        values = (
            start,
            batch.count,
            batch.side,
            batch.kind,
            batch.at_us,
            batch.protocol,
            CODEC_LINES,
            batch.data,
        )
        self.last = batch, start
        if mark is None:
            self._append(sql.APPEND, values)
        else:
            self._append(sql.APPEND_FENCED, (*values, mark.token, mark.epoch))
            if not self._db.changes():
                self.check_lease(batch.session_id, key_at(start))
                # The other process has purged the session meanwhile, and its lease with it.
                self._append(sql.APPEND, values)
        if len(self.ends) > _MAX_ENDS:
            self.ends.clear()
        self.ends[batch.session_id] = start + batch.count
        return start

    def last_seq(self, session_id: str) -> int:
        """Return the seq of the last entry of a session; 0 if it has no entries."""
        rows = self._execute(f"{sql.SESSION} where id = ?", (session_id,))
        return decode_session(rows[0]).last_seq if rows else 0

    def known_last_seq(self, session_id: str) -> int | None:
        """Return the seq of the last entry of a leased session, if it is known without a query."""
        end = self.ends.get(session_id) if session_id in self._marks else None
        return None if end is None else seq_at(end - 1)

    def _find_end(self, batch: EntryBatch) -> int:
        key = self._key_or_create(batch.session_id, batch.at_us)
        last = self._execute(sql.LAST, places(key))
        return (last[0][0] if last else place(key, 0)) + 1

    def _key_of(self, session_id: str) -> int:
        rows = self._execute(_KEY, (session_id,))
        if not rows:
            raise SessionNotFound(session_id)
        return rows[0][0]

    def _key_or_create(self, session_id: str, at_us: int) -> int:
        rows = self._execute(_KEY, (session_id,))
        if not rows:
            self._execute(sql.CREATE, {"id": session_id, "at_us": at_us})
            rows = self._execute(_KEY, (session_id,))
            self._check_empty(rows[0][0])
        return rows[0][0]

    def _check_empty(self, key: int) -> None:
        """Raise CorruptError if a new session has entries: they belong to another session."""
        if self._execute(sql.LAST, places(key)):
            raise apsw.CorruptError("a new session has entries")

    def _update_or_create(
        self,
        statement: str,
        values: Mapping[str, Any],
        change: Opened | Titled | Counted | Imported,
    ) -> None:
        self._key_or_create(change.session_id, change.at_us)
        self._execute(statement, values)

    def _execute(
        self, statement: str, values: Sequence[object] | Mapping[str, object]
    ) -> list[Row]:
        return self._db.execute(statement, values).fetchall()


def fork(db: Database, forked: Forked, parent: int) -> None:
    """Create a session with a copy of its parent's entries up to `until_seq`."""
    values = {
        "id": forked.session_id,
        "at_us": forked.at_us,
        "parent": parent,
        "owner": forked.owner_id,
    }
    db.execute(sql.FORK, values)
    child = db.last_insert_rowid()
    shift = place(child, 0) - place(parent, 0)
    db.execute(sql.COPY, (shift, place(parent, 0), place(parent, forked.until_seq)))
    truncate(db, child, forked.until_seq)


def truncate(db: Database, key: int, until_seq: int) -> None:
    """Remove the entries of a session after `until_seq`."""
    beyond = (place(key, until_seq + 1), places(key)[1])
    db.execute("delete from stretch where place between ? and ?", beyond)
    for row in db.execute(sql.LAST_ROW, places(key)).fetchall():
        lines = [entry.line for entry in decode_entries(row) if entry.seq <= until_seq]
        statement = "update stretch set lines = ?, data = ? where place = ?"
        db.execute(statement, (len(lines), b"\n".join(lines), row[0]))
