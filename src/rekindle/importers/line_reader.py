"""Read the lines of a file in bounded memory, whatever its size. Only a newline ends a line.

U+2028, U+0085 and carriage returns occur inside texts, so they do not end a line.
"""

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO

MAX_LINE_BYTES = 24 * 1024 * 1024
"""Longer lines are skipped: no model accepts that much, and each line is copied several times."""
_BYTES_PER_READ = 1024 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def _open(path: Path) -> IO[bytes]:
    return path.open("rb", buffering=_BYTES_PER_READ)


class LineReader:
    """Reads a file line by line, from one offset to another.

    `lines_before` is the number of lines before `start`. `open_file` opens a file that is not
    plain. Offsets then count decompressed bytes. `on_progress` is called now and then with the
    current offset.
    """

    def __init__(  # noqa: PLR0913 - all but the path have a default
        self,
        path: Path,
        start: int = 0,
        end: int | None = None,
        *,
        lines_before: int = 0,
        open_file: Callable[[Path], IO[bytes]] = _open,
        on_progress: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._path = path
        self._start = start
        self._end = end
        self._open_file = open_file
        self._on_progress = on_progress
        self._lines_before = lines_before
        self._line = lines_before
        """The number of the last line, from 1 on."""
        self.too_long = 0
        """The number of lines that were skipped because of their length."""
        self.too_long_place = ""
        """The place of the first of them."""
        self.is_torn = False
        """Whether the last line has no newline."""
        self.offset = start
        """The offset up to which the file has been read, updated now and then."""

    def place(self) -> str:
        """Return the file and the number of the last line, for people."""
        return f"{self._path}, line {self._line}"

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield the offset of each line, and the line without its newline."""
        return self._lines(lambda _: None)

    def with_checksum(self) -> tuple["Checksum", Iterator[tuple[int, bytes]]]:
        """Return the lines, and a checksum that is updated while they are read."""
        checksum = Checksum()
        return checksum, self._lines(checksum.update)

    def _lines(self, on_piece: Callable[[bytes], object]) -> Iterator[tuple[int, bytes]]:
        is_in_long_line = False
        self._line = self._lines_before
        for offset, line in self._pieces():
            on_piece(line)
            self._line += not is_in_long_line
            if is_in_long_line or len(line) > MAX_LINE_BYTES:
                # The rest of the line comes in further pieces.
                self.too_long += not is_in_long_line
                self.too_long_place = self.too_long_place or self.place()
                is_in_long_line = line[-1:] != b"\n"
            elif line[-1:] == b"\n":
                yield offset, line[:-1].removeprefix(_BYTE_ORDER_MARK) if offset == 0 else line[:-1]
            else:
                self.is_torn = True
                yield offset, line.removeprefix(_BYTE_ORDER_MARK) if offset == 0 else line

    def _pieces(self) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes up to each newline, at most one byte more than the limit at once."""
        offset = reported = self._start
        end = self._end
        with self._open_file(self._path) as file:
            file.seek(offset)
            # This loop runs for every line, so it calls no other functions.
            readline, limit = file.readline, MAX_LINE_BYTES + 1
            while line := readline(limit):
                if end is not None and offset + len(line) > end:
                    line = line[: end - offset]
                    if not line:
                        break
                yield offset, line
                offset += len(line)
                if offset - reported >= _BYTES_PER_READ:
                    reported = self.offset = offset
                    self._on_progress(offset)
            self.offset = offset


class Checksum:
    """The SHA-256 checksum of the bytes read so far."""

    def __init__(self) -> None:
        self._hash = sha256()

    def update(self, data: bytes) -> None:
        """Add bytes."""
        self._hash.update(data)

    @property
    def hexdigest(self) -> str:
        """The checksum in hexadecimal."""
        return self._hash.hexdigest()
