"""What could not be recorded yet: a file beside the store, which its owner appends to.

As long as the owner lives, it holds the lock of its file; the kernel lets go of it however the
owner ends. Whoever has the lock then takes in what waits. How much was taken is noted in the store,
in the same transaction: so each change is recorded once, whoever is killed at whichever moment.

A file begins with a mark; each change then has its length, a checksum, and itself. The last one
may be torn: then nobody was told of it yet. If one is damaged and others follow, those are taken,
and the file is kept under another name: what it has lost is told, and perhaps a person can read it.
"""

import os
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from rekindle.errors import StoreError, StoreUnavailable
from rekindle.model import (
    Archived,
    Change,
    Counted,
    Deleted,
    EntryBatch,
    Forked,
    Opened,
    Titled,
)
from rekindle.store.address import pending_files, pending_path
from rekindle.store.base import Store
from rekindle.store.sqlite.connection import make_private_file
from rekindle.store.sqlite.filelock import FileLock, is_held
from rekindle.store.sqlite.schema import Database

MARK = b"rekindle pending 1\n"

_DAMAGED = ".damaged"
_HEAD = struct.Struct(">II")
_PATIENCE = 1.0
_ATTEMPTS = 3

_encode = msgspec.msgpack.Encoder().encode
_decode_pair = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw]).decode
# The tags stand in pending files: they stay as they are, whatever the classes are called.
_TAGS: dict[type[Change], str] = {
    EntryBatch: "Stretch",
    Opened: "Opened",
    Titled: "Titled",
    Counted: "Tallied",
    Deleted: "Deleted",
    Archived: "Archived",
    Forked: "Forked",
}
_decode: dict[str, Callable[[Any], Change]] = {
    tag: msgspec.msgpack.Decoder(kind).decode for kind, tag in _TAGS.items()
}
# How changes begin: an array of two, of which the first is a short text.
_BEGINNINGS = [b"\x92" + _encode(tag) for tag in _TAGS.values()]
_BEGINNING = re.compile(b"|".join(map(re.escape, _BEGINNINGS)))
_LONGEST_BEGINNING = max(map(len, _BEGINNINGS))
_READ = 1 << 20

_TAKEN = "select taken from pending where token = ?"
_REMEMBER = "insert or replace into pending values (?, ?, ?)"
_PURGED = """
    select deleted_us from session
    where id = ? and deleted_us is not null and cwd is null and turns + messages = 0
"""


class Pending:
    """The file of one who cannot record at the moment. Raises OSError."""

    def __init__(self, store: Path) -> None:
        self.token = os.urandom(16).hex()
        self.path = pending_path(store, self.token)
        self.entries = 0
        """How many entries wait."""
        self._lock = self._make()
        self._fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        self._is_name_synced = False
        self._end = 0
        try:
            self._write(MARK)
        except OSError:
            self.remove()
            raise

    def _make(self) -> FileLock:
        for _ in range(_ATTEMPTS):
            make_private_file(self.path)
            lock = FileLock(self.path)
            # Whoever saw it before it was locked may have taken it for a dead one's.
            if lock.acquire(_PATIENCE) and lock.is_of(self.path):
                return lock
            lock.close()
        raise OSError(f"{self.path} is removed as soon as it is made")

    def add(self, changes: Sequence[Change]) -> list[str]:
        """Append changes, all or none; say what is wrong with those that no store could take."""
        wrong: list[str] = []
        records: list[bytes] = []
        entries = 0
        for change in changes:
            try:
                records.append(_record(change))
            except (ValueError, OverflowError) as error:
                wrong.append(repr(error))
            else:
                entries += change.count if isinstance(change, EntryBatch) else 0
        self._write(b"".join(records))
        self.entries += entries
        return wrong

    def _write(self, data: bytes) -> None:
        left, at = memoryview(data), self._end
        try:
            while left:
                written = os.pwrite(self._fd, left, at)
                left, at = left[written:], at + written
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self._end)
            raise
        self._end = at

    def sync(self) -> None:
        """Let what waits outlive a crash of the machine."""
        os.fsync(self._fd)
        if not self._is_name_synced:
            _sync_folder(self.path)
            self._is_name_synced = True

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits in it."""
        return self._end == len(MARK)

    def changes(self) -> Iterator[Change]:
        """Yield what waits, from the beginning. The file may have lost its name since."""
        return _changes_in(self._fd, self.path)

    def remove(self) -> None:
        """Let nothing wait any more."""
        try:
            _remove(self.path)
        finally:
            self.leave()

    def leave(self) -> None:
        """Leave the file to whoever opens the store next."""
        os.close(self._fd)
        self._lock.close()


class Left(Struct, frozen=True):
    """A file in which something waits, as far as it can be read."""

    path: Path
    is_alive: bool
    """Whether its owner lives."""
    entries: int
    sessions: frozenset[str]
    why_not: str = ""
    """Why it cannot be read."""
    is_kept: bool = False
    """Whether it was taken in, and is only kept because not all of it could be."""


def left(store: Path) -> list[Left]:
    """Return the files beside a store in which something waits. Nothing is changed."""
    return [it for it in map(_look_at, pending_files(store)) if it is not None]


def take_in(path: Path, store: Store, tell: Callable[[str], object]) -> None:
    """Record what waits in files whose owners have ended; tell what is lost of it.

    Raises StoreUnavailable. Then nobody is to use the store: what is said next would come before
    what was said before. A file that cannot be read is in nobody's way.
    """
    files = [file for file in pending_files(path) if file.suffix != _DAMAGED]
    for file in sorted(files, key=_time_of):
        try:
            _take_in_file(file, store, tell)
        except StoreUnavailable:
            raise
        except (StoreError, OSError):
            continue


def take(
    db: Database, token: str, changes: Iterable[Change], apply: Callable[[Change], None]
) -> list[str]:
    """Do what `Store.take_pending` says. Call inside a transaction."""
    rows = db.execute(_TAKEN, (token,)).fetchall()
    taken, at_us = rows[0][0] if rows else 0, 0
    wrong: list[str] = []
    purged: dict[str, int] = {}
    for change in islice(changes, taken, None):
        taken, at_us, id_ = taken + 1, change.at_us, change.session_id
        try:
            if id_ not in purged:
                found = db.execute(_PURGED, (id_,)).fetchall()
                purged[id_] = found[0][0] if found else -1
            if change.at_us > purged[id_]:
                apply(change)
        except (apsw.Error, OSError, StoreUnavailable):
            raise
        except Exception as error:  # noqa: BLE001 - one that cannot be stored must not keep the rest
            wrong.append(repr(error))
    if at_us:
        db.execute(_REMEMBER, (token, taken, at_us))
    return wrong


# -- files ------------------------------------------------------------------------------


def _look_at(file: Path) -> Left | None:
    try:
        # The lock first: one whose owner has ended meanwhile is whole.
        is_alive = is_held(file)
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Left(file, is_alive=False, entries=0, sessions=frozenset(), why_not=str(error))
    entries, sessions, why_not = 0, set[str](), ""
    try:
        for change in _changes_in(fd, file):
            sessions.add(change.session_id)
            entries += change.count if isinstance(change, EntryBatch) else 0
    except (StoreError, OSError) as error:
        why_not = str(error)
    finally:
        os.close(fd)
    is_kept = file.suffix == _DAMAGED
    return Left(file, is_alive, entries, frozenset(sessions), why_not, is_kept)


def _take_in_file(file: Path, store: Store, tell: Callable[[str], object]) -> None:
    lock = FileLock(file)
    try:
        if not lock.acquire(0) or not lock.is_of(file):
            # Its owner lives, or another is at it, or was just before.
            return
        token = file.name.rpartition("-")[2]
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        damaged: list[int] = []
        try:
            wrong = store.take_pending(token, _changes_in(fd, file, damaged))
        finally:
            os.close(fd)
        if wrong or damaged:
            kept = file.rename(file.with_name(file.name + _DAMAGED))
            _sync_folder(kept)
            number = len(wrong) + len(damaged)
            places = "1 place" if number == 1 else f"{number} places"
            tell(f"not all that waited could be recorded: {kept} is damaged in {places}")
        else:
            _remove(file)
    finally:
        lock.close()
    with suppress(StoreError):
        store.drop_pending(token)


def _record(change: Change) -> bytes:
    data = _encode((_TAGS[type(change)], change))
    return _HEAD.pack(len(data), zlib.crc32(data)) + data


def _changes_in(fd: int, path: Path, damaged: list[int] | None = None) -> Iterator[Change]:
    """Yield the changes of a file that are whole, and note where others are damaged.

    Raises StoreError if it is of another kind.
    """
    size = os.fstat(fd).st_size
    if size < len(MARK):
        return
    if os.pread(fd, len(MARK), 0) != MARK:
        raise StoreError(f"{path} was not written by this Rekindle, nor by an older one")
    at: int | None = len(MARK)
    while at is not None:
        data = _data_at(fd, at, size)
        if data is not None:
            yield _change_in(data, path)
            at += _HEAD.size + len(data)
            continue
        before, at = at, _next_sound(fd, at, size)
        if at is not None and damaged is not None:
            damaged.append(before)


def _data_at(fd: int, at: int, size: int) -> bytes | None:
    """Return the change that begins there, if it is whole."""
    head = os.pread(fd, _HEAD.size, at)
    if len(head) < _HEAD.size:
        return None
    length, checksum = _HEAD.unpack(head)
    # What was only begun when the machine crashed may be nothing but zeros.
    if not 0 < length <= size - at - _HEAD.size:
        return None
    data = os.pread(fd, length, at + _HEAD.size)
    return data if zlib.crc32(data) == checksum else None


def _next_sound(fd: int, after: int, size: int) -> int | None:
    """Return where the next whole change begins. If there is none, it was a torn end."""
    at = after + _HEAD.size
    while piece := os.pread(fd, _READ, at):
        for found in _BEGINNING.finditer(piece):
            where = at + found.start() - _HEAD.size
            if where > after and _data_at(fd, where, size) is not None:
                return where
        # One may lie across the end of what was read.
        at += max(1, len(piece) - _LONGEST_BEGINNING)
    return None


def _change_in(data: bytes, path: Path) -> Change:
    try:
        kind, fields = _decode_pair(data)
        return _decode[kind](fields)
    except (msgspec.DecodeError, KeyError) as error:
        raise StoreError(f"{path} was written by a newer Rekindle: upgrade this one") from error


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
    # Before it is forgotten how much of it was taken: a crash must not bring it back.
    _sync_folder(file)


def _sync_folder(file: Path) -> None:
    fd = os.open(file.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _time_of(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
