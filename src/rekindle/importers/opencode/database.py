"""The sessions in a database, and the messages of one of them."""

import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rekindle.importers.base import Found
from rekindle.importers.database import Database, Value
from rekindle.importers.entry_builder import LATEST_US
from rekindle.importers.line_reader import LONGEST
from rekindle.importers.opencode.records import Session, Stored, Times, read_revert

_OF_SESSION = (
    "id", "parent_id", "directory", "title", "version", "revert", "time_created", "time_updated",
    "time_archived",
)  # fmt: skip
_NEEDED = {"id", "directory", "title", "time_created", "time_updated"}
# They change whenever the agent has done a step.
_COUNTS = (
    "cost", "tokens_input", "tokens_output", "tokens_reasoning", "tokens_cache_read",
    "tokens_cache_write",
)  # fmt: skip
NEWEST = 8
"""How many messages are looked at to see a change: what was typed comes after what goes on."""
# Nothing is read but indexes, and rows of the last messages without what is said in them.
_CHANGES = {
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
_NEEDED_OF = {
    "message": {"id", "session_id", "time_created", "time_updated", "data"},
    "part": {"id", "message_id", "time_updated", "data"},
    "session_message": {
        "id", "session_id", "type", "seq", "time_created", "time_updated", "data",
    },
    "todo": {"session_id", "content", "status", "priority", "position", "time_updated"},
}  # fmt: skip
"""What is read of each table. For a while, `session_message` was there without an order, unused."""
_PARTS = """
    || ' ' || (select count(*) || ' ' || coalesce(max(time_updated), '') from part
               where message_id = m.id)
"""
_DATA = f"case when octet_length(data) <= {LONGEST} then cast(data as blob) end"
_MESSAGES = f"""
    select cast(id as blob), {_DATA}, time_created
    from message where session_id = ? order by time_created, id
"""  # noqa: S608 - a number of ours
_PARTS_OF = f"""
    select cast(id as blob), {_DATA} from part where message_id = cast(? as text) order by id
"""  # noqa: S608 - a number of ours
_EVENTS = f"""
    select cast(id as blob), cast(type as blob), {_DATA} from session_message
    where session_id = ?1 and (?2 is null or seq >= (
        select min(seq) from session_message
        where session_id = ?1 and type = 'user' and time_created > ?2
    )) order by seq
"""  # noqa: S608 - a number of ours
_TODOS = """
    select cast(content as blob), cast(status as blob), cast(priority as blob)
    from todo where session_id = ? order by position
"""
_BYTES_A_MESSAGE = 8192


def sessions_in(path: Path) -> Iterator[tuple[Found, Session]]:
    """Yield the sessions of a database. Raises OSError."""
    database = Database(path)
    # Other tools have tables of that name, too.
    if not database.columns.get("session", set()) >= _NEEDED:
        return
    tables = _tables(database)
    parts = _PARTS if "part" in tables else ""
    told = [it for name, it in _CHANGES.items() if name in tables]
    wanted = [it.format(parts=parts, newest=NEWEST) for it in told]
    statement = _session(database, wanted, "order by time_created, id")
    for row in database.rows(statement):
        session = _read(row)
        if session is not None:
            yield _found(path, row, session), session
    if database.is_damaged:
        raise OSError("the database is damaged")


def _tables(database: Database) -> set[str]:
    """Return the tables that have what is read of them: other versions have fewer, or others."""
    has = database.columns
    return {name for name, needed in _NEEDED_OF.items() if has.get(name, set()) >= needed}


def _session(database: Database, more: list[str], which: str) -> str:
    has = database.columns.get("session", set())
    names = (*_OF_SESSION, *_COUNTS)
    wanted = [f"cast(s.{name} as blob)" if name in has else "null" for name in names]
    return f"select {', '.join([*wanted, *more])} from session s {which}"  # noqa: S608 - ours


def _read(row: tuple[Value, ...]) -> Session | None:
    words = [_text(it) for it in row]
    named = dict(zip(_OF_SESSION, words, strict=False))
    if not named["id"]:
        return None
    revert = named["revert"]
    return Session(
        id=named["id"],
        parent_id=named["parent_id"] or None,
        directory=named["directory"] or None,
        title=named["title"],
        version=named["version"],
        revert=read_revert(revert.encode()) if revert else None,
        time=Times(
            created=_number(named["time_created"]),
            updated=_number(named["time_updated"]),
            archived=_number(named["time_archived"]),
        ),
    )


def _found(path: Path, row: tuple[Value, ...], session: Session) -> Found:
    counted = row[len(_OF_SESSION) + len(_COUNTS) :]
    messages = sum(it for it in counted if isinstance(it, int))
    updated = max(session.time.updated or 0, session.time.created or 0)
    return Found(
        path=path,
        part=session.id,
        stamp=hashlib.sha256(repr(row).encode()).hexdigest()[:32],
        size=messages * _BYTES_A_MESSAGE,
        updated_us=min(int(updated * 1000), LATEST_US),
        is_child=session.parent_id is not None,
    )


def _text(value: Value) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _number(words: str) -> float | None:
    try:
        found = float(words)
    except ValueError:
        return None
    return found if 0 <= found <= LATEST_US else None


class Rows:
    """One session in a database."""

    def __init__(self, path: Path, session_id: str) -> None:
        self._database = Database(path)
        self._tables = _tables(self._database)
        self._id = session_id
        found = self._database.rows(_session(self._database, [], "where id = ?"), session_id)
        self.session = next((_read(row) for row in found), None) or Session(id=session_id)

    @property
    def is_damaged(self) -> bool:
        """Whether there was more that could not be read."""
        return self._database.is_damaged

    def messages(self) -> Iterator[Stored]:
        """Yield its messages, in order. What the newest version has written comes after all."""
        last: Value = None
        if "message" in self._tables:
            for message_id, data, last_at in self._database.rows(_MESSAGES, self._id):
                last = last_at
                yield Stored(_text(message_id), "", data, partial(self._parts, message_id))
        if "session_message" in self._tables:
            # The same may be there in both ways, but not what was asked later.
            for message_id, kind, data in self._database.rows(_EVENTS, self._id, last):
                yield Stored(_text(message_id), _text(kind) or "unknown", data, _no_parts)

    def _parts(self, message_id: bytes) -> Iterator[tuple[str, bytes | None]]:
        if "part" in self._tables:
            for part_id, data in self._database.rows(_PARTS_OF, message_id):
                yield _text(part_id), data

    def todos(self) -> list[tuple[str, str, str]]:
        """Return what is to be done: what, how far it is, and how urgent."""
        if "todo" not in self._tables:
            return []
        return [
            (_text(content), _text(status), _text(priority))
            for content, status, priority in self._database.rows(_TODOS, self._id)
        ]


def _no_parts() -> Iterator[tuple[str, bytes | None]]:
    return iter(())
