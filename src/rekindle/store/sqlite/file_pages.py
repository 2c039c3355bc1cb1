"""Read a database page by page, without its trees: for a file that SQLite cannot read.

Rows are stored in leaf pages. A leaf can be read by itself, with the overflow pages of its long
rows. So however much is damaged, the rows on intact pages are found. The format is described in
https://sqlite.org/fileformat2.html. This module does not know what rows mean, and changes nothing.
"""

import os
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Self

from msgspec import Struct

from rekindle.store.sqlite.wal import PAGE, committed_pages, wal_path

Value = int | float | str | bytes | None
"""Text that is not UTF-8 stays bytes."""

Row = tuple[int, tuple[Value, ...]]
"""A row of a table: its rowid, and its columns."""

_FILE_HEADER = 100
_MAX_VARINT = 9
_CONTINUES = 0x80
_LENGTHS = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
_FLOAT, _ZERO, _ONE, _FIRST_BLOB = 7, 8, 9, 12


class PageContent(Struct, frozen=True, kw_only=True):
    """The content of a page. Which list is filled depends on the type of the page."""

    rows: list[Row] = []
    """The rows on a leaf of a table."""
    index_rows: list[tuple[Value, ...]] = []
    """The rows on a page of an index: the columns, and the rowid as the last one."""
    separators: list[int] = []
    """The rowids that separate the leaves of a table, on a page above them."""


class _Malformed(Exception):
    """Something does not follow the format. It never leaves this module."""


class DatabaseImage:
    """The pages of a database as they would be after a checkpoint of its WAL."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._wal_fd: int | None = None
        self._in_wal: dict[int, int] = {}
        self.count = -(-os.fstat(self._fd).st_size // PAGE)
        if wal_path(path).is_file():
            self._wal_fd = os.open(wal_path(path), os.O_RDONLY | os.O_CLOEXEC)
            self._in_wal, count = committed_pages(self._wal_fd)
            self.count = count or self.count

    def page(self, number: int) -> bytes:
        """Return a page, padded with zeros if the file is too short."""
        offset = self._in_wal.get(number)
        if offset is not None and self._wal_fd is not None:
            return os.pread(self._wal_fd, PAGE, offset)
        return os.pread(self._fd, PAGE, (number - 1) * PAGE).ljust(PAGE, b"\0")

    def close(self) -> None:
        """Close the files."""
        os.close(self._fd)
        if self._wal_fd is not None:
            os.close(self._wal_fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_page(image: DatabaseImage, number: int) -> PageContent:
    """Return the readable content of a page of any type."""
    page, start = image.page(number), _FILE_HEADER if number == 1 else 0
    match page[start]:
        case 0x0D:
            return PageContent(rows=_table_rows(image, page, start))
        case 0x05:
            return PageContent(separators=_separators(page, start))
        case 0x0A:
            return PageContent(index_rows=_index_rows(image, page, start, is_leaf=True))
        case 0x02:
            return PageContent(index_rows=_index_rows(image, page, start, is_leaf=False))
        case _:
            return PageContent()


def _table_rows(image: DatabaseImage, page: bytes, start: int) -> list[Row]:
    rows: list[Row] = []
    for at in _cells(page, start, 8):
        try:
            size, begin = _varint(page, at)
            rowid, begin = _varint(page, begin)
            payload = _payload(image, page, begin, size, PAGE - 35)
            rows.append((_signed(rowid), _record(payload)))
        except _Malformed:
            continue
    return _ascending(rows)


def _index_rows(
    image: DatabaseImage, page: bytes, start: int, *, is_leaf: bool
) -> list[tuple[Value, ...]]:
    rows: list[tuple[Value, ...]] = []
    for at in _cells(page, start, 8 if is_leaf else 12):
        try:
            size, begin = _varint(page, at if is_leaf else at + 4)
            payload = _payload(image, page, begin, size, (PAGE - 12) * 64 // 255 - 23)
            rows.append(_record(payload))
        except _Malformed:
            continue
    return rows


def _separators(page: bytes, start: int) -> list[int]:
    found: list[int] = []
    for at in _cells(page, start, 12):
        try:
            found.append(_varint(page, at + 4)[0])
        except _Malformed:
            continue
    is_valid = all(one < other for one, other in pairwise(found))
    return found if is_valid else []


def _cells(page: bytes, start: int, header: int) -> Iterator[int]:
    """Yield the offsets of the cells of a page."""
    first = start + header
    count = min(_number(page, start + 3, 2), (PAGE - first) // 2)
    for at in range(first, first + 2 * count, 2):
        offset = _number(page, at, 2)
        if first + 2 * count <= offset < PAGE:
            yield offset


def _payload(image: DatabaseImage, page: bytes, begin: int, size: int, most: int) -> bytes:
    """Return the payload of a cell, including its overflow pages."""
    if size > image.count * PAGE:
        raise _Malformed
    local = size if size <= most else _local(size, most)
    if begin + local > PAGE:
        raise _Malformed
    if local == size:
        return page[begin : begin + size]
    pieces, left = [page[begin : begin + local]], size - local
    number, seen = _number(page, begin + local, 4), set[int]()
    while left:
        if not 1 < number <= image.count or number in seen:
            raise _Malformed
        seen.add(number)
        more = image.page(number)
        pieces.append(more[4 : 4 + left])
        left -= len(pieces[-1])
        number = _number(more, 0, 4)
    if number:
        raise _Malformed
    return b"".join(pieces)


def _local(size: int, most: int) -> int:
    """Return how much of a long payload is stored in its cell."""
    least = (PAGE - 12) * 32 // 255 - 23
    fitting = least + (size - least) % (PAGE - 4)
    return fitting if fitting <= most else least


def _record(payload: bytes) -> tuple[Value, ...]:
    header, at = _varint(payload, 0)
    if not at <= header <= len(payload):
        raise _Malformed
    values: list[Value] = []
    begin = header
    while at < header:
        kind, at = _varint(payload, at)
        if kind >= _FIRST_BLOB:
            end = begin + (kind - _FIRST_BLOB) // 2
        elif kind < len(_LENGTHS):
            end = begin + _LENGTHS[kind]
        else:
            raise _Malformed
        if end > len(payload):
            raise _Malformed
        values.append(_value(kind, payload[begin:end]))
        begin = end
    if begin != len(payload) or at != header:
        raise _Malformed
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
        # None of our columns is a float.
        return float("nan")
    if kind in {_ZERO, _ONE}:
        return kind - _ZERO
    return int.from_bytes(data, "big", signed=True) if data else None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and the offset after it."""
    # Most have one byte.
    if at < len(data) and data[at] < _CONTINUES:
        return data[at], at + 1
    value = 0
    for index in range(at, min(at + _MAX_VARINT, len(data))):
        byte = data[index]
        if index == at + _MAX_VARINT - 1:
            return value << 8 | byte, index + 1
        value = value << 7 | byte & 0x7F
        if byte < _CONTINUES:
            return value, index + 1
    raise _Malformed


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _number(data: bytes, at: int, length: int) -> int:
    return int.from_bytes(data[at : at + length], "big")


def _ascending(rows: list[Row]) -> list[Row]:
    """Return the longest ascending subsequence of rows. On an intact page it is all rows."""
    if all(one[0] < other[0] for one, other in pairwise(rows)):
        return rows
    # For each length: the lowest rowid that ends such a sequence. `before` links each row back.
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
