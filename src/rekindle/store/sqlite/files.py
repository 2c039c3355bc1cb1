"""The files of a store on disk: their names, how they are created, and their identity.

For a store `s.db`:

s.db              the database, with SQLite's own `-wal`, `-shm` and `-journal`
s.db.lock         locked by writers in turn; notes which store was quarantined last
s.db.index        the search index
s.db.live/TOKEN   locked by a process as long as it lives
s.db.pending-TOKEN        changes that a process could not write yet
s.db.damaged-TIME         a damaged store in quarantine, and `.json` with the recovery report
s.db.salvaged             a recovered store that is not complete yet
"""

import errno
import os
import re
from contextlib import suppress
from pathlib import Path

from rekindle.errors import StoreUnavailable
from rekindle.store.sqlite.filelock import note_in

DATABASE_SUFFIXES = ("", "-wal", "-shm", "-journal")
"""A database, and the files that SQLite keeps beside it."""


def lock_path(store: Path) -> Path:
    """Return the file that writers of a store lock in turn."""
    return store.with_name(store.name + ".lock")


def index_path(store: Path) -> Path:
    """Return the search index of a store."""
    return store.with_name(store.name + ".index")


def live_folder(store: Path) -> Path:
    """Return the folder of the files that processes lock as long as they live."""
    return store.with_name(store.name + ".live")


def pending_path(store: Path, token: str) -> Path:
    """Return the pending file of the process with this token."""
    return store.with_name(f"{store.name}.pending-{token}")


def pending_files(store: Path) -> list[Path]:
    """Return the pending files of all processes, whether they run or not."""
    prefix = pending_path(store, "").name
    try:
        names = os.listdir(store.parent)  # noqa: PTH208 - names
    except OSError:
        return []
    return [store.with_name(name) for name in names if name.startswith(prefix)]


def quarantined(store: Path) -> list[Path]:
    """Return the damaged stores in quarantine, oldest first."""
    ours = re.compile(re.escape(store.name) + r"\.damaged-\d{8}T\d{6}Z(-\d+)?(\.json)?")
    try:
        names = [name for name in os.listdir(store.parent) if ours.fullmatch(name)]  # noqa: PTH208
    except OSError:
        return []
    found = {store.with_name(name.removesuffix(".json")) for name in names}
    # By time, then by number.
    return sorted(found, key=lambda path: [part.zfill(9) for part in path.suffix.split("-")])


def report_path(damaged: Path) -> Path:
    """Return the recovery report of a quarantined store.

    It is written when the new store is complete and only has to be renamed.
    """
    return damaged.with_name(f"{damaged.name}.json")


def recovered_path(store: Path) -> Path:
    """Return the file in which a recovered store is built before it is renamed."""
    return store.with_name(store.name + ".salvaged")


def last_quarantined(store: Path) -> Path | None:
    """Return the store that was quarantined last, if it is known."""
    found = quarantined(store)
    noted = note_in(lock_path(store)).decode(errors="replace")
    if noted:
        # The clock may have been set back since an earlier one.
        return next((damaged for damaged in found if damaged.suffix == noted), None)
    return found[-1] if found else None


def awaiting_recovery(store: Path) -> Path | None:
    """Return the quarantined store of which nothing is recovered yet, if no store replaces it."""
    damaged = None if store.exists() else last_quarantined(store)
    if damaged is None or not damaged.exists():
        return None
    is_recovered = report_path(damaged).exists() and not recovered_path(store).exists()
    return None if is_recovered else damaged


def make_private_file(path: Path, *, create: bool = True) -> None:
    """Create a file that only its owner can read, and the folders that lead to it."""
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    if create:
        with suppress(FileExistsError):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            os.close(os.open(path, flags, 0o600))
    # An existing file is not opened: closing it would drop the locks of every other connection of
    # this process, and other processes would take the WAL for one of a dead process.
    owner = path.stat().st_uid
    if not os.access(path, os.R_OK | os.W_OK):
        # SQLite would silently open it read-only.
        number = errno.EROFS if os.statvfs(path).f_flag & os.ST_RDONLY else errno.EACCES
        raise OSError(number, os.strerror(number), str(path))
    # SQLite gives the files beside the store the same mode as the store.
    if owner == os.geteuid():
        path.chmod(0o600)


class FileIdentity:
    """Detects that the file of an open store was removed or replaced.

    SQLite would go on writing to a file without a name. While the file is open, no other file can
    have its identity.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _identity(path)
        beside = [path.with_name(path.name + suffix) for suffix in ("-wal", "-shm")]
        self._beside = {file: _identity(file) for file in beside}

    def is_same(self, other: "FileIdentity") -> bool:
        """Return whether both are the same file."""
        return self._file == other._file  # noqa: SLF001 - of its own kind

    def check(self) -> None:
        """Raise StoreUnavailable if the path leads to another file now, or to none."""
        if _identity(self._path) != self._file:
            if awaiting_recovery(self._path) is None:
                self._remove_leftovers()
            raise StoreUnavailable(f"the store {self._path} was removed or replaced")

    def _remove_leftovers(self) -> None:
        """Remove our WAL: SQLite would take it for the WAL of the next database of that name.

        Not while the store waits for recovery, because the WAL may hold many of its entries.
        """
        for file, identity in self._beside.items():
            if identity is not None and _identity(file) == identity:
                file.unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
