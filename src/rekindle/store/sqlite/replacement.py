"""Continue after the file of an open store was replaced.

The old file has no name any more, but a process that has it open can still read it. A commit that
was made while a damaged store was being quarantined may be in the new store or not. The writer got
an error, and writes it again, unless the new store has it (see `UncertainWrite`). So it is not
brought into the new store from the old file.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import replace

from rekindle.model import (
    Change,
    Counted,
    Entry,
    EntryBatch,
    LeaseHolder,
    Session,
    TitleSource,
)
from rekindle.store.sqlite.schema import seq_at

if TYPE_CHECKING:
    from rekindle.store.sqlite.store import SqliteStore


class UncertainCommit(Struct, frozen=True):
    """A commit to a store that was replaced meanwhile."""

    batches: list[tuple[str, int]]
    """The session and first seq of each batch of entries."""
    counted: list[Counted]

    @classmethod
    def of(cls, changes: Sequence[Change], ends: Mapping[str, int]) -> Self:
        """Return the commit of `changes`. `ends` are the places after it by session id."""
        left, batches = dict(ends), list[tuple[str, int]]()
        for change in reversed(changes):
            if isinstance(change, EntryBatch):
                left[change.session_id] -= change.count
                batches.append((change.session_id, seq_at(left[change.session_id])))
        return cls(batches, [change for change in changes if isinstance(change, Counted)])

    def first_seq(self, session_id: str) -> int | None:
        """Return the first seq that the commit wrote to a session."""
        return min((seq for id_, seq in self.batches if id_ == session_id), default=None)


class ReplacedSqliteStore:
    """An open store without a file name, as it was before its uncertain commit."""

    def __init__(self, store: "SqliteStore", commit: UncertainCommit) -> None:
        self._store = store
        self._commit = commit

    def leases(self) -> Mapping[str, LeaseHolder]:
        """Return the leases that were acquired through the store."""
        return self._store.own_leases()

    def session(self, session_id: str) -> Session:
        """Return one session."""
        session = self._store.session(session_id)
        counted = [it for it in self._commit.counted if it.session_id == session_id]
        return replace(
            session,
            turns=session.turns - sum(it.turns for it in counted),
            messages=session.messages - sum(it.messages for it in counted),
        )

    def titles(self, session_id: str) -> dict[TitleSource, str]:
        """Return the titles of a session."""
        return self._store.titles(session_id)

    def read(self, session_id: str, *, after: int = 0) -> Iterator[Entry]:
        """Yield the entries of a session."""
        first = self._commit.first_seq(session_id)
        entries = self._store.read(session_id, after=after)
        return takewhile(lambda entry: first is None or entry.seq < first, entries)
