"""Finding out that a store's file was removed or replaced: SQLite would go on writing to it."""

from pathlib import Path

from rekindle.errors import StoreUnavailable
from rekindle.store.sqlite.connection import waiting

_BESIDE = ("-wal", "-shm")


class Whereabouts:
    """Which files a store is. While it is open, no other file can have the same identity."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _identity(path)
        self._beside = {file: _identity(file) for file in map(self._named, _BESIDE)}

    def is_same(self, other: "Whereabouts") -> bool:
        """Tell whether two are one file."""
        return self._file == other._file  # noqa: SLF001 - of its own kind

    def check(self) -> None:
        """Raise StoreUnavailable if the file is no longer the one that was opened."""
        if _identity(self._path) != self._file:
            if waiting(self._path) is None:
                self._remove_leftovers()
            raise StoreUnavailable(f"the store {self._path} was removed or replaced")

    def _remove_leftovers(self) -> None:
        """Remove what is left of ours: SQLite would take it for the log of whatever comes next.

        Not while the store waits to be saved: much of what can be read of it may be in there.
        """
        for file, identity in self._beside.items():
            if identity is not None and _identity(file) == identity:
                file.unlink(missing_ok=True)

    def _named(self, end: str) -> Path:
        return self._path.with_name(self._path.name + end)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
