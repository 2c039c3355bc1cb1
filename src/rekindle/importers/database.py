"""Databases of other tools, only read: nothing in their folders is made, changed or removed.

A database whose log is shared by whoever has it open is read with the log, and as it is at one
moment. If nobody has it open, nothing must be made beside it in order to share: then it is read
alone, and whether it stayed as it was is looked at meanwhile.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

_PATIENCE_MS = 5000
_BEGIN = b"SQLite format 3\0"

Value = Any


class Database:
    """One database. It is closed with the last that speaks of it. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        self.is_damaged = False
        self._is_log_read = False
        # How it looked, if nothing keeps others from changing it under our hands.
        self._looks: tuple[object, ...] | None = None
        try:
            self._db = self._opened()
            self.columns = self._columns()
        except (apsw.Error, UnicodeDecodeError) as error:
            raise _refusal(error) from error

    @property
    def is_shared(self) -> bool:
        """Whether it is read together with those who write to it."""
        return self._looks is None

    def rows(self, statement: str, *values: Value) -> Iterator[tuple[Value, ...]]:
        """Yield rows; fewer, if the database is damaged."""
        try:
            yield from self._db.execute(statement, values)
        except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError):
            self.is_damaged = True
        except apsw.Error as error:
            raise _refusal(error) from error
        self._check()

    def _opened(self) -> Any:  # noqa: ANN401 - its types are not whole
        self._is_log_read = self._log.exists() and self._log.stat().st_size > 0
        if self._log.exists() and self._path.with_name(f"{self._path.name}-shm").exists():
            try:
                return self._open("readonly_shm=1")
            except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError):
                pass
        # What others write goes to the log first: while the file is the same, so is what it says.
        self._looks = self._look()
        return self._open("vfs=unix-none") if self._is_log_read else self._open("immutable=1")

    def _open(self, how: str) -> Any:  # noqa: ANN401 - its types are not whole
        uri = f"{self._path.absolute().as_uri()}?mode=ro&{how}"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        db: Any = apsw.Connection(uri, flags=flags)
        db.set_busy_timeout(_PATIENCE_MS)
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if how.startswith("vfs="):
            # What the log has is then found in memory, and nowhere else.
            db.pragma("locking_mode", "exclusive")
        # All is read as it is now.
        db.execute("begin")
        db.execute("select 1 from sqlite_schema limit 1").get  # noqa: B018 - it begins with that
        return db

    def _columns(self) -> dict[str, set[str]]:
        """Return which columns each table has: older versions have fewer."""
        found: dict[str, set[str]] = {}
        statement = (
            "select t.name, c.name from sqlite_schema t, pragma_table_info(t.name) c "
            "where t.type = 'table'"
        )
        for table, column in self._db.execute(statement):
            found.setdefault(table, set()).add(column)
        return found

    def _check(self) -> None:
        if not self.is_shared and self._look() != self._looks:
            raise OSError("its tool has just begun to write to it: import again")

    def _look(self) -> tuple[object, ...]:
        files = [self._path, self._log] if self._is_log_read else [self._path]
        stats = [it.stat() for it in files if it.exists()]
        return tuple((it.st_ino, it.st_size, it.st_mtime_ns) for it in stats)


def is_database(path: Path) -> bool:
    """Tell whether a file is a database, by how it begins."""
    with path.open("rb") as file:
        return file.read(len(_BEGIN)) == _BEGIN


def _refusal(error: Exception) -> OSError:
    return OSError(f"the database cannot be read: {error}")
