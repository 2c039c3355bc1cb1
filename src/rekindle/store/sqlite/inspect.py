"""Inspect a store on disk: its owner, its integrity, its users and its contents.

Nothing here changes a store, except the functions at the end. Everything raises StoreUnavailable.
"""

import json
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Self

import apsw
from msgspec import Struct

from rekindle.errors import StoreDamaged, StoreError
from rekindle.model import AgentIdentity, Kind, LeaseHolder
from rekindle.store.sqlite import sql
from rekindle.store.sqlite.codec import decode_entries, decode_session
from rekindle.store.sqlite.connection import (
    check_header,
    check_wal,
    open_for_writing,
    open_read_only,
    translate_errors,
)
from rekindle.store.sqlite.files import live_folder, lock_path
from rekindle.store.sqlite.leases import is_alive
from rekindle.store.sqlite.schema import (
    APPLICATION_ID,
    MIGRATIONS,
    key_at,
    place,
    schema_version,
    tables_in,
    tables_of,
)
from rekindle.store.sqlite.sql import ROW

SAFE_SQLITE_VERSION = (3, 51, 3)
"""The first version without the WAL-reset bug, which can damage a store with several writers."""

NEWEST_SCHEMA = len(MIGRATIONS)
_LATER_COLUMNS = {
    "messages": (2, "0"),
    "origin": (7, "null"),
    "saved_turns": (8, "0"),
    "agent_archived": (10, "0"),
}
"""The schema that introduced a column of `sql.SESSION`, and the value in older ones."""

# Positions in SQLite's file header.
_SIGNATURE = b"SQLite format 3\0"
_APPLICATION_ID = slice(68, 72)

_MAX_COMPLAINTS = 10
_STEPS_PER_INTERRUPT_CHECK = 100_000

_LEASES = """
    select id, token, pid, host from lease left join session on key = session
    where not is_over order by pid, id
"""
_AGENTS = """
    select agent_name, program, count(*), max(updated_us) from session
    where deleted_us is null and cwd is not null group by agent_name, program
    order by max(updated_us) desc
"""
_LAST_OF_AGENT = """
    select key, agent_version, command from session
    where agent_name is ? and program is ? and deleted_us is null and cwd is not null
    order by updated_us desc limit ?
"""
_OPENINGS = """
    select data from stretch
    where place between ? and ? and kind = ? order by place desc limit ?
"""
# A session has no folder before a client opens it, and after it is purged.
_COUNTS = """
    select count(*) filter (where cwd is not null and deleted_us is null),
           count(archived_us) filter (where cwd is not null and deleted_us is null),
           count(deleted_us) filter (where cwd is not null) from session
"""
_SESSIONS_PER_AGENT = 20
_OPENINGS_PER_SESSION = 5


class LeaseRecord(Struct, frozen=True):
    """A lease that a process holds, or has never released."""

    session_id: str | None
    holder: LeaseHolder
    is_alive: bool


class AgentUsage(Struct, frozen=True, kw_only=True):
    """An agent that has sessions in the store, and how its last ones were restored."""

    identity: AgentIdentity
    sessions: int
    updated_us: int
    restored: dict[str, int]


class SessionCounts(Struct, frozen=True, kw_only=True):
    """The number of sessions. Purged ones, and those that no client has opened, do not count."""

    sessions: int
    """Sessions that are not deleted."""
    archived: int
    """The archived ones among `sessions`."""
    deleted: int
    """Deleted sessions that can be undeleted."""


class Inspection:
    """A store that is open for inspection. Nothing is changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with translate_errors(self._path):
            self._db: Any = open_read_only(path)
            # A long query must be interruptible.
            self._db.set_progress_handler(lambda: False, _STEPS_PER_INTERRUPT_CHECK)
            self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            try:
                with self._db:
                    check_header(self._db, path)
                check_wal(self._db, path)
            except BaseException:
                self._db.close()
                raise

    def schema(self) -> int | None:
        """Return the schema version; None if it is not a store."""
        with translate_errors(self._path):
            is_ours = self._db.pragma("application_id") == APPLICATION_ID
            return schema_version(self._db) if is_ours else None

    def pragma(self, name: str) -> Any:  # noqa: ANN401 - as apsw has it
        """Return the value of a pragma."""
        with translate_errors(self._path):
            return self._db.pragma(name)

    def complaints(self, *, full: bool) -> list[str]:
        """Return the damage that SQLite finds. With `full`, check indexes and contents too."""
        check = "integrity_check" if full else "quick_check"
        rows = self._query(f"pragma {check}({_MAX_COMPLAINTS})")
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def matches_schema(self) -> bool:
        """Return whether the tables are those of the store's schema version."""
        with translate_errors(self._path), self._db:
            return tables_in(self._db) == tables_of(self.schema() or 0)

    def counts(self) -> SessionCounts:
        """Return the number of sessions."""
        ((sessions, archived, deleted),) = self._query(_COUNTS)
        return SessionCounts(sessions=sessions, archived=archived, deleted=deleted)

    def orphaned_keys(self) -> list[int]:
        """Return the keys that have entries but no session."""
        return [row[0] for row in self._query(sql.ORPHANS)]

    def unreadable_sessions(self) -> list[str]:
        """Return the ids of sessions whose row is malformed."""
        return [id_ for id_, row in self._rows_of_sessions() if not _is_readable(row)]

    def unreadable_entries(self) -> list[str]:
        """Return the defects of rows of entries. Reads all of them."""
        return list(islice(self._defects(), _MAX_COMPLAINTS))

    def has_malformed_entries(self) -> bool:
        """Return whether some entries are malformed. Reads all of them.

        Entries of a newer Rekindle do not count.
        """
        with translate_errors(self._path):
            return any(map(_is_malformed, self._db.execute(ROW)))

    def leases(self) -> list[LeaseRecord]:
        """Return all leases, of live and dead processes."""
        folder = live_folder(self._path)
        with translate_errors(self._path):
            holders = [
                (id_, LeaseHolder(token=token, pid=pid, machine=machine))
                for id_, token, pid, machine in self._query(_LEASES)
            ]
            return [LeaseRecord(id_, holder, is_alive(folder, holder)) for id_, holder in holders]

    def agents(self) -> list[AgentUsage]:
        """Return the agents that have sessions in the store, last used first."""
        return [self._agent(*row) for row in self._query(_AGENTS)]

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _agent(
        self, name: str | None, program: str | None, sessions: int, updated_us: int
    ) -> AgentUsage:
        last = self._query(_LAST_OF_AGENT, (name, program, _SESSIONS_PER_AGENT))
        restored: dict[str, int] = {}
        for key, _, _ in last:
            for method in self._openings(key):
                restored[method] = restored.get(method, 0) + 1
        with translate_errors(self._path):
            command = tuple(json.loads(last[0][2]))
        identity = AgentIdentity(name=name, version=last[0][1], command=command)
        return AgentUsage(
            identity=identity, sessions=sessions, updated_us=updated_us, restored=restored
        )

    def _openings(self, key: int) -> Iterator[str]:
        span = (place(key, 0), place(key + 1, 0) - 1)
        for (line,) in self._query(_OPENINGS, (*span, Kind.READY, _OPENINGS_PER_SESSION)):
            method = _restored_by(line)
            if method is not None:
                yield method

    def _rows_of_sessions(self) -> Iterator[tuple[str, Any]]:
        statement = sql.SESSION
        for column, (since, value) in _LATER_COLUMNS.items():
            if (self.schema() or 0) < since:
                statement = statement.replace(f" {column},", f" {value},")
        with translate_errors(self._path):
            # As bytes, because the id itself may be malformed.
            for key, id_ in self._db.execute("select key, cast(id as blob) from session"):
                rows = self._db.execute(f"{statement} where key = ?", (key,))
                yield id_.decode(errors="replace"), rows

    def _defects(self) -> Iterator[str]:
        end, key = 0, -1
        with translate_errors(self._path):
            for row in self._db.execute(f"{ROW} order by place"):
                if key_at(row[0]) == key and row[0] != end:
                    yield f"entries of session {key} before {row[0]} are missing or there twice"
                defect = _defect(row)
                if defect:
                    yield defect
                end, key = row[0] + row[1], key_at(row[0])

    def _query(self, sql: str, values: tuple[object, ...] = ()) -> list[Any]:
        with translate_errors(self._path):
            return self._db.execute(sql, values).fetchall()


def is_database(path: Path) -> bool:
    """Return whether a file is an SQLite database. Raises OSError."""
    return _header(path).startswith(_SIGNATURE)


def is_store(path: Path) -> bool:
    """Return whether a file is a store, by its header. Raises OSError.

    Without a lock file beside it, it is not opened: SQLite would create files beside it.
    """
    header = _header(path)
    if not header.startswith(_SIGNATURE):
        return False
    if int.from_bytes(header[_APPLICATION_ID], "big") == APPLICATION_ID:
        return True
    if not lock_path(path).exists():
        return False
    # A new store has its application id in the WAL first, and a damaged one may have lost it.
    try:
        with Inspection(path) as store:
            return store.schema() is not None
    except StoreDamaged:
        return True
    except StoreError:
        return False


def is_unfinished(path: Path) -> bool:
    """Return whether a file is a store whose creator was killed before it had any contents."""
    if not lock_path(path).is_file():
        return False
    if not path.stat().st_size:
        return True
    with suppress(StoreError), Inspection(path) as store:
        return store.pragma("schema_version") == store.pragma("user_version") == 0
    return False


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_APPLICATION_ID.stop)


def sqlite_version() -> tuple[int, ...]:
    """Return the version of the SQLite library."""
    return tuple(map(int, apsw.sqlite_lib_version().split(".")))


def _is_readable(rows: Any) -> bool:  # noqa: ANN401 - an apsw cursor
    try:
        return bool([decode_session(row) for row in rows])
    except ValueError:
        return False


def _defect(row: Any) -> str | None:  # noqa: ANN401 - a row
    try:
        decode_entries(row)
    except (StoreError, ValueError) as error:
        return f"the row {row[0]} makes no sense: {error}"
    return None


def _is_malformed(row: Any) -> bool:  # noqa: ANN401 - a row
    try:
        decode_entries(row)
    except StoreError:
        return False
    except ValueError:
        return True
    return False


def _restored_by(line: bytes) -> str | None:
    """Return how a session was restored, from the answer that opened it."""
    try:
        method = json.loads(line)["result"]["_meta"]["rekindle"]["restored"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return method if isinstance(method, str) else None


# -- changes --------------------------------------------------------------------------------


def rebuild_indexes(path: Path) -> None:
    """Rebuild SQLite's indexes from the tables."""
    _change(path, "reindex")


def set_journal_mode(path: Path) -> None:
    """Set the journal mode to WAL, in which readers and a writer do not block each other."""
    _change(path, "pragma journal_mode = wal")


def truncate_wal(path: Path) -> None:
    """Checkpoint the WAL and empty it, as far as other processes permit."""
    _change(path, "pragma wal_checkpoint(truncate)")


def _change(path: Path, sql: str) -> None:
    with translate_errors(path), closing(open_for_writing(path, timeout=1.0)) as db:
        db.execute(sql).fetchall()
