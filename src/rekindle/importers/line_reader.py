"""The lines of a file, however long it or they are. Only a newline ends a line.

U+2028, U+0085 and a carriage return occur inside of what was said.
"""

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO

LONGEST = 24 * 1024 * 1024
"""What is longer is passed over: no model takes so much at once. Some copies are made of each."""
_BYTES_A_READ = 1024 * 1024
_MARK = b"\xef\xbb\xbf"


def _open(path: Path) -> IO[bytes]:
    return path.open("rb", buffering=_BYTES_A_READ)


class Lines:
    """Reads a file line by line, from one place to another.

    `opened` opens one that is not plain; then places are those of what is inside. `at` is told how
    far the file is read, now and then.
    """

    def __init__(
        self,
        path: Path,
        begin: int = 0,
        end: int | None = None,
        opened: Callable[[Path], IO[bytes]] = _open,
        at: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._path = path
        self._begin = begin
        self._end = end
        self._opened = opened
        self._at = at
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
        is_going_on = False
        for place, line in self._pieces():
            see(line)
            if is_going_on or len(line) > LONGEST:
                # The rest of it comes in further pieces.
                self.too_long += not is_going_on
                is_going_on = line[-1:] != b"\n"
            elif line[-1:] == b"\n":
                yield place, line[:-1].removeprefix(_MARK) if place == 0 else line[:-1]
            else:
                self.is_torn = True
                yield place, line.removeprefix(_MARK) if place == 0 else line

    def _pieces(self) -> Iterator[tuple[int, bytes]]:
        """Yield what there is up to each newline, and no more than a line may have at once."""
        place = told = self._begin
        end = self._end
        with self._opened(self._path) as file:
            file.seek(place)
            # This is the way of every line, so it has no functions of its own.
            readline, room = file.readline, LONGEST + 1
            while line := readline(room):
                if end is not None and place + len(line) > end:
                    line = line[: end - place]
                    if not line:
                        break
                yield place, line
                place += len(line)
                if place - told >= _BYTES_A_READ:
                    told = self.done = place
                    self._at(place)
            self.done = place


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
