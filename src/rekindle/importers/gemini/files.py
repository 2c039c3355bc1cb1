"""The files of a session, as records one after the other, whatever they are written as.

Today a record is a line. Older versions wrote one object, with all messages in a list, and wrote
it anew each time: two blanks for each step inwards, so that a message begins and ends with a line
of its own. A session may have several files, and some are written to at the same time: their
records are told in the order in which they were written, as far as that can be seen.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import chain
from pathlib import Path

import msgspec
from msgspec import MsgspecError, Struct

from rekindle.importers.entry_builder import Clock
from rekindle.importers.gemini.records import Mark, read_mark
from rekindle.importers.line_reader import LONGEST, Lines

_MEMBER = b'  "'
_MESSAGES = b'  "messages"'
_BEGIN = b"    {"
_END = b"    }"


class File(Struct, frozen=True):
    """A file as it was when it was looked at: what is written to it meanwhile does not count."""

    path: Path
    size: int

    @property
    def is_one_object(self) -> bool:
        """Whether it is of the older kind."""
        return self.path.suffix == ".json"


def sized(paths: Sequence[Path]) -> list[File]:
    """Look at files."""
    return [File(path, path.stat().st_size) for path in paths]


class Records:
    """The records of one file."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._lines = Lines(file.path, end=file.size)
        self.too_long = 0
        self.sha256 = ""
        """Of all of it, once it is read."""

    @property
    def done(self) -> int:
        """How far the file is read."""
        return self._lines.done

    def each(self) -> Iterator[bytes]:
        """Yield each record."""
        checksum, lines = self._lines.hashed()
        texts = (line for _, line in lines)
        yield from self._of_object(texts) if self._file.is_one_object else texts
        self.too_long += self._lines.too_long
        self.sha256 = checksum.words

    def _of_object(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        first, second = next(lines, b""), next(lines, b"")
        if first.rstrip() == b"{" and second.startswith(_MEMBER):
            yield from self._by_indent(second, lines)
        else:
            yield from self._joined([first, second], lines)

    def _by_indent(self, second: bytes, lines: Iterator[bytes]) -> Iterator[bytes]:
        is_in_list = False
        for line in chain([second], lines):
            if line.startswith(_MEMBER):
                is_in_list = line.startswith(_MESSAGES)
                member = line.rstrip(b"\r, ")
                if not member.endswith((b"[", b"{")):
                    yield b"{%b}" % member
            elif is_in_list and line.startswith(_BEGIN):
                yield from self._joined([line], _until_end(lines))

    def _joined(self, held: list[bytes], lines: Iterator[bytes]) -> Iterator[bytes]:
        size = sum(map(len, held))
        for line in lines:
            size += len(line)
            if size <= LONGEST:
                held.append(line)
            else:
                held.clear()
        if size > LONGEST:
            self.too_long += 1
        else:
            yield _compact(b" ".join(held).rstrip(b"\r, "))


def _compact(record: bytes) -> bytes:
    """Return a record as it would stand on a line: parts of it are passed on as they are."""
    try:
        return msgspec.json.format(record, indent=-1)
    except (MsgspecError, RecursionError):
        return record


def _until_end(lines: Iterator[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield line
        if line.startswith(_END):
            return


class Read(Struct, frozen=True):
    """A record, and the file that it is from."""

    file: int
    line: bytes
    mark: Mark | None
    """None if it is none."""


def in_order(files: Sequence[Records]) -> Iterator[Read]:
    """Yield the records of all files in the order in which they were written."""
    if len(files) == 1:
        for line in files[0].each():
            yield Read(0, line, read_mark(line) if line else None)
        return
    timed = [_timed(number, records) for number, records in enumerate(files)]
    for _, read in merge(*timed, key=lambda it: it[0]):
        yield read


def _timed(number: int, records: Records) -> Iterator[tuple[int, Read]]:
    """Yield records with the time at which they were written, or a little before."""
    clock, now_us = Clock(), 0
    for line in records.each():
        mark = read_mark(line) if line else None
        if mark is not None:
            told = mark.timestamp or mark.last_updated or mark.start_time
            if mark.patch is not None:
                told = mark.patch.last_updated
            now_us = max(now_us, clock.read(told) or 0)
        yield now_us, Read(number, line, mark)


def again(files: Sequence[Records], order: Sequence[int]) -> Iterator[bytes]:
    """Yield the records once more, in an order that was found before."""
    if len(files) == 1:
        yield from files[0].each()
        return
    each = [records.each() for records in files]
    for number in order:
        yield next(each[number])
