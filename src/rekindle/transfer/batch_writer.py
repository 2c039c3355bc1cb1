"""Writing a conversation in parts, each of which is read before it is written.

So nobody has to wait for all of a long one, and whoever is interrupted goes on the next time: only
with the last part it is said that all of it is from the file.
"""

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from rekindle.importers.base import EntryCounts, SourceSession
from rekindle.model import Change, Counted, Entry, Imported
from rekindle.store.base import Store
from rekindle.transfer.merge import stretches

_ENTRIES_A_PART = 20_000
_BYTES_A_PART = 16 * 1024 * 1024


class Writing:
    """Writes what comes `first`, then the entries after `common`, and what they make in all.

    `count` is what the session is to be counted less; `after` is how many entries it has.
    """

    def __init__(
        self,
        talk: SourceSession,
        first: list[Change],
        count: Counted,
        *,
        common: int = 0,
        after: int = 0,
    ) -> None:
        self._session_id = talk.incoming.id
        self._origin = talk.incoming.origin
        self._first = first
        self._tally = EntryCounts()
        self._entries = islice(talk.read_entries(self._tally), common, None)
        self._count = count
        self._after = after
        self.written = 0
        self.is_drawn = False

    def begin(self, store: Store) -> bool:
        """Write one part; tell whether nobody else has written to the session."""
        after, changes = self._part()
        # With the last one, all of them outlive a loss of power; until then there is the file.
        return store.extend(self._session_id, after, changes, sync=self.is_drawn)

    def finish(self, store: Store) -> bool:
        """Write all that is left; tell whether nobody else has written to the session."""
        # Not in a thread, while the next is read: Python's lock lets only one of the two go on.
        while not self.is_drawn:
            if not self.begin(store):
                return False
        return True

    def _part(self) -> tuple[int, list[Change]]:
        """Draw some more; return what it comes after, and what is to be written."""
        after = self._after
        changes = [*self._first, *stretches(self._session_id, self._some())]
        self._first = []
        if self.is_drawn:
            changes += self._last()
        return after, changes

    def _some(self) -> Iterator[Entry]:
        size = 0
        for number, entry in enumerate(self._entries, 1):
            size += len(entry.line)
            self.written += 1
            self._after = entry.seq
            yield entry
            if number >= _ENTRIES_A_PART or size >= _BYTES_A_PART:
                return
        self.is_drawn = True

    def _last(self) -> Iterator[Change]:
        tally, count = self._tally, self._count
        turns, messages = count.turns + tally.turns, count.messages + tally.messages
        yield replace(count, turns=turns, messages=messages)
        if self._origin is not None:
            origin = replace(self._origin, entries=tally.entries, settled=tally.settled)
            yield Imported(session_id=self._session_id, at_us=count.at_us, origin=origin)
