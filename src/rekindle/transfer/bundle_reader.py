"""Read a bundle, and check it from its first line to its last before anything is imported.

The lines are copied to a private temporary file, because a bundle may come through a pipe, is
usually compressed, and is read more than once.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import IO, Self

from rekindle.errors import BadBundle
from rekindle.model import Entry
from rekindle.transfer.bundle_format import MAX_LINE_BYTES, BundleChecker, SessionLine, parse_entry

_MAX_BYTES = 64 * 1024**3
_MAX_SESSIONS = 1_000_000
_LINES_PER_STEP = 1000
_READ_BYTES = 64 * 1024
_GZIP_MAGIC = b"\x1f\x8b"


class BundleReader:
    """Reads a bundle once, then yields the entries of any of its sessions, in any order."""

    def __init__(self) -> None:
        self._file: IO[bytes] = TemporaryFile()  # noqa: SIM115 - closed by `close`
        self.sessions: list[SessionLine] = []
        self._offsets: list[int] = []
        self._size = 0

    def read_all(self, source: io.BufferedReader) -> Iterator[None]:
        """Read and check a bundle; yield now and then, to show progress. Raises BadBundle."""
        checker = BundleChecker()
        try:
            for number, line in enumerate(_lines(source)):
                self._add(line, checker.check(line))
                if number % _LINES_PER_STEP == 0:
                    yield
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise BadBundle("it is damaged or incomplete; copy the whole file again") from error
        if not checker.is_complete:
            raise BadBundle("its end is missing; copy the whole file again")

    def entries(self, number: int, after: int = 0) -> Iterator[Entry]:
        """Yield the entries of a session after a seq. `number` is its index in `sessions`."""
        offset, left = self._offsets[number], self.sessions[number].entries
        while left:
            # Several iterators may share the file, so each one seeks before it reads.
            self._file.seek(offset)
            lines = self._file.readlines(_READ_BYTES)[:left]
            offset += sum(map(len, lines))
            left -= len(lines)
            yield from map(parse_entry, lines[after:])
            after = max(0, after - len(lines))

    def _add(self, line: bytes, session: SessionLine | None) -> None:
        self._size += self._file.write(line)
        if session is not None:
            self.sessions.append(session)
            self._offsets.append(self._size)
        if len(self.sessions) > _MAX_SESSIONS or self._size > _MAX_BYTES:
            raise BadBundle("it is too large")

    def close(self) -> None:
        """Close and remove the temporary file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lines(source: io.BufferedReader) -> Iterator[bytes]:
    if source.peek(len(_GZIP_MAGIC))[: len(_GZIP_MAGIC)] == _GZIP_MAGIC:
        with gzip.open(source) as unpacked:
            yield from _bounded_lines(unpacked)
    else:
        yield from _bounded_lines(source)


def _bounded_lines(file: io.BufferedIOBase) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE_BYTES):
        if len(line) == MAX_LINE_BYTES:
            raise BadBundle("it has a line that does not end")
        yield line
