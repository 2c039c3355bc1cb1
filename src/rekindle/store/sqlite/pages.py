"""A SQLite file, read page by page and without its trees: for a file that SQLite cannot read.

Rows lie in leaves, and a leaf needs nothing but itself to be read, and the pages on which its long
rows go on. So however much is damaged, what lies on sound pages is found. The format is that of
https://sqlite.org/fileformat2.html. Nothing here knows what rows mean, and nothing is changed.
"""

import os
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Self

from msgspec import Struct

from rekindle.store.sqlite.wal import PAGE, committed_pages, log_path

Value = int | float | str | bytes | None
"""A text that is no UTF-8 stays bytes."""

Row = tuple[int, tuple[Value, ...]]
"""A row of a table: its number, and its columns."""

_HEADER_OF_FILE = 100
_LONGEST_VARINT = 9
_GOES_ON = 0x80
_LENGTHS = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
_FLOAT, _ZERO, _ONE, _FIRST_BLOB = 7, 8, 9, 12


class Found(Struct, frozen=True, kw_only=True):
    """What a page has, by what it is."""

    rows: list[Row] = []
    """On the leaf of a table."""
    indexed: list[tuple[Value, ...]] = []
    """On any page of an index: its columns; the last is the number of the row."""
    divisions: list[int] = []
    """Above the leaves of a table: the numbers of rows that part them."""


class _Senseless(Exception):
    """What was read is no such thing. It never leaves this module."""


class Image:
    """The pages of a database as they are when its log is brought into it."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._log_fd: int | None = None
        self._in_log: dict[int, int] = {}
        self.count = -(-os.fstat(self._fd).st_size // PAGE)
        if log_path(path).is_file():
            self._log_fd = os.open(log_path(path), os.O_RDONLY | os.O_CLOEXEC)
            self._in_log, count = committed_pages(self._log_fd)
            self.count = count or self.count

    def page(self, number: int) -> bytes:
        """Return a page; what is not there any more is zeros."""
        place = self._in_log.get(number)
        if place is not None and self._log_fd is not None:
            return os.pread(self._log_fd, PAGE, place)
        return os.pread(self._fd, PAGE, (number - 1) * PAGE).ljust(PAGE, b"\0")

    def close(self) -> None:
        """Let go of the files."""
        os.close(self._fd)
        if self._log_fd is not None:
            os.close(self._log_fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_page(image: Image, number: int) -> Found:
    """Return what can be read on a page, whatever it is."""
    page, start = image.page(number), _HEADER_OF_FILE if number == 1 else 0
    match page[start]:
        case 0x0D:
            return Found(rows=_table_rows(image, page, start))
        case 0x05:
            return Found(divisions=_divisions(page, start))
        case 0x0A:
            return Found(indexed=_index_rows(image, page, start, is_leaf=True))
        case 0x02:
            return Found(indexed=_index_rows(image, page, start, is_leaf=False))
        case _:
            return Found()


def _table_rows(image: Image, page: bytes, start: int) -> list[Row]:
    rows: list[Row] = []
    for at in _cells(page, start, 8):
        try:
            size, begin = _varint(page, at)
            rowid, begin = _varint(page, begin)
            payload = _payload(image, page, begin, size, PAGE - 35)
            rows.append((_signed(rowid), _record(payload)))
        except _Senseless:
            continue
    return _ascending(rows)


def _index_rows(image: Image, page: bytes, start: int, *, is_leaf: bool) -> list[tuple[Value, ...]]:
    rows: list[tuple[Value, ...]] = []
    for at in _cells(page, start, 8 if is_leaf else 12):
        try:
            size, begin = _varint(page, at if is_leaf else at + 4)
            payload = _payload(image, page, begin, size, (PAGE - 12) * 64 // 255 - 23)
            rows.append(_record(payload))
        except _Senseless:
            continue
    return rows


def _divisions(page: bytes, start: int) -> list[int]:
    found: list[int] = []
    for at in _cells(page, start, 12):
        try:
            found.append(_varint(page, at + 4)[0])
        except _Senseless:
            continue
    is_sound = all(one < other for one, other in pairwise(found))
    return found if is_sound else []


def _cells(page: bytes, start: int, header: int) -> Iterator[int]:
    """Yield where the cells of a page begin."""
    first = start + header
    count = min(_number(page, start + 3, 2), (PAGE - first) // 2)
    for at in range(first, first + 2 * count, 2):
        place = _number(page, at, 2)
        if first + 2 * count <= place < PAGE:
            yield place


def _payload(image: Image, page: bytes, begin: int, size: int, most: int) -> bytes:
    """Return what a cell holds, also where it goes on on other pages."""
    if size > image.count * PAGE:
        raise _Senseless
    local = size if size <= most else _local(size, most)
    if begin + local > PAGE:
        raise _Senseless
    if local == size:
        return page[begin : begin + size]
    pieces, left = [page[begin : begin + local]], size - local
    number, seen = _number(page, begin + local, 4), set[int]()
    while left:
        if not 1 < number <= image.count or number in seen:
            raise _Senseless
        seen.add(number)
        more = image.page(number)
        pieces.append(more[4 : 4 + left])
        left -= len(pieces[-1])
        number = _number(more, 0, 4)
    if number:
        raise _Senseless
    return b"".join(pieces)


def _local(size: int, most: int) -> int:
    """Return how much of a long payload lies in its cell."""
    least = (PAGE - 12) * 32 // 255 - 23
    fitting = least + (size - least) % (PAGE - 4)
    return fitting if fitting <= most else least


def _record(payload: bytes) -> tuple[Value, ...]:
    header, at = _varint(payload, 0)
    if not at <= header <= len(payload):
        raise _Senseless
    values: list[Value] = []
    begin = header
    while at < header:
        kind, at = _varint(payload, at)
        if kind >= _FIRST_BLOB:
            end = begin + (kind - _FIRST_BLOB) // 2
        elif kind < len(_LENGTHS):
            end = begin + _LENGTHS[kind]
        else:
            raise _Senseless
        if end > len(payload):
            raise _Senseless
        values.append(_value(kind, payload[begin:end]))
        begin = end
    if begin != len(payload) or at != header:
        raise _Senseless
    return tuple(values)


def _value(kind: int, data: bytes) -> Value:
    if kind >= _FIRST_BLOB:
        if kind % 2 == 0:
            return data
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data
    if kind == _FLOAT:
        # No column of ours is one.
        return float("nan")
    if kind in {_ZERO, _ONE}:
        return kind - _ZERO
    return int.from_bytes(data, "big", signed=True) if data else None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and where it ends."""
    # Most are this short.
    if at < len(data) and data[at] < _GOES_ON:
        return data[at], at + 1
    value = 0
    for index in range(at, min(at + _LONGEST_VARINT, len(data))):
        byte = data[index]
        if index == at + _LONGEST_VARINT - 1:
            return value << 8 | byte, index + 1
        value = value << 7 | byte & 0x7F
        if byte < _GOES_ON:
            return value, index + 1
    raise _Senseless


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _number(data: bytes, at: int, length: int) -> int:
    return int.from_bytes(data[at : at + length], "big")


def _ascending(rows: list[Row]) -> list[Row]:
    """Return the most rows that are in order, as all of them are on a sound page."""
    if all(one[0] < other[0] for one, other in pairwise(rows)):
        return rows
    # The row with the lowest number that ends a sequence of that length, and what is before each.
    ends: list[int] = []
    lowest: list[int] = []
    before: list[int | None] = []
    for index, (number, _) in enumerate(rows):
        length = bisect_left(lowest, number)
        before.append(ends[length - 1] if length else None)
        lowest[length : length + 1] = [number]
        ends[length : length + 1] = [index]
    kept: list[Row] = []
    at: int | None = ends[-1]
    while at is not None:
        kept.append(rows[at])
        at = before[at]
    return kept[::-1]
