"""The sessions in OpenCode's database, and the messages of one of them."""

import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rekindle.importers.base import FoundSession
from rekindle.importers.database import ReadOnlyDatabase, Value
from rekindle.importers.entry_builder import MAX_TIME_US
from rekindle.importers.line_reader import MAX_LINE_BYTES
from rekindle.importers.opencode.records import (
    OpenCodeSession,
    OpenCodeTimes,
    StoredMessage,
    read_revert,
)

_SESSION_COLUMNS = (
    "id", "parent_id", "directory", "title", "version", "revert", "time_created", "time_updated",
    "time_archived",
)  # fmt: skip
_REQUIRED_SESSION_COLUMNS = {"id", "directory", "title", "time_created", "time_updated"}
# These change after each step of the agent.
_COUNTER_COLUMNS = (
    "cost", "tokens_input", "tokens_output", "tokens_reasoning", "tokens_cache_read",
    "tokens_cache_write",
)  # fmt: skip
STAMPED_MESSAGES = 8
"""The number of latest messages in a stamp. Queued prompts come after a message that changes."""
# These read only indexes, and the latest rows without their data.
_STAMP_COLUMNS = {
    "message": """
        (select count(*) from message where session_id = s.id),
        (select group_concat(it) from (
            select id || ' ' || time_updated {parts} as it from message m where session_id = s.id
            order by time_created desc, id desc limit {newest}
        ))
    """,
    "session_message": """
        (select count(*) from session_message where session_id = s.id),
        (select group_concat(it) from (
            select seq || ' ' || time_updated as it from session_message where session_id = s.id
            order by seq desc limit {newest}
        ))
    """,
    "todo": "(select count(*) || ' ' || max(time_updated) from todo where session_id = s.id)",
}
_REQUIRED_COLUMNS = {
    "message": {"id", "session_id", "time_created", "time_updated", "data"},
    "part": {"id", "message_id", "time_updated", "data"},
    "session_message": {
        "id", "session_id", "type", "seq", "time_created", "time_updated", "data",
    },
    "todo": {"session_id", "content", "status", "priority", "position", "time_updated"},
}  # fmt: skip
"""The columns that are read. Some versions had a `session_message` without `seq`, and unused."""
_PARTS_STAMP = """
    || ' ' || (select count(*) || ' ' || coalesce(max(time_updated), '') from part
               where message_id = m.id)
"""
_DATA = f"case when octet_length(data) <= {MAX_LINE_BYTES} then cast(data as blob) end"
_MESSAGES = f"""
    select cast(id as blob), {_DATA}, time_created
    from message where session_id = ? order by time_created, id
"""  # noqa: S608 - constants only
_PARTS = f"""
    select cast(id as blob), {_DATA} from part where message_id = cast(? as text) order by id
"""  # noqa: S608 - constants only
_NEWEST_MESSAGES = f"""
    select cast(id as blob), cast(type as blob), {_DATA} from session_message
    where session_id = ?1 and (?2 is null or seq >= (
        select min(seq) from session_message
        where session_id = ?1 and type = 'user' and time_created > ?2
    )) order by seq
"""  # noqa: S608 - constants only
_TODOS = """
    select cast(content as blob), cast(status as blob), cast(priority as blob)
    from todo where session_id = ? order by position
"""
BYTES_PER_MESSAGE = 8192
"""The assumed size of a message with its parts."""


def find_in_database(path: Path) -> Iterator[tuple[FoundSession, OpenCodeSession]]:
    """Yield the sessions of a database. Raises OSError."""
    database = ReadOnlyDatabase(path)
    # Databases of other tools may have a table with this name.
    if not database.columns.get("session", set()) >= _REQUIRED_SESSION_COLUMNS:
        return
    tables = _usable_tables(database)
    parts = _PARTS_STAMP if "part" in tables else ""
    stamps = [columns for name, columns in _STAMP_COLUMNS.items() if name in tables]
    extra = [columns.format(parts=parts, newest=STAMPED_MESSAGES) for columns in stamps]
    statement = _session_query(database, extra, "order by time_created, id")
    for row in database.rows(statement):
        session = _session_of(row)
        if session is not None:
            yield _found_session(path, row, session), session
    if database.is_damaged:
        raise OSError("the database is damaged")


def _usable_tables(database: ReadOnlyDatabase) -> set[str]:
    """Return the tables that have all required columns. They differ between versions."""
    columns = database.columns
    return {
        name for name, required in _REQUIRED_COLUMNS.items() if columns.get(name, set()) >= required
    }


def _session_query(database: ReadOnlyDatabase, extra: list[str], clause: str) -> str:
    available = database.columns.get("session", set())
    names = (*_SESSION_COLUMNS, *_COUNTER_COLUMNS)
    values = [f"cast(s.{name} as blob)" if name in available else "null" for name in names]
    return f"select {', '.join([*values, *extra])} from session s {clause}"  # noqa: S608 - ours


def _session_of(row: tuple[Value, ...]) -> OpenCodeSession | None:
    values = dict(zip(_SESSION_COLUMNS, map(_text, row), strict=False))
    if not values["id"]:
        return None
    revert = values["revert"]
    return OpenCodeSession(
        id=values["id"],
        parent_id=values["parent_id"] or None,
        directory=values["directory"] or None,
        title=values["title"],
        version=values["version"],
        revert=read_revert(revert.encode()) if revert else None,
        time=OpenCodeTimes(
            created=_number(values["time_created"]),
            updated=_number(values["time_updated"]),
            archived=_number(values["time_archived"]),
        ),
    )


def _found_session(path: Path, row: tuple[Value, ...], session: OpenCodeSession) -> FoundSession:
    extra = row[len(_SESSION_COLUMNS) + len(_COUNTER_COLUMNS) :]
    messages = sum(value for value in extra if isinstance(value, int))
    updated = max(session.time.updated or 0, session.time.created or 0)
    return FoundSession(
        path=path,
        part=session.id,
        stamp=hashlib.sha256(repr(row).encode()).hexdigest()[:32],
        size=messages * BYTES_PER_MESSAGE,
        updated_us=min(int(updated * 1000), MAX_TIME_US),
        is_child=session.parent_id is not None,
    )


def _text(value: Value) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= MAX_TIME_US else None


class DatabaseSession:
    """One session in a database."""

    def __init__(self, path: Path, session_id: str) -> None:
        self._database = ReadOnlyDatabase(path)
        self._tables = _usable_tables(self._database)
        self._id = session_id
        query = _session_query(self._database, [], "where id = ?")
        rows = self._database.rows(query, session_id)
        session = next((_session_of(row) for row in rows), None)
        self.session = session or OpenCodeSession(id=session_id)

    @property
    def is_damaged(self) -> bool:
        """Whether some rows could not be read."""
        return self._database.is_damaged

    def messages(self) -> Iterator[StoredMessage]:
        """Yield its messages in order. Messages of the newest version come last."""
        last_time: Value = None
        if "message" in self._tables:
            for message_id, data, time in self._database.rows(_MESSAGES, self._id):
                last_time = time
                parts = partial(self._parts, message_id)
                yield StoredMessage(_text(message_id), "", data, parts)
        if "session_message" in self._tables:
            # Both tables may have the same messages, so only those of later prompts are read.
            rows = self._database.rows(_NEWEST_MESSAGES, self._id, last_time)
            for message_id, kind, data in rows:
                yield StoredMessage(_text(message_id), _text(kind) or "unknown", data, _no_parts)

    def _parts(self, message_id: bytes) -> Iterator[tuple[str, bytes | None]]:
        if "part" in self._tables:
            for part_id, data in self._database.rows(_PARTS, message_id):
                yield _text(part_id), data

    def todos(self) -> list[tuple[str, str, str]]:
        """Return the to-do list: the content, status and priority of each item."""
        if "todo" not in self._tables:
            return []
        return [
            (_text(content), _text(status), _text(priority))
            for content, status, priority in self._database.rows(_TODOS, self._id)
        ]


def _no_parts() -> Iterator[tuple[str, bytes | None]]:
    return iter(())
