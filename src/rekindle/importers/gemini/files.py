"""Read the files of a session as a sequence of records, in any of the tool's formats.

Today each record is a line. Older versions wrote one JSON object with all messages in a list, and
wrote it again for each change. It is indented by two spaces per level, so each message starts and
ends on a line of its own. A session may have several files, some of them written at the same time.
Their records are merged in the order in which they were written, as far as the times show it.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import chain
from pathlib import Path

import msgspec
from msgspec import MsgspecError, Struct

from rekindle.importers.entry_builder import TimestampParser
from rekindle.importers.gemini.records import GeminiRecordHead, read_record_head
from rekindle.importers.line_reader import MAX_LINE_BYTES, LineReader

_MEMBER = b'  "'
_MESSAGES = b'  "messages"'
_MESSAGE_START = b"    {"
_MESSAGE_END = b"    }"


class GeminiSourceFile(Struct, frozen=True):
    """A file with its size at the start of the import. Bytes that are added later are ignored."""

    path: Path
    size: int

    @property
    def is_one_object(self) -> bool:
        """Whether it has the older format."""
        return self.path.suffix == ".json"


def with_sizes(paths: Sequence[Path]) -> list[GeminiSourceFile]:
    """Return the files with their current sizes."""
    return [GeminiSourceFile(path, path.stat().st_size) for path in paths]


class GeminiRecordReader:
    """Reads the records of one file."""

    def __init__(self, file: GeminiSourceFile) -> None:
        self._file = file
        self._lines = LineReader(file.path, end=file.size)
        self.too_long = 0
        """The number of records that were skipped because of their length."""
        self.too_long_place = ""
        """The place of the first of them."""
        self.sha256 = ""
        """The checksum of the file, after all records were read."""

    @property
    def offset(self) -> int:
        """The offset up to which the file has been read."""
        return self._lines.offset

    def place(self) -> str:
        """Return the file and the number of the last line, for people."""
        return self._lines.place()

    def records(self) -> Iterator[bytes]:
        """Yield each record as one line of JSON."""
        checksum, numbered = self._lines.with_checksum()
        lines = (line for _, line in numbered)
        yield from self._object_records(lines) if self._file.is_one_object else lines
        self.too_long += self._lines.too_long
        self.too_long_place = self.too_long_place or self._lines.too_long_place
        self.sha256 = checksum.hexdigest

    def _object_records(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        first, second = next(lines, b""), next(lines, b"")
        if first.rstrip() == b"{" and second.startswith(_MEMBER):
            yield from self._indented_records(second, lines)
        else:
            yield from self._join([first, second], lines)

    def _indented_records(self, second: bytes, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Yield each member of the object, and each message, without decoding the whole."""
        is_in_messages = False
        for line in chain([second], lines):
            if line.startswith(_MEMBER):
                is_in_messages = line.startswith(_MESSAGES)
                member = line.rstrip(b"\r, ")
                if not member.endswith((b"[", b"{")):
                    yield b"{%b}" % member
            elif is_in_messages and line.startswith(_MESSAGE_START):
                yield from self._join([line], _until_message_end(lines))

    def _join(self, parts: list[bytes], lines: Iterator[bytes]) -> Iterator[bytes]:
        """Yield one record from its lines, unless it is too long."""
        size = sum(map(len, parts))
        for line in lines:
            size += len(line)
            if size <= MAX_LINE_BYTES:
                parts.append(line)
            else:
                parts.clear()
        if size > MAX_LINE_BYTES:
            self.too_long += 1
            self.too_long_place = self.too_long_place or self.place()
        else:
            yield _compact(b" ".join(parts).rstrip(b"\r, "))


def _compact(record: bytes) -> bytes:
    """Return a record without indentation, because undecoded parts of it go into entries."""
    try:
        return msgspec.json.format(record, indent=-1)
    except (MsgspecError, RecursionError):
        return record


def _until_message_end(lines: Iterator[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield line
        if line.startswith(_MESSAGE_END):
            return


class GeminiRecord(Struct, frozen=True):
    """A record, with the number of its file."""

    file: int
    line: bytes
    head: GeminiRecordHead | None
    """None if the record is not valid."""


def merge_records(readers: Sequence[GeminiRecordReader]) -> Iterator[GeminiRecord]:
    """Yield the records of all files in the order in which they were written."""
    if len(readers) == 1:
        for line in readers[0].records():
            yield GeminiRecord(0, line, read_record_head(line) if line else None)
        return
    timed = [_timed_records(number, reader) for number, reader in enumerate(readers)]
    for _, record in merge(*timed, key=lambda item: item[0]):
        yield record


def _timed_records(number: int, reader: GeminiRecordReader) -> Iterator[tuple[int, GeminiRecord]]:
    """Yield records with the time at which they were written, or a little earlier."""
    timestamps, now_us = TimestampParser(), 0
    for line in reader.records():
        head = read_record_head(line) if line else None
        if head is not None:
            timestamp = head.timestamp or head.last_updated or head.start_time
            if head.patch is not None:
                timestamp = head.patch.last_updated
            now_us = max(now_us, timestamps.parse(timestamp) or 0)
        yield now_us, GeminiRecord(number, line, head)


def replay_order(readers: Sequence[GeminiRecordReader], order: Sequence[int]) -> Iterator[bytes]:
    """Yield the records again, in the order that `merge_records` had found."""
    if len(readers) == 1:
        yield from readers[0].records()
        return
    records = [reader.records() for reader in readers]
    for number in order:
        yield next(records[number])
