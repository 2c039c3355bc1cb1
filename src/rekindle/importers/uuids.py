"""Which record has which number, for millions of records in little memory.

Most records are looked up soon after they came, so the latest are in a dictionary. When that is
full it becomes two arrays, sorted by the names' hashes: 12 bytes a record instead of 150.
"""

from array import array
from bisect import bisect_left

_LATEST = 1 << 16


class Uuids:
    """Numbers by the names of records."""

    def __init__(self) -> None:
        self._latest: dict[int, int] = {}
        self._older: list[tuple[array[int], array[int]]] = []

    def add(self, name: str, number: int) -> None:
        """Remember a record's number."""
        if len(self._latest) >= _LATEST:
            hashes = sorted(self._latest)
            numbers = array("i", map(self._latest.__getitem__, hashes))
            self._older.append((array("q", hashes), numbers))
            self._latest.clear()
        self._latest[hash(name)] = number

    def is_recent(self, name: str) -> bool:
        """Tell whether a record is one of the latest."""
        return hash(name) in self._latest

    def find(self, name: str) -> int | None:
        """Return a record's number, if it is known."""
        wanted = hash(name)
        if wanted in self._latest:
            return self._latest[wanted]
        for hashes, numbers in reversed(self._older):
            place = bisect_left(hashes, wanted)
            if place < len(hashes) and hashes[place] == wanted:
                return numbers[place]
        return None
