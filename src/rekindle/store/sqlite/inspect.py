"""Looking a store on disk over: whose it is, whether it is sound, who uses it, what is in it.

Nothing here changes a store, with the exception of the functions at the end, which say so.
Everything raises StoreUnavailable.
"""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import apsw
from msgspec import Struct

from rekindle.errors import StoreDamaged, StoreError
from rekindle.model import AgentIdentity, Kind, LeaseHolder
from rekindle.store.sqlite import sql
from rekindle.store.sqlite.codec import entries_in, session_in
from rekindle.store.sqlite.connection import (
    check_header,
    check_log,
    in_words,
    lock_path,
    open_for_writing,
    open_read_only,
)
from rekindle.store.sqlite.filelock import is_held
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

SOUND_SQLITE = (3, 51, 3)
"""The first one without the WAL-reset bug, which can damage a store that several write to."""

NEWEST_SCHEMA = len(MIGRATIONS)
_SCHEMA_WITH_ORIGINS = 6

# Where SQLite's file format has them.
_BEGIN = b"SQLite format 3\0"
_MARK = slice(68, 72)

_MOST_COMPLAINTS = 10
_STEPS_BETWEEN_LOOKS = 100_000

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
_COUNTS = """
    select count(*), count(deleted_us), count(archived_us),
           (select count(*) from session where cwd is null) from session
"""
_SESSIONS_LOOKED_AT = 20
_OPENINGS_LOOKED_AT = 5


class Lease(Struct, frozen=True):
    """A session that a process holds, or has never given up."""

    session_id: str | None
    holder: LeaseHolder
    is_alive: bool


class AgentSeen(Struct, frozen=True, kw_only=True):
    """An agent that has sessions here, and how its last ones came back."""

    identity: AgentIdentity
    sessions: int
    updated_us: int
    restored: dict[str, int]


class Counts(Struct, frozen=True, kw_only=True):
    """How many sessions there are: all, and how many of them are what."""

    sessions: int
    deleted: int
    archived: int
    strays: int


class Examination:
    """A store, open to be looked over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._translated():
            self._db: Any = open_read_only(path)
            # However long something takes, an interrupt must get through.
            self._db.set_progress_handler(lambda: False, _STEPS_BETWEEN_LOOKS)
            self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            try:
                with self._db:
                    check_header(self._db, path)
                check_log(self._db, path)
            except BaseException:
                self._db.close()
                raise

    def schema(self) -> int | None:
        """Return the store's schema; None if it is no store of ours."""
        with self._translated():
            is_ours = self._db.pragma("application_id") == APPLICATION_ID
            return schema_version(self._db) if is_ours else None

    def pragma(self, name: str) -> Any:  # noqa: ANN401 - as apsw has it
        """Return what SQLite says of the file."""
        with self._translated():
            return self._db.pragma(name)

    def complaints(self, *, full: bool) -> list[str]:
        """Return what SQLite finds damaged; with `full`, it looks at indexes and contents, too."""
        check = "integrity_check" if full else "quick_check"
        rows = self._query(f"pragma {check}({_MOST_COMPLAINTS})")
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def fits_its_schema(self) -> bool:
        """Tell whether the tables are those that the store says to have."""
        with self._translated(), self._db:
            return tables_in(self._db) == tables_of(self.schema() or 0)

    def counts(self) -> Counts:
        """Return how many sessions there are."""
        ((sessions, deleted, archived, strays),) = self._query(_COUNTS)
        return Counts(sessions=sessions, deleted=deleted, archived=archived, strays=strays)

    def entries_without_session(self) -> list[int]:
        """Return the keys of sessions that have entries and are not there."""
        return [row[0] for row in self._query(sql.ORPHANS)]

    def unreadable_sessions(self) -> list[str]:
        """Return the sessions whose row makes no sense."""
        return [id_ for id_, row in self._rows_of_sessions() if not _is_readable(row)]

    def unreadable_entries(self) -> list[str]:
        """Return what is wrong with single rows of entries. Reads all of them."""
        return [wrong for _, wrong in zip(range(_MOST_COMPLAINTS), self._wrong(), strict=False)]

    def has_senseless_entries(self) -> bool:
        """Tell whether some entries cannot be read, and not for being newer. Reads all of them."""
        with self._translated():
            return any(map(_is_senseless, self._db.execute(ROW)))

    def leases(self) -> list[Lease]:
        """Return who holds sessions, alive or not."""
        folder = self._path.with_name(self._path.name + ".live")
        with self._translated():
            return [
                Lease(id_, LeaseHolder(token=token, pid=pid, host=host), is_held(folder / token))
                for id_, token, pid, host in self._query(_LEASES)
            ]

    def agents(self) -> list[AgentSeen]:
        """Return the agents that have sessions here, the last used first."""
        return [self._agent(*row) for row in self._query(_AGENTS)]

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _agent(
        self, name: str | None, program: str | None, sessions: int, updated_us: int
    ) -> AgentSeen:
        last = self._query(_LAST_OF_AGENT, (name, program, _SESSIONS_LOOKED_AT))
        restored: dict[str, int] = {}
        for key, _, _ in last:
            for how in self._openings(key):
                restored[how] = restored.get(how, 0) + 1
        with self._translated():
            command = tuple(json.loads(last[0][2]))
        identity = AgentIdentity(name=name, version=last[0][1], command=command)
        return AgentSeen(
            identity=identity, sessions=sessions, updated_us=updated_us, restored=restored
        )

    def _openings(self, key: int) -> Iterator[str]:
        span = (place(key, 0), place(key + 1, 0) - 1)
        for (line,) in self._query(_OPENINGS, (*span, Kind.READY, _OPENINGS_LOOKED_AT)):
            how = _how_restored(line)
            if how is not None:
                yield how

    def _rows_of_sessions(self) -> Iterator[tuple[str, Any]]:
        statement = sql.SESSION
        if (self.schema() or 0) < _SCHEMA_WITH_ORIGINS:
            statement = statement.replace(" origin,", " null,")
        with self._translated():
            # As bytes: the id may be what makes no sense.
            for key, id_ in self._db.execute("select key, cast(id as blob) from session"):
                rows = self._db.execute(f"{statement} where key = ?", (key,))
                yield id_.decode(errors="replace"), rows

    def _wrong(self) -> Iterator[str]:
        end, key = 0, -1
        with self._translated():
            for row in self._db.execute(f"{ROW} order by place"):
                if key_at(row[0]) == key and row[0] != end:
                    yield f"entries of session {key} before {row[0]} are missing or there twice"
                wrong = _wrong_with(row)
                if wrong:
                    yield wrong
                end, key = row[0] + row[1], key_at(row[0])

    def _query(self, sql: str, values: tuple[object, ...] = ()) -> list[Any]:
        with self._translated():
            return self._db.execute(sql, values).fetchall()

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except (apsw.Error, OSError, ValueError) as error:
            raise in_words(error, self._path) from error


def is_database(path: Path) -> bool:
    """Tell whether a file begins as those of SQLite do. Raises OSError."""
    return _header(path).startswith(_BEGIN)


def is_store(path: Path) -> bool:
    """Tell whether a file is a store of ours, by what it says of itself. Raises OSError.

    Without a lock beside it, it is not opened as a database: SQLite would make files beside it.
    """
    header = _header(path)
    if not header.startswith(_BEGIN):
        return False
    if int.from_bytes(header[_MARK], "big") == APPLICATION_ID:
        return True
    if not lock_path(path).exists():
        return False
    # A new store has its mark in SQLite's log first, and a damaged one may have lost it.
    try:
        with Examination(path) as store:
            return store.schema() is not None
    except StoreDamaged:
        return True
    except StoreError:
        return False


def is_begun(path: Path) -> bool:
    """Tell whether a file is a store whose maker was killed before there was anything in it."""
    if not lock_path(path).is_file():
        return False
    if not path.stat().st_size:
        return True
    with suppress(StoreError), Examination(path) as store:
        return store.pragma("schema_version") == store.pragma("user_version") == 0
    return False


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MARK.stop)


def sqlite_version() -> tuple[int, ...]:
    """Return the version of the SQLite in use."""
    return tuple(map(int, apsw.sqlite_lib_version().split(".")))


def _is_readable(rows: Any) -> bool:  # noqa: ANN401 - an apsw cursor
    try:
        return bool([session_in(row) for row in rows])
    except ValueError:
        return False


def _wrong_with(row: Any) -> str | None:  # noqa: ANN401 - a row
    try:
        entries_in(row)
    except (StoreError, ValueError) as error:
        return f"the row {row[0]} makes no sense: {error}"
    return None


def _is_senseless(row: Any) -> bool:  # noqa: ANN401 - a row
    try:
        entries_in(row)
    except StoreError:
        return False
    except ValueError:
        return True
    return False


def _how_restored(line: bytes) -> str | None:
    try:
        how = json.loads(line)["result"]["_meta"]["rekindle"]["restored"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return how if isinstance(how, str) else None


# -- what changes a store -----------------------------------------------------------------


def rebuild_indexes(path: Path) -> None:
    """Make SQLite's indexes anew from the tables, which are left as they are."""
    _change(path, "reindex")


def set_journal_mode(path: Path) -> None:
    """Let readers and a writer not wait for each other."""
    _change(path, "pragma journal_mode = wal")


def fold_log(path: Path) -> None:
    """Bring what is in SQLite's log into the file, and empty it, so far as others let it."""
    _change(path, "pragma wal_checkpoint(truncate)")


def _change(path: Path, sql: str) -> None:
    try:
        db = open_for_writing(path, patience=1.0)
        try:
            db.execute(sql).fetchall()
        finally:
            db.close()
    except (apsw.Error, OSError, ValueError) as error:
        raise in_words(error, path) from error
