"""A disk for SQLite and pending files that fails to write or to sync, as a worn-out disk does.

SQLite passes data to the operating system first, and syncs it then. So data whose sync failed
is in the file for every process on this machine, also after a kill of the writer.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from lossy_disk import path_of
from rekindle.store.sqlite.files import pending_files

_NAME = "failing"
STORE, WAL, PENDING = "s.db", "s.db-wal", "pending"

Fault = tuple[str, str]
"""An operation (`sync` or `write`), and the file that it fails for."""
FAULTS: tuple[Fault, ...] = (
    ("sync", WAL),
    ("sync", STORE),
    ("sync", PENDING),
    ("write", WAL),
    ("write", STORE),
    ("write", PENDING),
)


class FailingDisk(apsw.VFS):
    """Fails as `faults` has it. `is_full` selects the error: ENOSPC, otherwise EIO."""

    def __init__(self) -> None:
        super().__init__(_NAME, "")
        self.faults: set[Fault] = set()
        self.is_full = False
        self.failures = 0
        """The number of operations that failed."""

    def xOpen(self, name: Any, flags: Any) -> "_Open":  # noqa: N802, ANN401 - as apsw has it
        return _Open(self, name, flags)

    def fails(self, operation: str, name: str) -> bool:
        is_failing = (operation, name) in self.faults
        self.failures += is_failing
        return is_failing

    def check_pending(self, operation: str, fd: int) -> None:
        """Raise OSError if an operation on a pending file is to fail."""
        is_pending = ".pending-" in path_of(fd).name
        if is_pending and self.fails(operation, PENDING):
            number = errno.ENOSPC if self.is_full else errno.EIO
            raise OSError(number, os.strerror(number))


class _Open(apsw.VFSFile):
    def __init__(self, disk: FailingDisk, name: Any, flags: Any) -> None:  # noqa: ANN401 - as above
        super().__init__("", name, flags)
        self._disk = disk
        self._name = Path(name.filename() if hasattr(name, "filename") else name or "").name

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - as above
        if self._disk.fails("write", self._name):
            raise apsw.FullError("no room") if self._disk.is_full else apsw.IOError("no write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802 - as above
        if self._disk.fails("sync", self._name):
            raise apsw.IOError("no sync")
        super().xSync(flags)


@contextmanager
def failing_disk() -> Iterator[FailingDisk]:
    """Let every store that is opened in this context use a failing disk."""
    disk = FailingDisk()
    pwrite, fsync = os.pwrite, os.fsync

    def failing_pwrite(fd: int, data: Any, offset: int) -> int:  # noqa: ANN401 - any buffer
        disk.check_pending("write", fd)
        return pwrite(fd, data, offset)

    def failing_fsync(fd: int) -> None:
        disk.check_pending("sync", fd)
        fsync(fd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apsw, "Connection", partial(apsw.Connection, vfs=_NAME))
        patch.setattr(os, "pwrite", failing_pwrite)
        patch.setattr(os, "fsync", failing_fsync)
        try:
            yield disk
        finally:
            disk.unregister()


def copy_after_kill(store: Path, folder: Path) -> Path:
    """Copy a store as a kill of all its users leaves it now; return the copy.

    The shared memory of the WAL is missing: the next process builds it again from the WAL.
    """
    folder.mkdir()
    wal = store.with_name(store.name + "-wal")
    for file in (store, wal, *pending_files(store)):
        if file.exists():
            shutil.copy(file, folder / file.name)
    return folder / store.name
