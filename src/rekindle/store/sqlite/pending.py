"""Pending files: changes that could not be written to the store yet.

A pending file lies beside the store, and its owner appends to it. The owner locks it as long as it
lives; the kernel releases the lock however the owner ends. Then the next process that gets the lock
applies the changes. The store counts the applied changes in the same transaction. So each change is
applied once, whichever process is killed at any moment.

The file starts with a magic line. Each change follows as its length, a checksum, and its data. The
last one may be torn; then no client has seen it. If a change is damaged and others follow, the
others are applied, the loss is reported, and the file is kept under another name for the user.

The first changes of each leased session have a mark with the lease before them (`LeaseMark`). If
another process has acquired the lease since, the changes go to a branch of the session.

A write whose result is unknown has a mark before its changes (see `UncertainWrite`). If the store
has the changes already, they are not applied.
"""

import os
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import msgspec

from rekindle.errors import StoreError, StoreUnavailable
from rekindle.model import (
    AgentArchived,
    AgentObserved,
    AgentSaved,
    Archived,
    Change,
    Counted,
    Deleted,
    EntryBatch,
    Forgotten,
    Forked,
    Imported,
    Opened,
    Titled,
    Truncated,
)
from rekindle.store.base import (
    LeaseMark,
    PendingChange,
    PendingInfo,
    Reporter,
    Store,
    UncertainWrite,
    not_applied,
)
from rekindle.store.fencing import PendingBranches
from rekindle.store.sqlite.filelock import FileLock, is_held
from rekindle.store.sqlite.files import make_private_file, pending_files, pending_path
from rekindle.store.sqlite.schema import Database
from rekindle.store.sqlite.wal import wal_path

MAGIC = b"rekindle pending 1\n"

_DAMAGED = ".damaged"
_HEAD = struct.Struct(">II")
_TIMEOUT = 1.0
_ATTEMPTS = 3

_encode = msgspec.msgpack.Encoder().encode
_decode_pair = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw]).decode
# The tags are stored in pending files, so they never change, even if a class is renamed.
_TAGS: dict[type[PendingChange], str] = {
    EntryBatch: "Stretch",
    Opened: "Opened",
    Titled: "Titled",
    Counted: "Tallied",
    Deleted: "Deleted",
    Archived: "Archived",
    AgentArchived: "AgentArchived",
    Forked: "Forked",
    Imported: "Imported",
    Truncated: "Truncated",
    AgentSaved: "AgentSaved",
    AgentObserved: "AgentObserved",
    Forgotten: "Forgotten",
    UncertainWrite: "Uncertain",
    LeaseMark: "Lease",
}
_decode: dict[str, Callable[[Any], PendingChange]] = {
    tag: msgspec.msgpack.Decoder(kind).decode for kind, tag in _TAGS.items()
}
# Has no effect, and keeps the place of a change that cannot be encoded.
_NOTHING = UncertainWrite(session_id="", at_us=0, changes=0)
# The first bytes of a change: an array of two, whose first element is a short string.
_PREFIXES = [b"\x92" + _encode(tag) for tag in _TAGS.values()]
_PREFIX = re.compile(b"|".join(map(re.escape, _PREFIXES)))
_MAX_PREFIX = max(map(len, _PREFIXES))
_READ_BYTES = 1 << 20

_APPLIED = "select taken, at_us from pending where token = ?"
_REMEMBER = "insert or replace into pending values (?, ?, ?)"
_PURGED = """
    select deleted_us from session
    where id = ? and deleted_us is not null and cwd is null and turns + messages = 0
"""


class PendingFile:
    """The pending file of one process. Its methods raise OSError."""

    def __init__(self, store: Path, token: str | None = None) -> None:
        self.token = token or os.urandom(16).hex()
        self.path = pending_path(store, self.token)
        self.entries = 0
        self._lock = self._create()
        self._fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        self._is_name_synced = False
        self._end = 0
        # The entries before these are in the WAL, perhaps not synced. Otherwise a crash of the
        # machine could keep the later ones and lose the earlier ones.
        with suppress(OSError):
            _sync_file(wal_path(store))
        try:
            self._write(MAGIC)
        except OSError:
            self.remove()
            raise

    @property
    def location(self) -> str:
        """The path of the file."""
        return str(self.path)

    def _create(self) -> FileLock:
        for _ in range(_ATTEMPTS):
            make_private_file(self.path)
            lock = FileLock(self.path)
            # A process that saw it before it was locked may have removed it as abandoned.
            if lock.acquire(_TIMEOUT) and lock.is_of(self.path):
                return lock
            lock.close()
        raise OSError(f"{self.path} was removed while it was created")

    def add(self, changes: Sequence[PendingChange]) -> list[str]:
        """Append changes, all or none; return why some of them can never be applied."""
        wrong: list[str] = []
        records: list[bytes] = []
        entries = 0
        for change in changes:
            try:
                records.append(_encode_record(change))
            except (ValueError, OverflowError) as error:
                records.append(_encode_record(_NOTHING))
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
        """Make the changes survive a crash of the machine."""
        os.fsync(self._fd)
        if not self._is_name_synced:
            _sync_file(self.path.parent)
            self._is_name_synced = True

    @property
    def is_empty(self) -> bool:
        """Whether there are no changes."""
        return self._end == len(MAGIC)

    def changes(self) -> Iterator[PendingChange]:
        """Yield all changes, from the first. The file may have lost its name since."""
        return _changes_in(self._fd, self.path)

    def remove(self) -> None:
        """Remove the file."""
        try:
            _remove(self.path)
        finally:
            self.leave()

    def leave(self) -> None:
        """Unlock the file, so that the next process that opens the store applies it."""
        os.close(self._fd)
        self._lock.close()


def pending_infos(store: Path) -> list[PendingInfo]:
    """Return the pending files beside a store. Nothing is changed."""
    return [info for info in map(_info, pending_files(store)) if info is not None]


def apply_abandoned(path: Path, store: Store, report: Reporter) -> None:
    """Apply the pending files whose owners have ended; report losses.

    Raises StoreUnavailable. Then the store must not be used: new entries would come before older
    ones. A file that cannot be read does not stop the others.
    """
    files = [file for file in pending_files(path) if file.suffix != _DAMAGED]
    for file in sorted(files, key=_modified_at):
        try:
            _apply_file(file, store, report)
        except StoreUnavailable:
            raise
        except (StoreError, OSError):
            continue


def apply_once(
    branches: PendingBranches,
    db: Database,
    token: str,
    changes: Iterable[PendingChange],
    apply: Callable[[Change], None],
) -> list[str]:
    """Implement `Store.apply_pending`. Call it inside a transaction of the store on `db`."""
    rows = db.execute(_APPLIED, (token,)).fetchall()
    before, at_us = rows[0] if rows else (0, 0)
    applied = before
    wrong: list[str] = []
    purged: dict[str, int] = {}
    for change in not_applied(branches.store, branches.skip(changes, before)):
        applied += 1
        if change is None:
            continue
        if isinstance(change, LeaseMark):
            branches.note(change)
            continue
        at_us, id_ = change.at_us, change.session_id
        try:
            if id_ not in purged:
                found = db.execute(_PURGED, (id_,)).fetchall()
                purged[id_] = found[0][0] if found else -1
            if change.at_us > purged[id_]:
                for it in branches.redirect(change):
                    apply(it)
        except (apsw.Error, OSError, StoreUnavailable):
            raise
        except Exception as error:  # noqa: BLE001 - one bad change must not stop the others
            wrong.append(repr(error))
    if applied > before:
        db.execute(_REMEMBER, (token, applied, at_us))
    return wrong


# -- files ------------------------------------------------------------------------------


def _info(file: Path) -> PendingInfo | None:
    try:
        # The lock comes first: the file of an owner that ends after this is still complete.
        is_alive = is_held(file)
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        return PendingInfo(
            str(file), is_alive=False, entries=0, sessions=frozenset(), problem=str(error)
        )
    entries, sessions, problem = 0, set[str](), ""
    try:
        for change in _changes_in(fd, file):
            if not isinstance(change, UncertainWrite):
                sessions.add(change.session_id)
            entries += change.count if isinstance(change, EntryBatch) else 0
    except (StoreError, OSError) as error:
        problem = str(error)
    finally:
        os.close(fd)
    is_leftover = file.suffix == _DAMAGED
    return PendingInfo(str(file), is_alive, entries, frozenset(sessions), problem, is_leftover)


def _apply_file(file: Path, store: Store, report: Reporter) -> None:
    lock = FileLock(file)
    try:
        if not lock.acquire(0) or not lock.is_of(file):
            # Its owner lives, or another process applies it now or has just done so.
            return
        token = file.name.rpartition("-")[2]
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        damaged: list[int] = []
        try:
            wrong = store.apply_pending(token, _changes_in(fd, file, damaged))
        finally:
            os.close(fd)
        if wrong or damaged:
            kept = file.rename(file.with_name(file.name + _DAMAGED))
            _sync_file(kept.parent)
            number = len(wrong) + len(damaged)
            places = "1 place" if number == 1 else f"{number} places"
            report(f"some pending changes could not be recorded: {kept} is damaged in {places}")
        else:
            _remove(file)
    finally:
        lock.close()
    with suppress(StoreError):
        store.forget_pending(token)


def _encode_record(change: PendingChange) -> bytes:
    data = _encode((_TAGS[type(change)], change))
    return _HEAD.pack(len(data), zlib.crc32(data)) + data


def _changes_in(fd: int, path: Path, damaged: list[int] | None = None) -> Iterator[PendingChange]:
    """Yield the intact changes of a file; add the offsets of damaged ones to `damaged`.

    Raises StoreError if the file has another format.
    """
    size = os.fstat(fd).st_size
    if size < len(MAGIC):
        return
    if os.pread(fd, len(MAGIC), 0) != MAGIC:
        raise StoreError(
            f"{path} was not written by this Rekindle, nor by an older one; upgrade Rekindle"
        )
    at: int | None = len(MAGIC)
    while at is not None:
        data = _data_at(fd, at, size)
        if data is not None:
            yield _decode_change(data, path)
            at += _HEAD.size + len(data)
            continue
        before, at = at, _next_intact(fd, at, size)
        if at is not None and damaged is not None:
            damaged.append(before)


def _data_at(fd: int, at: int, size: int) -> bytes | None:
    """Return the data of the change at an offset, if it is intact."""
    head = os.pread(fd, _HEAD.size, at)
    if len(head) < _HEAD.size:
        return None
    length, checksum = _HEAD.unpack(head)
    # A change that was being written when the machine crashed may consist of zeros.
    if not 0 < length <= size - at - _HEAD.size:
        return None
    data = os.pread(fd, length, at + _HEAD.size)
    return data if zlib.crc32(data) == checksum else None


def _next_intact(fd: int, after: int, size: int) -> int | None:
    """Return the offset of the next intact change. Without one, the end was torn."""
    at = after + _HEAD.size
    while piece := os.pread(fd, _READ_BYTES, at):
        for match in _PREFIX.finditer(piece):
            offset = at + match.start() - _HEAD.size
            if offset > after and _data_at(fd, offset, size) is not None:
                return offset
        # A prefix may span the end of this piece.
        at += max(1, len(piece) - _MAX_PREFIX)
    return None


def _decode_change(data: bytes, path: Path) -> PendingChange:
    try:
        kind, fields = _decode_pair(data)
        return _decode[kind](fields)
    except (msgspec.DecodeError, KeyError) as error:
        raise StoreError(f"{path} was written by a newer Rekindle; upgrade this one") from error


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
    # Synced before the count of applied changes is removed: a crash must not bring the file back.
    _sync_file(file.parent)


def _sync_file(path: Path) -> None:
    """Sync a file, or the names in a folder."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _modified_at(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
