"""A lock between processes, for the length of a commit. POSIX only: `flock`.

SQLite's own waiting for a busy writer begins a transaction, fails, sleeps and begins anew,
which under several writers costs some of them hundreds of milliseconds; trying for this lock
costs next to nothing. The kernel releases it when its holder dies. A holder that is merely
stopped keeps it, so waiting is bounded, and giving up is not an error: SQLite's lock still
protects the file.
"""

import fcntl
import os
import time
from pathlib import Path

_FIRST_PAUSE = 0.0002
_LONGEST_PAUSE = 0.004
_LONGEST_NOTE = 64
"""After it comes a mark."""
_SET, _UNSET = b"1", b"\0"


class FileLock:
    """An advisory lock on a file of its own."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def acquire(self, patience: float) -> bool:
        """Wait for the lock at most `patience` seconds; tell whether it was had."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._wait(patience)
        return True

    def _wait(self, patience: float) -> bool:
        deadline = time.monotonic() + patience
        pause = _FIRST_PAUSE
        while time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            return True
        return False

    def is_free(self) -> bool:
        """Tell whether nobody has the lock. Any number may ask at once."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self.release()
        return True

    def is_of(self, path: Path) -> bool:
        """Tell whether that is the file whose lock this is."""
        try:
            return os.path.samestat(os.fstat(self._fd), path.stat())
        except FileNotFoundError:
            return False

    def read(self) -> bytes:
        """Return what was written into the file for all that take the lock."""
        return os.pread(self._fd, _LONGEST_NOTE, 0).rstrip(_UNSET)

    def write(self, note: bytes) -> None:
        """Write it, and see that it stays. Call with the lock held."""
        os.pwrite(self._fd, note.ljust(_LONGEST_NOTE, _UNSET), 0)
        os.fsync(self._fd)

    def mark(self, *, is_set: bool) -> None:
        """Set the mark, or remove it."""
        os.pwrite(self._fd, _SET if is_set else _UNSET, _LONGEST_NOTE)

    def release(self) -> None:
        """Let the next one in."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the lock and its file up."""
        os.close(self._fd)


def note_in(path: Path) -> bytes:
    """Return what was written into a lock's file, which is not made by asking."""
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST_NOTE).rstrip(_UNSET)
    except OSError:
        return b""


def is_marked(path: Path) -> bool:
    """Tell whether a lock's file has its mark; it is not made by asking."""
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST_NOTE + 1)[_LONGEST_NOTE:] == _SET
    except OSError:
        return False


def is_held(path: Path) -> bool:
    """Tell whether somebody has the lock of that file, which is not made or changed by asking."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
