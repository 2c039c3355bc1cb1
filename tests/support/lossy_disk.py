"""A disk for SQLite and pending files that loses unsynced writes when the power fails.

The power may fail at any moment. Synced writes survive. Any subset of
the later writes may survive, in any order, and any number of sectors of a single write.

SQLite's files are created and deleted at once, as SQLite syncs their folder. The name of a pending
file is created, changed and removed for certain only when its folder is synced.
"""

import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

SECTOR = 512
_NAME = "losing"
_PENDING = ".pending-"

Write = tuple[int, bytes | None]
"""An offset and the data; None truncates the file at the offset."""


def path_of(fd: int) -> Path:
    """Return the path of an open file, also if it was removed."""
    return Path(str(Path(f"/proc/self/fd/{fd}").readlink()).removesuffix(" (deleted)"))


class File:
    """One file: its synced content, and the writes since the last sync."""

    def __init__(self, synced: bytes = b"", unsynced: Sequence[Write] = ()) -> None:
        self.synced = synced
        self.unsynced = list(unsynced)
        self.is_name_synced = True
        self.is_removed = False

    def copy(self) -> "File":
        copied = File(self.synced, self.unsynced)
        copied.is_name_synced, copied.is_removed = self.is_name_synced, self.is_removed
        return copied

    def sync(self) -> None:
        self.synced = self._with(self.unsynced)
        self.unsynced.clear()

    def after_power_failure(self, chance: random.Random) -> bytes:
        """Return a possible content of the file after a power failure."""
        how = chance.choice(("all", "none", "the first", "some"))
        match how:
            case "all":
                kept = self.unsynced
            case "none":
                kept = []
            case "the first":
                kept = self.unsynced[: chance.randint(0, len(self.unsynced))]
            case _:
                some = [it for it in self.unsynced if chance.random() < 0.5]
                kept = [_maybe_torn(it, chance) for it in chance.sample(some, len(some))]
        return self._with(kept)

    def _with(self, writes: list[Write]) -> bytes:
        data = bytearray(self.synced)
        for at, what in writes:
            data += bytes(max(0, at - len(data)))
            if what is None:
                del data[at:]
            else:
                data[at : at + len(what)] = what
        return bytes(data)


def _maybe_torn(write: Write, chance: random.Random) -> Write:
    at, what = write
    if what is None or chance.random() < 0.7:
        return write
    return at, what[: chance.randrange(0, len(what) + 1, SECTOR)]


class Disk(apsw.VFS):
    """All files. `before_each` is called before each write and sync, with their number so far."""

    def __init__(self) -> None:
        super().__init__(_NAME, "")
        self.files: dict[str, File] = {}
        self.operations = 0
        self.before_each: Callable[[int], object] = lambda _: None

    def xOpen(self, name: Any, flags: Any) -> "_Open":  # noqa: N802, ANN401 - as apsw has it
        return _Open(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802, FBT001 - as apsw has it
        super().xDelete(filename, syncdir)
        self.files.pop(Path(filename).name, None)

    def before_operation(self) -> None:
        """Call `before_each`, and count the operation."""
        self.before_each(self.operations)
        self.operations += 1

    def pending_file(self, fd: int) -> File | None:
        """Return the pending file that is open under a descriptor, if it is one."""
        name = path_of(fd).name
        if _PENDING not in name:
            return None
        if name not in self.files:
            self.files[name] = File()
            self.files[name].is_name_synced = False
        return self.files[name]

    def remove_name(self, path: Path) -> None:
        """Remove the name of a file, until the next sync of its folder perhaps not for good."""
        if path.name in self.files:
            self.files[path.name].is_name_synced = False
            self.files[path.name].is_removed = True

    def rename(self, path: Path, target: Path) -> None:
        """Give a pending file another name. Until the next sync of its folder it has either."""
        if path.name in self.files:
            self.files[target.name] = self.files[path.name].copy()
            self.files[target.name].is_name_synced = False
            self.remove_name(path)

    def sync_names(self) -> None:
        """Sync the folder."""
        self.files = {name: file for name, file in self.files.items() if not file.is_removed}
        for file in self.files.values():
            file.is_name_synced = True

    def snapshot(self) -> dict[str, File]:
        return {name: file.copy() for name, file in self.files.items()}


class _Open(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: Any) -> None:  # noqa: ANN401 - as above
        super().__init__("", name, flags)
        self._disk = disk
        path = name.filename() if hasattr(name, "filename") else name
        # Files without a name are SQLite's own temporary files, which no later process reads.
        self._file = disk.files.setdefault(Path(path).name, File()) if path else File()

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - as above
        self._disk.before_operation()
        super().xWrite(data, offset)
        self._file.unsynced.append((offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - as above
        self._disk.before_operation()
        super().xTruncate(newsize)
        self._file.unsynced.append((newsize, None))

    def xSync(self, flags: int) -> None:  # noqa: N802 - as above
        self._disk.before_operation()
        super().xSync(flags)
        self._file.sync()


@contextmanager
def losing_disk() -> Iterator[Disk]:
    """Let every database that is opened in this context use a lossy disk."""
    disk = Disk()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apsw, "Connection", partial(apsw.Connection, vfs=_NAME))
        _PendingFiles(disk, patch)
        try:
            yield disk
        finally:
            disk.unregister()


class _PendingFiles:
    """Notes the operations of Rekindle's own code on pending files and their folder."""

    def __init__(self, disk: Disk, patch: pytest.MonkeyPatch) -> None:
        self._disk = disk
        self._pwrite, self._ftruncate, self._fsync = os.pwrite, os.ftruncate, os.fsync
        self._unlink, self._rename = Path.unlink, Path.rename
        patch.setattr(os, "pwrite", self.pwrite)
        patch.setattr(os, "ftruncate", self.ftruncate)
        patch.setattr(os, "fsync", self.fsync)
        # Functions, because a bound method would not receive the path.
        patch.setattr(Path, "unlink", lambda path, **how: self.unlink(path, **how))  # noqa: PLW0108
        patch.setattr(Path, "rename", lambda path, to: self.rename(path, to))  # noqa: PLW0108

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        file = self._disk.pending_file(fd)
        self._disk.before_operation()
        written = self._pwrite(fd, data, offset)
        if file is not None:
            file.unsynced.append((offset, bytes(data[:written])))
        return written

    def ftruncate(self, fd: int, length: int) -> None:
        file = self._disk.pending_file(fd)
        self._disk.before_operation()
        self._ftruncate(fd, length)
        if file is not None:
            file.unsynced.append((length, None))

    def fsync(self, fd: int) -> None:
        self._disk.before_operation()
        self._fsync(fd)
        path = path_of(fd)
        file = self._disk.pending_file(fd) or self._disk.files.get(path.name)
        if file is not None:
            file.sync()
        elif path.is_dir():
            self._disk.sync_names()

    def unlink(self, path: Path, *, missing_ok: bool = False) -> None:
        if _PENDING in path.name:
            self._disk.before_operation()
            self._disk.remove_name(path)
        self._unlink(path, missing_ok=missing_ok)

    def rename(self, path: Path, target: Path) -> Path:
        if _PENDING in path.name:
            self._disk.before_operation()
            self._disk.rename(path, target)
        return self._rename(path, target)


def lay_down(files: dict[str, File], folder: Path, chance: random.Random) -> None:
    """Write the files as a power failure may leave them."""
    folder.mkdir()
    for name, file in sorted(files.items()):
        if not file.is_name_synced and chance.random() < 0.5:
            continue
        (folder / name).write_bytes(file.after_power_failure(chance))
