"""A lock between processes, held for the length of a commit. POSIX only: `flock`.

SQLite waits for a busy writer by starting a transaction, failing, and sleeping. With several
writers this costs some of them hundreds of milliseconds; trying this lock costs almost nothing. The
kernel releases it when the holder dies. A holder that is only stopped keeps it, so every wait is
bounded, and giving up is not an error: SQLite's own lock still protects the file.
"""

import fcntl
import os
import time
from pathlib import Path

_FIRST_PAUSE = 0.0002
_MAX_PAUSE = 0.004
_MAX_NOTE = 64
"""The file holds a note of this length, and then the mark."""
_SET, _UNSET = b"1", b"\0"


class FileLock:
    """An advisory lock on a file of its own."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def acquire(self, timeout: float) -> bool:
        """Wait for the lock at most `timeout` seconds; return whether it was acquired."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._wait(timeout)
        return True

    def _wait(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(pause * 1.5, _MAX_PAUSE)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            return True
        return False

    def is_free(self) -> bool:
        """Return whether no process holds the lock. Any number of processes may ask at once."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self.release()
        return True

    def is_of(self, path: Path) -> bool:
        """Return whether `path` is the locked file."""
        try:
            return os.path.samestat(os.fstat(self._fd), path.stat())
        except FileNotFoundError:
            return False

    def read(self) -> bytes:
        """Return the note in the file."""
        return os.pread(self._fd, _MAX_NOTE, 0).rstrip(_UNSET)

    def write(self, note: bytes) -> None:
        """Write the note, and sync it. Call it with the lock held."""
        os.pwrite(self._fd, note.ljust(_MAX_NOTE, _UNSET), 0)
        os.fsync(self._fd)

    def mark(self, *, is_set: bool) -> None:
        """Set the mark, or remove it."""
        os.pwrite(self._fd, _SET if is_set else _UNSET, _MAX_NOTE)

    def release(self) -> None:
        """Release the lock."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release the lock, and close its file."""
        os.close(self._fd)


def note_in(path: Path) -> bytes:
    """Return the note in a lock file. The file is not created."""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_NOTE).rstrip(_UNSET)
    except OSError:
        return b""


def is_marked(path: Path) -> bool:
    """Return whether a lock file has its mark. The file is not created."""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_NOTE + 1)[_MAX_NOTE:] == _SET
    except OSError:
        return False


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock of a file. The file is not created or changed."""
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
