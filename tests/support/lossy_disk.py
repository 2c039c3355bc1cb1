"""A disk for SQLite that loses what was not synced: power may fail at any moment.

What a sync has seen stays. Of what came after it, any part may be there, in any order, and of a
single write any number of sectors. Files come and go at once, as on disks with a journal.
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
"""Where, and what; None ends the file there."""


class File:
    """What the disk has of one file, and what it was told since the last sync."""

    def __init__(self, synced: bytes = b"", waiting: Sequence[Write] = ()) -> None:
        self.synced = synced
        self.waiting = list(waiting)

    def copy(self) -> "File":
        return File(self.synced, self.waiting)

    def sync(self) -> None:
        self.synced = self._with(self.waiting)
        self.waiting.clear()

    def after_a_failure(self, chance: random.Random) -> bytes:
        """Return what may be there when power comes back."""
        how = chance.choice(("all", "none", "the first", "some"))
        match how:
            case "all":
                kept = self.waiting
            case "none":
                kept = []
            case "the first":
                kept = self.waiting[: chance.randint(0, len(self.waiting))]
            case _:
                some = [it for it in self.waiting if chance.random() < 0.5]
                kept = [_torn(it, chance) for it in chance.sample(some, len(some))]
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


def _torn(write: Write, chance: random.Random) -> Write:
    at, what = write
    if what is None or chance.random() < 0.7:
        return write
    return at, what[: chance.randrange(0, len(what) + 1, SECTOR)]


class Disk(apsw.VFS):
    """All files, and what is to be done when so many writes and syncs have come."""

    def __init__(self) -> None:
        super().__init__(_NAME, "")
        self.files: dict[str, File] = {}
        self.told = 0
        self.before_each: Callable[[int], object] = lambda _: None

    def xOpen(self, name: Any, flags: Any) -> "_Open":  # noqa: N802, ANN401 - as apsw has it
        return _Open(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802, FBT001 - as apsw has it
        super().xDelete(filename, syncdir)
        self.files.pop(Path(filename).name, None)

    def notice(self) -> None:
        """Count, and let whoever waits for this moment look at what is there."""
        self.before_each(self.told)
        self.told += 1

    def snapshot(self) -> dict[str, File]:
        return {name: file.copy() for name, file in self.files.items()}


class _Open(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: Any) -> None:  # noqa: ANN401 - as above
        super().__init__("", name, flags)
        self._disk = disk
        path = name.filename() if hasattr(name, "filename") else name
        # Those without a name are nobody's but SQLite's, and gone with the process.
        self._file = disk.files.setdefault(Path(path).name, File()) if path else File()

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - as above
        self._disk.notice()
        super().xWrite(data, offset)
        self._file.waiting.append((offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - as above
        self._disk.notice()
        super().xTruncate(newsize)
        self._file.waiting.append((newsize, None))

    def xSync(self, flags: int) -> None:  # noqa: N802 - as above
        self._disk.notice()
        super().xSync(flags)
        self._file.sync()


@contextmanager
def losing_disk() -> Iterator[Disk]:
    """Have everything that opens a database meanwhile write to such a disk."""
    disk = Disk()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apsw, "Connection", partial(apsw.Connection, vfs=_NAME))
        try:
            yield disk
        finally:
            disk.unregister()


def lay_down(files: dict[str, File], folder: Path, chance: random.Random) -> None:
    """Write what is there when power comes back."""
    folder.mkdir()
    for name, file in sorted(files.items()):
        (folder / name).write_bytes(file.after_a_failure(chance))
