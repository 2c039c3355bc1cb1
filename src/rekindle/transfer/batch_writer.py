"""Write the entries of a session, packed into batches, in one or in several transactions.

Several transactions of bounded size keep other writers waiting for a short time only. Each one is
read before the store is locked. An interrupted write continues with the next import.
"""

from collections.abc import Callable, Iterable, Iterator

from rekindle.model import Change, Entry, EntryBatch
from rekindle.store.base import Store

_BATCH_LINES = 512
_BATCH_BYTES = 128 * 1024
_TRANSACTION_ENTRIES = 20_000
_TRANSACTION_BYTES = 16 * 1024 * 1024


class BatchWriter:
    """Writes `first_changes`, then `entries`, then the result of `last_changes`.

    `after` is the number of entries that the session has in the store. `last_changes` is called
    when all entries are read. With `is_atomic`, everything is written in one transaction, and the
    entries are read while it is open, so memory stays bounded. `latest_us` bounds the time of the
    session: a file with times in the future must not stay the last used session.
    """

    def __init__(  # noqa: PLR0913 - what to write, in order
        self,
        session_id: str,
        first_changes: list[Change],
        entries: Iterator[Entry],
        last_changes: Callable[[], Iterable[Change]] = tuple,
        *,
        after: int = 0,
        is_atomic: bool = False,
    ) -> None:
        self._session_id = session_id
        self._first_changes = first_changes
        self._entries = entries
        self._last_changes = last_changes
        self._after = after
        self._is_atomic = is_atomic
        self.entries_written = 0
        self.is_finished = False
        self.latest_us: int | None = None

    def write_next(self, store: Store) -> bool:
        """Write one transaction; return False if another process has written to the session."""
        after, changes = self._after, self._next_changes()
        if self._is_atomic:
            return store.extend(self._session_id, after, changes, latest_us=self.latest_us)
        read = list(changes)
        # The last transaction syncs all of them. Until then a loss is repaired from the file.
        return store.extend(
            self._session_id, after, read, sync=self.is_finished, latest_us=self.latest_us
        )

    def finish(self, store: Store) -> bool:
        """Write the rest; return False if another process has written to the session."""
        # A thread that reads ahead would gain nothing: the GIL lets only one of the two run.
        while not self.is_finished:
            if not self.write_next(store):
                return False
        return True

    def _next_changes(self) -> Iterator[Change]:
        yield from self._first_changes
        self._first_changes = []
        yield from entry_batches(self._session_id, self._next_entries())
        if self.is_finished:
            yield from self._last_changes()

    def _next_entries(self) -> Iterator[Entry]:
        size = 0
        for number, entry in enumerate(self._entries, 1):
            size += len(entry.line)
            self.entries_written += 1
            self._after = entry.seq
            yield entry
            is_full = number >= _TRANSACTION_ENTRIES or size >= _TRANSACTION_BYTES
            if is_full and not self._is_atomic:
                return
        self.is_finished = True


def entry_batches(session_id: str, entries: Iterable[Entry]) -> Iterator[EntryBatch]:
    """Pack successive entries that differ only in their line, as the recorder does."""
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        is_full = len(batch) >= _BATCH_LINES or size > _BATCH_BYTES
        if batch and (is_full or not _fit_together(batch[0], entry)):
            yield _pack(session_id, batch)
            batch, size = [], 0
        batch.append(entry)
        size += len(entry.line)
    if batch:
        yield _pack(session_id, batch)


def _fit_together(one: Entry, other: Entry) -> bool:
    # The fields that differ most often come first.
    return (
        one.at_us == other.at_us
        and one.kind is other.kind
        and one.side is other.side
        and one.protocol == other.protocol
    )


def _pack(session_id: str, entries: list[Entry]) -> EntryBatch:
    first = entries[0]
    return EntryBatch(
        session_id=session_id,
        side=first.side,
        kind=first.kind,
        at_us=first.at_us,
        data=b"\n".join([entry.line for entry in entries]) if len(entries) > 1 else first.line,
        count=len(entries),
        protocol=first.protocol,
    )
