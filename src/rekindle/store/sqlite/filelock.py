"""A lock between processes, held for the length of a commit. POSIX only: `flock`.

SQLite waits for a busy writer by starting a transaction, failing, and sleeping. With several
writers this costs some of them hundreds of milliseconds; trying this lock costs almost nothing. The
kernel releases it when the holder dies. A holder that is only stopped keeps it, so every wait is
bounded, and giving up is not an error: SQLite's own lock still protects the file.
"""

import errno
import fcntl
import os
import stat
import time
from pathlib import Path

from rekindle.errors import StoreUnavailable

_FIRST_PAUSE = 0.0002
_MAX_PAUSE = 0.004
_MAX_NOTE = 64
"""The file holds a note of this length, and then the mark."""
_SET, _UNSET = b"1", b"\0"
_NOTE_PREFIX = b".damaged-"


class FileLock:
    """An advisory lock on a file of its own. A symbolic link is not followed."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(path, flags, 0o600)

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

    def acquire_shared(self) -> bool:
        """Acquire the lock unless a process holds it; any number of processes may share it."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
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


class StoreLock(FileLock):
    """The lock of a store, which also holds a note and a mark.

    Raises StoreUnavailable if the file is a symbolic link, or has contents that are not ours.
    """

    def __init__(self, path: Path) -> None:
        try:
            super().__init__(path)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise StoreUnavailable(
                f"{path} is a symbolic link, which Rekindle does not follow; move it away"
            ) from error
        if not self._is_ours():
            self.close()
            raise StoreUnavailable(f"{path} is not a lock file of Rekindle; move it away")

    def _is_ours(self) -> bool:
        content = os.pread(self._fd, _MAX_NOTE + 2, 0)
        note, mark = content[:_MAX_NOTE].rstrip(_UNSET), content[_MAX_NOTE:]
        is_note = not note or note.startswith(_NOTE_PREFIX)
        return stat.S_ISREG(os.fstat(self._fd).st_mode) and is_note and mark in (b"", _SET, _UNSET)


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
