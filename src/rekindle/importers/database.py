"""Read databases of other tools without creating, changing or removing a file beside them.

If another process has the database open with a shared WAL, the WAL is read too, as of one moment.
Otherwise sharing would create files, so the database is read alone. This module then checks after
each query that the files have not changed in the meantime.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

_BUSY_TIMEOUT_MS = 5000
_HEADER = b"SQLite format 3\0"

Value = Any


class ReadOnlyDatabase:
    """One database of another tool. It closes when it is garbage collected. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wal = path.with_name(f"{path.name}-wal")
        self.is_damaged = False
        self._reads_wal = False
        # The state of the files at the start, if no lock prevents changes to them.
        self._initial_state: tuple[object, ...] | None = None
        try:
            self._db = self._connect()
            self.columns = self._read_columns()
        except (apsw.Error, UnicodeDecodeError) as error:
            raise _read_error(error) from error

    @property
    def is_shared(self) -> bool:
        """Whether it is read together with the processes that write to it."""
        return self._initial_state is None

    def rows(self, statement: str, *values: Value) -> Iterator[tuple[Value, ...]]:
        """Yield the rows of a query. Where the database is damaged, the remaining rows are lost."""
        try:
            yield from self._db.execute(statement, values)
        except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError):
            self.is_damaged = True
        except apsw.Error as error:
            raise _read_error(error) from error
        self._check_unchanged()

    def _connect(self) -> Any:  # noqa: ANN401 - apsw's types are incomplete
        self._reads_wal = self._wal.exists() and self._wal.stat().st_size > 0
        if self._wal.exists() and self._path.with_name(f"{self._path.name}-shm").exists():
            try:
                return self._open("readonly_shm=1")
            except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError):
                pass
        # Writers change the WAL first, so unchanged files mean unchanged content.
        self._initial_state = self._file_state()
        return self._open("vfs=unix-none") if self._reads_wal else self._open("immutable=1")

    def _open(self, mode: str) -> Any:  # noqa: ANN401 - apsw's types are incomplete
        uri = f"{self._path.absolute().as_uri()}?mode=ro&{mode}"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        db: Any = apsw.Connection(uri, flags=flags)
        db.set_busy_timeout(_BUSY_TIMEOUT_MS)
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if mode.startswith("vfs="):
            # The index of the WAL is then kept in memory only.
            db.pragma("locking_mode", "exclusive")
        # One transaction for all queries: they see the same moment. The first query starts it.
        db.execute("begin")
        db.execute("select 1 from sqlite_schema limit 1").get  # noqa: B018 - runs the query
        return db

    def _read_columns(self) -> dict[str, set[str]]:
        """Return the columns of each table. Older versions of a tool have fewer."""
        columns: dict[str, set[str]] = {}
        statement = (
            "select t.name, c.name from sqlite_schema t, pragma_table_info(t.name) c "
            "where t.type = 'table'"
        )
        for table, column in self._db.execute(statement):
            columns.setdefault(table, set()).add(column)
        return columns

    def _check_unchanged(self) -> None:
        if not self.is_shared and self._file_state() != self._initial_state:
            raise OSError("its tool has just begun to write to it; import it again")

    def _file_state(self) -> tuple[object, ...]:
        files = [self._path, self._wal] if self._reads_wal else [self._path]
        stats = [file.stat() for file in files if file.exists()]
        return tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats)


def is_database(path: Path) -> bool:
    """Return whether a file is a database, by its first bytes."""
    with path.open("rb") as file:
        return file.read(len(_HEADER)) == _HEADER


def _read_error(error: Exception) -> OSError:
    return OSError(f"the database cannot be read: {error}")
