"""The store on disk: one SQLite file in WAL mode, shared by any number of processes.

Durability. A commit survives the death of this process, because it is in the file before
`write` returns. It survives the death of the machine with `sync`, which also saves every
commit before it: streamed chunks are committed without waiting for the disk, and the
turn's end waits once for all of them.

Private. The file, and SQLite's files beside it, can be read by their owner only; folders
that are made for them likewise.
"""

import json
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, Self, cast

import apsw

from rekindle.errors import (
    SessionAmbiguous,
    SessionNotFound,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
)
from rekindle.model import (
    ACTIVITY,
    AgentIdentity,
    Change,
    Deleted,
    Entry,
    Kind,
    Opened,
    Session,
    Side,
    Stretch,
    Titled,
    TitleSource,
)
from rekindle.store.base import Page
from rekindle.store.filelock import FileLock
from rekindle.store.migrations import MIGRATIONS, migrate, schema_version

_Row = tuple[Any, ...]
_Values = Sequence[object] | Mapping[str, object]

_LARGEST_IDLE_WAL = 16 * 1024 * 1024
_ROWS_A_READ = 64
_CODEC_LINES = 0

_SESSION = """
    select id, agent_session_id, agent_name, agent_version, command, cwd, directories,
           user_title, agent_title, prompt_title, created_us, updated_us, parent_id,
           archived_us, deleted_us, last_seq, turns
    from session
"""

_MAKE = """
    insert into session (id, agent_session_id, created_us, updated_us)
    values (:id, :id, :at_us, :at_us)
"""

_APPEND = """
    update session set last_seq = last_seq + :lines
    where id = :id returning key, last_seq
"""

# Apart from the above, because a changed time moves the session in two indexes, and most
# of what is written is streamed chunks that leave it alone.
_APPEND_ACTIVITY = """
    update session
    set last_seq = last_seq + :lines, turns = turns + :turns,
        updated_us = max(updated_us, :at_us)
    where id = :id returning key, last_seq
"""

_OPEN = """
    update session
    set agent_session_id = coalesce(:agent_session_id, agent_session_id),
        agent_name = coalesce(:agent_name, agent_name),
        agent_version = coalesce(:agent_version, agent_version),
        command = coalesce(:command, command),
        program = coalesce(:program, program),
        cwd = coalesce(:cwd, cwd),
        directories = coalesce(:directories, directories),
        parent_id = coalesce(:parent_id, parent_id),
        deleted_us = null
    where id = :id
"""

_TITLE = {
    TitleSource.USER: "update session set user_title = :title where id = :id",
    TitleSource.AGENT: "update session set agent_title = :title where id = :id",
    TitleSource.PROMPT: """
        update session set prompt_title = iif(:title is null, null, coalesce(prompt_title, :title))
        where id = :id
    """,
}

_READ = """
    select seq, lines, side, kind, at_us, protocol, codec, data
    from stretch
    where session = :key and seq > :seq
    order by seq limit :limit
"""


class SqliteStore:
    """One SQLite file. `patience` is how many seconds to wait for other writers."""

    def __init__(self, path: Path, *, create: bool = True, patience: float = 3.0) -> None:
        self._path = path
        self._patience = patience
        self._mutex = RLock()
        self._synchronous: str | None = None
        with _translated(path):
            if create:
                _make_private_file(path)
            elif not path.exists():
                raise StoreUnavailable(f"there is no store at {path}")
            self.lock = FileLock(path.with_name(path.name + ".lock"))
            # Any: the types that apsw comes with need Python 3.12.
            self._db: Any = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                self._prepare()
            except BaseException:
                self.close()
                raise

    def write(self, changes: Sequence[Change], *, sync: bool = False) -> None:
        """Apply `changes`."""
        with self._transaction(sync=sync):
            for change in changes:
                self._apply(change)

    def read(self, session_id: str, *, after: int = 0) -> Iterator[Entry]:
        """Yield entries."""
        key = self._key_of(session_id)
        seq = self._row_start(key, after)
        while rows := self._query(_READ, {"key": key, "seq": seq, "limit": _ROWS_A_READ}):
            for row in rows:
                for entry in _entries(row):
                    if entry.seq > after:
                        yield entry
            seq = rows[-1][0]

    def session(self, session_id: str) -> Session:
        """Return one session."""
        rows = self._query(f"{_SESSION} where id = ?", (session_id,))
        if not rows:
            raise SessionNotFound(session_id)
        return _session(rows[0])

    def sessions(self, page: Page) -> list[Session]:
        """List sessions."""
        conditions, values = _conditions(page)
        where = f"where {' and '.join(conditions)}" if conditions else ""
        sql = f"{_SESSION} {where} order by updated_us desc, id desc limit :limit"
        return [_session(row) for row in self._query(sql, values | {"limit": page.limit})]

    def find(self, prefix: str) -> Session:
        """Return the session that `prefix` means."""
        # A range, because `like` knows wildcards, ignores case and uses no index here.
        sql = f"{_SESSION} where id >= :prefix and id < :beyond order by id limit 100"
        rows = self._query(sql, {"prefix": prefix, "beyond": prefix + chr(0x10FFFF)})
        if not rows or not prefix:
            raise SessionNotFound(prefix)
        if len(rows) > 1 and rows[0][0] != prefix:
            raise SessionAmbiguous(prefix, [row[0] for row in rows])
        return _session(rows[0])

    def close(self) -> None:
        """Close the file."""
        with self._mutex:
            self._db.close()
            self.lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- opening ------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._db.set_busy_timeout(int(self._patience * 1000))
        done = schema_version(self._db)
        if done > len(MIGRATIONS):
            raise StoreTooNew(str(self._path), done, len(MIGRATIONS))
        if done == 0:
            # The mode is kept in the file, and changing it needs the file alone.
            with self._alone():
                self._db.pragma("journal_mode", "wal")
        if done < len(MIGRATIONS):
            with self._transaction(sync=True):
                migrate(self._db)
        self._db.pragma("foreign_keys", "on")
        self._db.pragma("journal_size_limit", _LARGEST_IDLE_WAL)

    # -- writing ------------------------------------------------------------------------

    @contextmanager
    def _transaction(self, *, sync: bool) -> Generator[None]:
        with self._mutex, _translated(self._path), self._alone():
            self._set_synchronous("full" if sync else "normal")
            self._execute("begin immediate")
            try:
                yield
                self._execute("commit")
            except BaseException:
                # Some errors (a full disk) have rolled the transaction back already.
                if self._db.in_transaction:
                    self._execute("rollback")
                raise

    def _set_synchronous(self, level: str) -> None:
        if level != self._synchronous:
            self._db.pragma("synchronous", level)
            self._synchronous = level

    @contextmanager
    def _alone(self) -> Generator[None]:
        is_held = self.lock.acquire(self._patience)
        try:
            yield
        finally:
            if is_held:
                self.lock.release()

    def _apply(self, change: Change) -> None:
        match change:
            case Stretch():
                self._append(change)
            case Opened():
                self._update_or_make(_OPEN, _told(change), change.at_us)
            case Titled():
                values = {"id": change.session_id, "title": change.title}
                self._update_or_make(_TITLE[change.source], values, change.at_us)
            case Deleted():
                sql = "update session set deleted_us = ? where id = ?"
                self._execute(sql, (change.at_us, change.session_id))

    def _append(self, stretch: Stretch) -> None:
        count = len(stretch.lines)
        values: dict[str, object] = {"id": stretch.session_id, "lines": count}
        sql = _APPEND
        if stretch.kind in ACTIVITY:
            sql = _APPEND_ACTIVITY
            values["turns"] = count if stretch.kind is Kind.PROMPT else 0
            values["at_us"] = stretch.at_us
        key, last_seq = self._update_or_make(sql, values, stretch.at_us)[0]
        data = b"\n".join(stretch.lines)
        if data.count(b"\n") != count - 1:
            raise ValueError("a line must not contain a newline")
        self._execute(
            "insert into stretch values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                key,
                last_seq - count + 1,
                count,
                stretch.side.value,
                stretch.kind.value,
                stretch.at_us,
                stretch.protocol,
                _CODEC_LINES,
                data,
            ),
        )

    def _update_or_make(self, sql: str, values: dict[str, Any], at_us: int) -> list[_Row]:
        rows = self._execute(sql, values)
        if self._db.changes() == 0:
            self._execute(_MAKE, {"id": values["id"], "at_us": at_us})
            rows = self._execute(sql, values)
        return rows

    # -- reading ------------------------------------------------------------------------

    def _query(self, sql: str, values: _Values = ()) -> list[_Row]:
        with self._mutex, _translated(self._path):
            return self._execute(sql, values)

    def _execute(self, sql: str, values: _Values = ()) -> list[_Row]:
        return self._db.execute(sql, values).fetchall()

    def _key_of(self, session_id: str) -> int:
        rows = self._query("select key from session where id = ?", (session_id,))
        if not rows:
            raise SessionNotFound(session_id)
        return rows[0][0]

    def _row_start(self, key: int, after: int) -> int:
        """Return a seq below that of the row which holds `after` + 1."""
        sql = "select max(seq) - 1 from stretch where session = ? and seq <= ?"
        return self._query(sql, (key, after + 1))[0][0] or 0


def _entries(row: _Row) -> Iterator[Entry]:
    seq, count, side, kind, at_us, protocol, codec, data = row
    if codec != _CODEC_LINES:
        raise StoreError(f"entry {seq} is packed in a way unknown to this Rekindle: upgrade it")
    lines = cast("bytes", data).split(b"\n") if count > 1 else [data]
    for offset, line in enumerate(lines):
        yield Entry(
            seq=seq + offset,
            side=Side(side),
            kind=Kind(kind),
            at_us=at_us,
            line=line,
            protocol=protocol,
        )


def _session(row: _Row) -> Session:
    (
        id_, agent_session_id, agent_name, agent_version, command, cwd, directories,
        user_title, agent_title, prompt_title, created_us, updated_us, parent_id,
        archived_us, deleted_us, last_seq, turns,
    ) = row  # fmt: skip
    titles = {
        TitleSource.USER: user_title,
        TitleSource.AGENT: agent_title,
        TitleSource.PROMPT: prompt_title,
    }
    source = next((source for source, title in titles.items() if title is not None), None)
    return Session(
        id=id_,
        agent_session_id=agent_session_id,
        agent=AgentIdentity(
            name=agent_name, version=agent_version, command=tuple(json.loads(command))
        ),
        cwd=cwd,
        directories=tuple(json.loads(directories)),
        title=titles[source] if source else None,
        title_source=source,
        created_us=created_us,
        updated_us=updated_us,
        parent_id=parent_id,
        archived_us=archived_us,
        deleted_us=deleted_us,
        last_seq=last_seq,
        turns=turns,
    )


def _told(opened: Opened) -> dict[str, Any]:
    agent = opened.agent
    directories = opened.directories
    return {
        "id": opened.session_id,
        "agent_session_id": opened.agent_session_id,
        "agent_name": agent.name if agent else None,
        "agent_version": agent.version if agent else None,
        "command": json.dumps(agent.command) if agent else None,
        "program": agent.program if agent else None,
        "cwd": opened.cwd,
        "directories": None if directories is None else json.dumps(directories),
        "parent_id": opened.parent_id,
    }


def _conditions(page: Page) -> tuple[list[str], dict[str, Any]]:
    conditions: list[str] = []
    values: dict[str, Any] = {}
    if page.cwd is not None:
        conditions.append("cwd = :cwd")
        values["cwd"] = page.cwd
    if page.agent is not None:
        conditions.append("(:agent = agent_name collate nocase or :agent = program collate nocase)")
        values["agent"] = page.agent
    if page.before is not None:
        conditions.append("(updated_us, id) < (:before_us, :before_id)")
        values["before_us"], values["before_id"] = page.before
    if not page.with_archived:
        conditions.append("archived_us is null")
    if not page.with_deleted:
        conditions.append("deleted_us is null")
    return conditions, values


def _make_private_file(path: Path) -> None:
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    # SQLite gives its files beside the store the store's own mode.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


@contextmanager
def _translated(path: Path) -> Generator[None]:
    """Turn what SQLite and the system say into what a person can act on."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreUnavailable(f"the store {path} is locked by another process") from error
    except apsw.FullError as error:
        raise StoreUnavailable(f"the disk with the store {path} is full") from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
        raise StoreUnavailable(f"the store {path} cannot be written: {error}") from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise StoreUnavailable(f"the store {path} is damaged: {error}") from error
    except (apsw.Error, OSError) as error:
        raise StoreUnavailable(f"the store {path} failed: {error}") from error
