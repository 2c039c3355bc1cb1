"""A bundle on its way in: checked from its first line to its last before anything is taken of it.

It is laid out in a file of its own that nobody else sees, because it may come through a pipe, is
mostly compressed, and is read more than once.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import IO, Self

from rekindle.errors import BadBundle
from rekindle.model import Entry
from rekindle.transfer.bundle_format import LONGEST_LINE, Checker, SessionLine, entry_in

_MOST_BYTES = 64 * 1024**3
_MOST_SESSIONS = 1_000_000
_LINES_A_STEP = 1000
_BYTES_A_READ = 64 * 1024
_GZIP = b"\x1f\x8b"


class Spool:
    """A bundle that can be read at any place, once it was filled."""

    def __init__(self) -> None:
        self._file: IO[bytes] = TemporaryFile()  # noqa: SIM115 - closed by `close`
        self.sessions: list[SessionLine] = []
        self._places: list[int] = []
        self._size = 0

    def fill(self, source: io.BufferedReader) -> Iterator[None]:
        """Take in a bundle, step by step, and check it. Raises BadBundle."""
        checker = Checker()
        try:
            for number, line in enumerate(_lines(source)):
                self._keep(line, checker.look(line))
                if number % _LINES_A_STEP == 0:
                    yield
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise BadBundle("it is damaged, or was not copied whole") from error
        if not checker.is_whole:
            raise BadBundle("its end is missing: was it copied whole?")

    def entries(self, number: int, after: int = 0) -> Iterator[Entry]:
        """Yield the entries of a session after a seq; `number` is its place in `sessions`."""
        place, left = self._places[number], self.sessions[number].entries
        while left:
            # Whoever reads may stop, and another begin, at any time.
            self._file.seek(place)
            lines = self._file.readlines(_BYTES_A_READ)[:left]
            place += sum(map(len, lines))
            left -= len(lines)
            yield from map(entry_in, lines[after:])
            after = max(0, after - len(lines))

    def _keep(self, line: bytes, session: SessionLine | None) -> None:
        self._size += self._file.write(line)
        if session is not None:
            self.sessions.append(session)
            self._places.append(self._size)
        if len(self.sessions) > _MOST_SESSIONS or self._size > _MOST_BYTES:
            raise BadBundle("it is too large")

    def close(self) -> None:
        """Let go of the file; nothing is left of it."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lines(source: io.BufferedReader) -> Iterator[bytes]:
    if source.peek(len(_GZIP))[: len(_GZIP)] == _GZIP:
        with gzip.open(source) as unpacked:
            yield from _bounded(unpacked)
    else:
        yield from _bounded(source)


def _bounded(file: io.BufferedIOBase) -> Iterator[bytes]:
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise BadBundle("it has a line without an end")
        yield line
