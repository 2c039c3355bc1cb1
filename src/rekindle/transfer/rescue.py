"""Saving what is in use from a store that was deleted or replaced while it was open.

Its file has no name any more, but whoever has it open can still read it. Sessions that nobody has
open here are not brought back: whoever deleted them may have meant it.

What was committed in the very moment in which a damaged store was set aside may be in the new one,
or not. It is taken out: whoever wanted to write it was told that it failed, and tries again.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import asdict, replace

from rekindle.errors import SessionInUse, SessionNotFound, StoreDamaged, StoreUnavailable
from rekindle.model import Change, Counted, Entry, EntryBatch, IncomingSession, Session
from rekindle.store.sqlite import sql
from rekindle.store.sqlite.schema import Database, place, seq_at
from rekindle.transfer.merge import Merger, RecordedCopy

if TYPE_CHECKING:
    from rekindle.store.sqlite.store import SqliteStore


class Doubtful(Struct):
    """A commit to a store that was replaced meanwhile."""

    rows: list[tuple[str, int, bytes]]
    """Of each the session, where its first entry lies there, and its lines."""
    tallied: list[Counted]

    @classmethod
    def of(cls, changes: Sequence[Change], ends: Mapping[str, int]) -> Self:
        """Return what was written; `ends` tells where sessions end with it."""
        left, rows = dict(ends), list[tuple[str, int, bytes]]()
        for change in reversed(changes):
            if isinstance(change, EntryBatch):
                left[change.session_id] -= change.count
                where = seq_at(left[change.session_id])
                rows.append((change.session_id, where, change.data))
        return cls(rows, [change for change in changes if isinstance(change, Counted)])

    def without(self, session_id: str, entries: Iterator[Entry]) -> Iterator[Entry]:
        """Yield the entries of a session that were there before."""
        seqs = [seq for id_, seq, _ in self.rows if id_ == session_id]
        return takewhile(lambda entry: not seqs or entry.seq < min(seqs), entries)

    def counted(self, session_id: str) -> tuple[int, int]:
        """Return how many turns and messages of a session were counted."""
        ours = [it for it in self.tallied if it.session_id == session_id]
        return sum(it.turns for it in ours), sum(it.messages for it in ours)


def rescue(former: "SqliteStore", store: "SqliteStore") -> None:
    """Take the sessions that are driven by way of `former` into the store in its place.

    Raises StoreUnavailable.
    """
    doubtful = Doubtful.of(*former.doubtful)
    for session_id, holder in former.claims().items():
        merger = Merger(store, holder, undelete=True, trust=True)
        try:
            session = former.session(session_id)
            copy = RecordedCopy(
                _as_it_was(former, session, doubtful),
                lambda after, which=session_id: doubtful.without(
                    which, former.read(which, after=after)
                ),
            )
            merger.merge(copy, session.updated_us)
        except StoreDamaged:
            # What cannot be read cannot be saved here: what could be is in the store already.
            with suppress(SessionNotFound):
                store.claim(session_id, holder)
            continue
        except SessionInUse as error:
            # Somebody has opened a copy that was put there. It is tried again.
            raise StoreUnavailable(str(error)) from error
        store.claim(session_id, holder, takeover=True)
    _take_out(doubtful, store)


def _take_out(doubtful: Doubtful, store: "SqliteStore") -> None:
    """Remove what was saved of a doubtful commit."""
    if not doubtful.rows:
        return
    with store.writing() as db:
        removed = [row for row in doubtful.rows if _is_removed(db, *row)]
        for it in doubtful.tallied if removed else ():
            back = replace(it, turns=-it.turns, messages=-it.messages)
            db.execute(sql.TALLY, asdict(back))


def _is_removed(db: Database, session_id: str, seq: int, data: bytes) -> bool:
    for (key,) in db.execute("select key from session where id = ?", (session_id,)).fetchall():
        db.execute("delete from stretch where place = ? and data = ?", (place(key, seq), data))
        return db.changes() > 0
    return False


def _as_it_was(former: "SqliteStore", session: Session, doubtful: Doubtful) -> IncomingSession:
    turns, messages = doubtful.counted(session.id)
    return IncomingSession(
        id=session.id,
        created_us=session.created_us,
        agent_session_id=session.agent_session_id,
        agent=session.agent,
        cwd=session.cwd,
        directories=session.directories,
        titles=former.titles(session.id),
        parent_id=session.parent_id,
        turns=session.turns - turns,
        messages=session.messages - messages,
        origin=session.origin,
    )
