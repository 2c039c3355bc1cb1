"""Read the write-ahead log (WAL) of a store frame by frame, also behind damaged frames.

SQLite reads its WAL up to the first invalid frame, where a process was killed or the power failed.
So one flipped bit hides all commits after it, and the next writer overwrites them. The format is
described in https://sqlite.org/fileformat2.html. Nothing is changed here.
"""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice, pairwise
from pathlib import Path

import apsw
from msgspec import Struct

from rekindle.store.sqlite.schema import Database

PAGE = 4096
"""The page size of our stores."""

_HEADER, _FRAME_HEADER = 32, 24
_FRAME = _FRAME_HEADER + PAGE
_MAGIC, _VERSION = 0x377F0682, 3007000
_FRAMES_TO_IDENTIFY_A_WAL = 1000
_MAX_ATTEMPTS = 10
_FRAMES_TO_SAMPLE, _STRIDE = 64, 16


class _Wal(Struct, frozen=True):
    """The values that all frames of a WAL share, and the start of its checksums."""

    byte_order: str
    salts: bytes
    first_checksum: bytes
    is_header_valid: bool
    """Otherwise the other fields were found by its frames."""


def wal_path(path: Path) -> Path:
    """Return the WAL of a store."""
    return path.with_name(path.name + "-wal")


def committed_pages(fd: int) -> tuple[dict[int, int], int]:
    """Return the offset of the last committed version of each page, and the number of pages.

    Each frame is validated by its own checksum, which continues that of the frame before. So a
    damaged frame does not invalidate the frames after it.
    """
    wal = _read_wal(fd)
    found: dict[int, int] = {}
    uncommitted: dict[int, int] = {}
    count = 0
    if wal is None:
        return found, count
    for at in _places(fd):
        frame = os.pread(fd, _FRAME, at)
        if _is_valid(fd, wal, at):
            uncommitted[_number(frame, 0)] = at + _FRAME_HEADER
            if size := _number(frame, 4):
                found.update(uncommitted)
                uncommitted.clear()
                count = size
    return found, count


def hides_commits(db: Database, path: Path) -> bool:
    """Return whether the WAL has commits after the place where SQLite assumes its end.

    A torn last commit does not count: its writer was stopped. Commits that failed do not count
    either. While other processes write, there may be a commit that SQLite does not know yet, so
    SQLite is asked again.
    """
    with _opened(wal_path(path)) as fd:
        if fd is None or os.fstat(fd).st_size < _HEADER + _FRAME:
            return False
        for _ in range(_MAX_ATTEMPTS):
            try:
                known = _known(db, fd)
                if not _has_commits_after(fd, known[0]):
                    return False
                if _known(db, fd) == known:
                    return True
            except apsw.BusyError:
                # A commit is under way, and SQLite does not wait for it here.
                continue
    return False


@contextmanager
def _opened(file: Path) -> Generator[int | None]:
    try:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def _known(db: Database, fd: int) -> tuple[int, bytes]:
    """Return the number of frames that SQLite knows, and the header of their WAL."""
    frames = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0]
    return max(0, frames), os.pread(fd, _HEADER, 0)


def _has_commits_after(fd: int, frames: int) -> bool:
    wal = _read_wal(fd)
    if wal is None or not (wal.is_header_valid or frames == 0):
        return False
    if not _may_continue(fd, wal, frames):
        return False
    marks = list(_commit_frames(fd, wal, frames))
    if not wal.is_header_valid:
        return any(_is_valid(fd, wal, at) for at in marks)
    if len(marks) <= 1:
        return False
    first = (at for at in _places(fd, frames) if at <= marks[0])
    bad = next((at for at in first if not _is_valid(fd, wal, at)), None)
    if bad is None:
        # All are valid, so SQLite would know them: a commit is under way, or the WAL was restarted.
        return False
    return any(
        _is_followed(fd, wal, one) and _is_valid(fd, wal, next_one)
        for one, next_one in pairwise(marks)
    )


def _is_followed(fd: int, wal: _Wal, at: int) -> bool:
    """Return whether the next frame was written after this one.

    Otherwise it is left from a commit that failed: the next commit has overwritten only a part.
    """
    after = at + _FRAME
    # The checksum in this frame may itself be damaged.
    return _is_valid(fd, wal, after) or _is_valid(fd, wal, after, _expected_checksum(fd, wal, at))


def _may_continue(fd: int, wal: _Wal, frames: int) -> bool:
    """Return whether more frames of this WAL may follow. Other frames are left from older WALs.

    There may be thousands of those, and every opening of the store comes through here.
    """
    places = _places(fd, frames)
    some = (*places[:_FRAMES_TO_SAMPLE], *places[_FRAMES_TO_SAMPLE::_STRIDE])
    return any(os.pread(fd, 8, at + 8) == wal.salts for at in some)


def _commit_frames(fd: int, wal: _Wal, frames: int) -> Iterator[int]:
    """Yield the offsets of frames that end a commit. Only the header of each is read."""
    for at in _places(fd, frames):
        header = os.pread(fd, 16, at)
        if header[8:] == wal.salts and header[4:8] != b"\0\0\0\0":
            yield at


def _places(fd: int, frames: int = 0) -> range:
    """Return the offsets of all complete frames, from a frame on."""
    return range(_HEADER + frames * _FRAME, os.fstat(fd).st_size - _FRAME + 1, _FRAME)


def _read_wal(fd: int) -> _Wal | None:
    header = os.pread(fd, _HEADER, 0)
    order = "big" if _number(header, 0) == _MAGIC + 1 else "little"
    if len(header) == _HEADER and _number(header, 0) & ~1 == _MAGIC:
        is_ours = _number(header, 4) == _VERSION and _number(header, 8) == PAGE
        if is_ours and _checksum(bytes(8), header[:24], order) == header[24:]:
            return _Wal(order, header[16:24], header[24:], is_header_valid=True)
    for at in islice(_places(fd), _FRAMES_TO_IDENTIFY_A_WAL):
        salts = os.pread(fd, 8, at + 8)
        for order in ("little", "big"):
            wal = _Wal(order, salts, header[24:].ljust(8, b"\0"), is_header_valid=False)
            if _is_valid(fd, wal, at):
                return wal
    return None


def _is_valid(fd: int, wal: _Wal, at: int, before: bytes | None = None) -> bool:
    """Return whether a frame has the right checksum, after that of the frame before."""
    frame = os.pread(fd, _FRAME, at)
    if len(frame) < _FRAME or frame[8:16] != wal.salts:
        return False
    return _expected_checksum(fd, wal, at, before) == frame[16:24]


def _expected_checksum(fd: int, wal: _Wal, at: int, before: bytes | None = None) -> bytes:
    if before is None:
        before = os.pread(fd, 8, at - _FRAME + 16) if at > _HEADER else wal.first_checksum
    frame = os.pread(fd, _FRAME, at)
    return _checksum(before, frame[:8] + frame[24:], wal.byte_order)


def _checksum(before: bytes, data: bytes, order: str) -> bytes:
    one, two = _number(before, 0), _number(before, 4)
    words = memoryview(data).cast("I")
    if order != _ORDER_HERE:
        swapped = bytearray(data)
        swapped[0::4], swapped[1::4], swapped[2::4], swapped[3::4] = (
            data[3::4], data[2::4], data[1::4], data[0::4],
        )  # fmt: skip
        words = memoryview(swapped).cast("I")
    numbers = words.tolist()
    for even, odd in zip(numbers[::2], numbers[1::2], strict=True):
        one = (one + even + two) & 0xFFFFFFFF
        two = (two + odd + one) & 0xFFFFFFFF
    return one.to_bytes(4, "big") + two.to_bytes(4, "big")


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big")


_ORDER_HERE = "little" if memoryview(b"\1\0\0\0").cast("I")[0] == 1 else "big"
