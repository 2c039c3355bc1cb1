"""Map millions of record ids to numbers in little memory.

Most lookups are for recent records, so the latest ids are in a dictionary. When that is full, it
becomes two arrays sorted by the ids' hashes: 12 bytes per record instead of 150.
"""

from array import array
from bisect import bisect_left

_MAX_RECENT = 1 << 16


class IdIndex:
    """The numbers of records, by their ids."""

    def __init__(self) -> None:
        self._recent: dict[int, int] = {}
        self._older: list[tuple[array[int], array[int]]] = []

    def add(self, record_id: str, number: int) -> None:
        """Store the number of a record."""
        if len(self._recent) >= _MAX_RECENT:
            hashes = sorted(self._recent)
            numbers = array("i", map(self._recent.__getitem__, hashes))
            self._older.append((array("q", hashes), numbers))
            self._recent.clear()
        self._recent[hash(record_id)] = number

    def is_recent(self, record_id: str) -> bool:
        """Return whether a record is among the latest."""
        return hash(record_id) in self._recent

    def find(self, record_id: str) -> int | None:
        """Return the number of a record; None if its id is unknown."""
        wanted = hash(record_id)
        if wanted in self._recent:
            return self._recent[wanted]
        for hashes, numbers in reversed(self._older):
            position = bisect_left(hashes, wanted)
            if position < len(hashes) and hashes[position] == wanted:
                return numbers[position]
        return None

    def __contains__(self, record_id: str) -> bool:
        """Return whether the id is known."""
        return self.find(record_id) is not None
