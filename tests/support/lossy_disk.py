"""A disk for SQLite that loses unsynced writes when the power fails, at any moment.

Synced writes survive. Of the writes after the last sync, any subset may survive, in any order, and
any number of sectors of a single write. Creating and deleting a file takes effect at once, as on a
journaling file system.
"""

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

Write = tuple[int, bytes | None]
"""An offset and the data; None truncates the file at the offset."""


class File:
    """One file: its synced content, and the writes since the last sync."""

    def __init__(self, synced: bytes = b"", unsynced: Sequence[Write] = ()) -> None:
        self.synced = synced
        self.unsynced = list(unsynced)

    def copy(self) -> "File":
        return File(self.synced, self.unsynced)

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
        try:
            yield disk
        finally:
            disk.unregister()


def lay_down(files: dict[str, File], folder: Path, chance: random.Random) -> None:
    """Write the files as a power failure may leave them."""
    folder.mkdir()
    for name, file in sorted(files.items()):
        (folder / name).write_bytes(file.after_power_failure(chance))
