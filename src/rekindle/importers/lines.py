"""The lines of a file, however long it or they are. Only a newline ends a line.

U+2028, U+0085 and a carriage return occur inside of what was said.
"""

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO

LONGEST = 64 * 1024 * 1024
"""What is longer is passed over: no tool writes such lines, and nobody could show them."""
_BYTES_A_READ = 1024 * 1024
_MARK = b"\xef\xbb\xbf"


class Lines:
    """Reads a file line by line, from one place to another.

    `opened` opens one that is not plain; then places are those of what is inside.
    """

    def __init__(
        self,
        path: Path,
        begin: int = 0,
        end: int | None = None,
        opened: Callable[[Path], IO[bytes]] = lambda path: path.open("rb", buffering=0),
    ) -> None:
        self._path = path
        self._opened = opened
        self._begin = begin
        self._end = end
        self.too_long = 0
        """How many lines were passed over."""
        self.is_torn = False
        """Whether the last line has no end."""
        self.done = begin
        """How far the file is read."""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield each line without its end, and the place where it begins."""
        return self._lines(lambda _: None)

    def hashed(self) -> tuple["Hash", Iterator[tuple[int, bytes]]]:
        """Return a checksum that grows as the lines are read, and the lines."""
        checksum = Hash()
        return checksum, self._lines(checksum.take)

    def _lines(self, see: Callable[[bytes], object]) -> Iterator[tuple[int, bytes]]:
        held: list[bytes] = []
        size, is_too_long = 0, False
        place = self._begin
        for data in self._reads():
            see(data)
            first, newline, rest = data.partition(b"\n")
            if not newline:
                size += len(data)
                is_too_long = is_too_long or size > LONGEST
                if is_too_long:
                    held.clear()
                else:
                    held.append(data)
                continue
            size += len(first)
            if is_too_long or size > LONGEST:
                self.too_long += 1
            else:
                line = b"".join([*held, first]) if held else first
                yield place, line.removeprefix(_MARK) if place == 0 else line
            place += size + 1
            *whole, last = rest.split(b"\n")
            for line in whole:
                yield place, line
                place += len(line) + 1
            held, size, is_too_long = [last] if last else [], len(last), False
        if size:
            self.is_torn = True
            if is_too_long:
                self.too_long += 1
            else:
                yield place, b"".join(held)

    def _reads(self) -> Iterator[bytes]:
        with self._opened(self._path) as file:
            file.seek(self._begin)
            while data := file.read(self._room()):
                self.done += len(data)
                yield data

    def _room(self) -> int:
        return _BYTES_A_READ if self._end is None else min(_BYTES_A_READ, self._end - self.done)


class Hash:
    """The checksum of what was read."""

    def __init__(self) -> None:
        self._sum = sha256()

    def take(self, data: bytes) -> None:
        """Take in some more."""
        self._sum.update(data)

    @property
    def words(self) -> str:
        """The checksum, as it is written."""
        return self._sum.hexdigest()
