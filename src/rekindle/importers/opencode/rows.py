"""The sessions in a database, and the messages of one of them."""

import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rekindle.importers.base import Found
from rekindle.importers.opencode.database import Database, Value
from rekindle.importers.opencode.records import Session, Stored, Times, read_revert
from rekindle.importers.telling import LATEST_US

LARGEST = 64 * 1024 * 1024
"""What is larger is passed over: nobody could show it."""

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
# Nothing is read but indexes, and rows of the last message without what is said in them.
_CHANGES = {
    "message": """
        (select count(*) from message where session_id = s.id),
        (select id || ' ' || time_updated {parts} from message m where session_id = s.id
         order by time_created desc, id desc limit 1)
    """,
    "session_message": """
        (select count(*) from session_message where session_id = s.id),
        (select seq || ' ' || time_updated from session_message where session_id = s.id
         order by seq desc limit 1)
    """,
    "todo": "(select count(*) || ' ' || max(time_updated) from todo where session_id = s.id)",
}
_PARTS = """
    || ' ' || (select count(*) || ' ' || coalesce(max(time_updated), '') from part
               where message_id = m.id)
"""
_DATA = f"case when octet_length(data) <= {LARGEST} then cast(data as blob) end"
_MESSAGES = f"""
    select cast(id as blob), {_DATA}, time_created
    from message where session_id = ? order by time_created, id
"""  # noqa: S608 - a number of ours
_PARTS_OF = f"""
    select cast(p.message_id as blob), cast(p.id as blob), {_DATA.replace("data", "p.data")}
    from message m cross join part p on p.message_id = m.id
    where m.session_id = ? order by m.time_created, m.id, p.id
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
    parts = _PARTS if "part" in database.columns else ""
    wanted = [it.format(parts=parts) for name, it in _CHANGES.items() if name in database.columns]
    statement = _session(database, wanted, "order by time_created, id")
    for row in database.rows(statement):
        session = _read(row)
        if session is not None:
            yield _found(path, row, session), session
    if database.is_damaged:
        raise OSError(f"the database {path} is damaged")


def _session(database: Database, more: list[str], which: str) -> str:
    has = database.columns["session"]
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
        self._id = session_id
        found = self._database.rows(_session(self._database, [], "where id = ?"), session_id)
        self.session = next((_read(row) for row in found), None) or Session(id=session_id)

    @property
    def is_damaged(self) -> bool:
        """Whether there was more that could not be read."""
        return self._database.is_damaged

    def messages(self) -> Iterator[Stored]:
        """Yield its messages, in order. What the newest version has written comes after all."""
        tables = self._database.columns
        last: Value = None
        if "message" in tables:
            parts = _Parts(self._database, self._id)
            for message_id, data, last_at in self._database.rows(_MESSAGES, self._id):
                last = last_at
                yield Stored(_text(message_id), "", data, partial(parts.of, message_id))
                parts.leave(message_id)
        if "session_message" in tables:
            # The same may be there in both ways, but not what was asked later.
            for message_id, kind, data in self._database.rows(_EVENTS, self._id, last):
                yield Stored(_text(message_id), _text(kind) or "unknown", data, _no_parts)

    def todos(self) -> list[tuple[str, str, str]]:
        """Return what is to be done: what, how far it is, and how urgent."""
        if "todo" not in self._database.columns:
            return []
        return [
            (_text(content), _text(status), _text(priority))
            for content, status, priority in self._database.rows(_TODOS, self._id)
        ]


class _Parts:
    """The parts of all messages of a session, in their order, one after the other."""

    def __init__(self, database: Database, session_id: str) -> None:
        is_any = "part" in database.columns
        self._rows = database.rows(_PARTS_OF, session_id) if is_any else iter(())
        self._next = next(self._rows, None)

    def of(self, message_id: bytes) -> Iterator[tuple[str, bytes | None]]:
        """Yield those of a message."""
        while self._next is not None and self._next[0] == message_id:
            _, part_id, data = self._next
            self._next = next(self._rows, None)
            yield _text(part_id), data

    def leave(self, message_id: bytes) -> None:
        """Pass over what nobody has asked for."""
        for _ in self.of(message_id):
            pass


def _no_parts() -> Iterator[tuple[str, bytes | None]]:
    return iter(())
