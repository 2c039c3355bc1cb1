"""SQLite's log beside a store, read frame by frame: also where SQLite takes it to be at its end.

SQLite reads its log up to the first frame that makes no sense: there somebody was killed, or the
power failed. So one bit that flips hides all that was committed after it, and the next that writes
writes over it. The format is that of https://sqlite.org/fileformat2.html. Nothing is changed here.
"""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import apsw
from msgspec import Struct

from rekindle.store.sqlite.schema import Database

PAGE = 4096
"""How large the pages of our stores are."""

_HEADER, _HEADER_OF_FRAME = 32, 24
_FRAME = _HEADER_OF_FRAME + PAGE
_MAGIC, _VERSION = 0x377F0682, 3007000
_FRAMES_TO_KNOW_A_LOG_BY = 1000
_MOST_LOOKS = 10
_FRAMES_TO_LOOK_AT, _STRIDE = 64, 16


class _Log(Struct, frozen=True):
    """What all frames of a log have in common, and where its checksums begin."""

    order: str
    salts: bytes
    begin: bytes
    is_sound: bool
    """Whether its header is; else the rest was told by its frames."""


def log_path(path: Path) -> Path:
    """Return where SQLite keeps the log of a store."""
    return path.with_name(path.name + "-wal")


def committed_pages(fd: int) -> tuple[dict[int, int], int]:
    """Return where in the log the last committed version of each page lies, and how many there are.

    Each frame is judged by its own checksum, which begins with the one of the frame before: so a
    damaged one does not take along what follows it.
    """
    log = _log_in(fd)
    found: dict[int, int] = {}
    uncommitted: dict[int, int] = {}
    count = 0
    if log is None:
        return found, count
    for at in _places(fd):
        frame = os.pread(fd, _FRAME, at)
        if _makes_sense(fd, log, at):
            uncommitted[_number(frame, 0)] = at + _HEADER_OF_FRAME
            if size := _number(frame, 4):
                found.update(uncommitted)
                uncommitted.clear()
                count = size
    return found, count


def hides_commits(db: Database, path: Path) -> bool:
    """Tell whether the log has commits after the place where SQLite takes it to be at its end.

    One that is torn is none, if it is the last: whoever made it was stopped amidst of it. While
    others write, one may be there that SQLite does not know of yet, so it is asked again.
    """
    with _opened(log_path(path)) as fd:
        if fd is None or os.fstat(fd).st_size < _HEADER + _FRAME:
            return False
        for _ in range(_MOST_LOOKS):
            try:
                known = _known(db, fd)
                if not _has_commits_after(fd, known[0]):
                    return False
                if _known(db, fd) == known:
                    return True
            except apsw.BusyError:
                # Somebody is amidst of a commit, for which SQLite does not wait here.
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
    """Return how many frames SQLite knows, and of which log."""
    frames = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0]
    return max(0, frames), os.pread(fd, _HEADER, 0)


def _has_commits_after(fd: int, frames: int) -> bool:
    log = _log_in(fd)
    if log is None or not (log.is_sound or frames == 0):
        return False
    if not _goes_on(fd, log, frames):
        return False
    marks = list(_marks(fd, log, frames))
    if not log.is_sound:
        return any(_makes_sense(fd, log, at) for at in marks)
    if len(marks) <= 1:
        return False
    first = (at for at in _places(fd, frames) if at <= marks[0])
    bad = next((at for at in first if not _makes_sense(fd, log, at)), None)
    if bad is None:
        # SQLite would know it: it is being committed just now, or the log begins anew.
        return False
    sound = (mark for mark in marks if mark == bad or _makes_sense(fd, log, mark))
    return len(list(islice(sound, 2))) > 1


def _goes_on(fd: int, log: _Log, frames: int) -> bool:
    """Tell whether more frames of this log may be there. What else is there is of older ones.

    There may be thousands of those, and everybody who opens the store comes by here.
    """
    places = _places(fd, frames)
    some = (*places[:_FRAMES_TO_LOOK_AT], *places[_FRAMES_TO_LOOK_AT::_STRIDE])
    return any(os.pread(fd, 8, at + 8) == log.salts for at in some)


def _marks(fd: int, log: _Log, frames: int) -> Iterator[int]:
    """Yield the places of frames that say to end a commit. Of each only the header is read."""
    for at in _places(fd, frames):
        header = os.pread(fd, 16, at)
        if header[8:] == log.salts and header[4:8] != b"\0\0\0\0":
            yield at


def _places(fd: int, frames: int = 0) -> range:
    """Return where frames begin, from a frame on; what is not whole is none."""
    return range(_HEADER + frames * _FRAME, os.fstat(fd).st_size - _FRAME + 1, _FRAME)


def _log_in(fd: int) -> _Log | None:
    header = os.pread(fd, _HEADER, 0)
    order = "big" if _number(header, 0) == _MAGIC + 1 else "little"
    if len(header) == _HEADER and _number(header, 0) & ~1 == _MAGIC:
        is_ours = _number(header, 4) == _VERSION and _number(header, 8) == PAGE
        if is_ours and _checksum(bytes(8), header[:24], order) == header[24:]:
            return _Log(order, header[16:24], header[24:], is_sound=True)
    for at in islice(_places(fd), _FRAMES_TO_KNOW_A_LOG_BY):
        salts = os.pread(fd, 8, at + 8)
        for order in ("little", "big"):
            log = _Log(order, salts, header[24:].ljust(8, b"\0"), is_sound=False)
            if _makes_sense(fd, log, at):
                return log
    return None


def _makes_sense(fd: int, log: _Log, at: int) -> bool:
    before = os.pread(fd, 8, at - _FRAME + 16) if at > _HEADER else log.begin
    frame = os.pread(fd, _FRAME, at)
    if len(frame) < _FRAME or frame[8:16] != log.salts:
        return False
    return _checksum(before, frame[:8] + frame[24:], log.order) == frame[16:24]


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
