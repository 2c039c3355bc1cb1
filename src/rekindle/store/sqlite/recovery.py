"""What can be read of a damaged store, put into a new one.

A row is known by its shape, whichever page it is found on, and only taken if all of it makes sense.
Where entries of a session are missing, a gap is put in their place, so that the others keep their
seq. What is lost is counted as far as what is left tells of it: by seqs between entries that are
there, by what parts the pages, and by the indexes.
"""

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from rekindle.jsonvalue import as_array, as_object, as_str, encode
from rekindle.model import Kind, Side
from rekindle.store.sqlite.codec import CODEC_LINES, origin_in
from rekindle.store.sqlite.pages import Image, Row, Value, read_page
from rekindle.store.sqlite.schema import WITHIN, Database, key_at, place, places, seq_at
from rekindle.store.sqlite.sql import APPEND, ORPHANS, ROW
from rekindle.transcript.titles import title_from_prompt

_PAGES_A_STEP = 1000
_LARGEST_KEY = 1 << 31
# A larger hole is none: the number of a row is wrong.
_LARGEST_GAP = 1_000_000

_SIDES, _KINDS = frozenset(Side), frozenset(Kind)
_TURNS = ("prompt", "answer")
_COLUMNS_OF_STRETCH = (int, str, str, int, int, int, bytes)
# After the key; a store that was made by an older Rekindle may have rows without the last ones.
_COLUMNS_OF_SESSION = (
    "id", "agent_session_id", "agent_name", "agent_version", "command", "program", "cwd",
    "directories", "user_title", "agent_title", "prompt_title", "created_us", "updated_us",
    "parent_id", "archived_us", "deleted_us", "turns", "messages", "revision",
    "origin",
)  # fmt: skip
_FEWEST_OF_SESSION = len(_COLUMNS_OF_SESSION) - 3
_NUMBERS = frozenset({"created_us", "updated_us", "archived_us", "deleted_us"})
_COUNTS = frozenset({"turns", "messages", "revision"})
_LISTS = frozenset({"command", "directories"})

_HINTS = """
    create temp table hint (
        key integer primary key, id text, cwd text, updated_us integer, times integer default 1
    );
    create temp table last (key integer primary key, place integer);
"""
_KEEP_HINT = """
    insert into hint (key, id, cwd, updated_us) values (?1, ?2, ?3, ?4)
    on conflict (key) do update set cwd = coalesce(cwd, ?3), times = times + (id = ?2)
"""
_KEEP_LAST = """
    insert into last values (?1, ?2) on conflict (key) do update set place = max(place, ?2)
"""
_KEEP_SESSION = f"""
    insert into session (key, {", ".join(_COLUMNS_OF_SESSION)})
    values (?{", ?" * len(_COLUMNS_OF_SESSION)})
"""  # noqa: S608 - all of it is ours
_IS_NEWER = """
    select 1 from session where key = ? and (updated_us, revision) < (?, ?)
"""
_KEEP_LEASE = "insert or ignore into lease values (?, ?, ?, ?, ?)"
_KEEP_FORMER = "insert or ignore into former values (?, ?)"
_KEEP_PENDING = """
    insert into pending values (?1, ?2, ?3)
    on conflict (token) do update set taken = max(taken, ?2), at_us = max(at_us, ?3)
"""
# A text has no checksum; but two that agree are right.
_TRUST_HINTS = """
    update or ignore session set id = hint.id from hint
    where hint.key = session.key and hint.id <> session.id and hint.times > 1
"""
_HINT_OF = "select id, cwd, updated_us from hint where key = ?"
_IS_PURGED = "deleted_us is not null and cwd is null and turns + messages = 0"
_PURGED = f"""
    delete from stretch where place in (
        select place from session join stretch on {WITHIN}
        where {_IS_PURGED}
    )
"""  # noqa: S608 - all of it is ours
_KEPT = f"select key, created_us from session where not ({_IS_PURGED})"  # noqa: S608 - ours
_SEQUENCE = """
    insert or replace into sqlite_sequence (rowid, name, seq)
    values (1, 'session', (select max(:last, coalesce(max(key), 0)) from session))
"""
_ID_IS_TAKEN = "select 1 from session where id = ?"


class Tally(Struct, kw_only=True, rename="camel"):
    """How much was saved, and how much is known to be lost."""

    sessions_saved: int = 0
    entries_saved: int = 0
    sessions_lost: int = 0
    entries_lost: int = 0


class Salvager:
    """Fills a new and empty store with what can be read of a damaged one."""

    def __init__(self, image: Image, db: Database) -> None:
        self._image = image
        self._db = db
        self._last_key = 0
        """The last key that was given, if that is known."""

    def fill(self) -> Iterator[float]:
        """Save what can be saved, step by step; yield which part of the work is done."""
        self._db.execute(_HINTS)
        for start in range(1, self._image.count + 1, _PAGES_A_STEP):
            with self._db:
                for number in range(start, min(start + _PAGES_A_STEP, self._image.count + 1)):
                    self._take_page(number)
            yield start / self._image.count

    def settle(self) -> Tally:
        """Make what was found into sessions that have no holes; count."""
        tally = Tally()
        with self._db:
            self._db.execute(_PURGED)
            self._db.execute(_TRUST_HINTS)
            for (key,) in self._db.execute(ORPHANS).fetchall():
                self._make_session(key)
            keys = self._db.execute(_KEPT).fetchall()
            for key, at_us in keys:
                self._close_gaps(key, at_us, tally)
            tally.sessions_saved = len(keys)
            lost = "select count(*) from hint where key not in (select key from session)"
            tally.sessions_lost = self._db.execute(lost).get
            # A key is never given again.
            self._db.execute(_SEQUENCE, {"last": self._last_key})
        return tally

    # -- what lies on the pages -----------------------------------------------------------

    def _take_page(self, number: int) -> None:
        found = read_page(self._image, number)
        for row in found.rows:
            self._take_row(row)
        for values in found.indexed:
            self._take_hint(values)
        for where in found.divisions:
            self._take_place(where)

    def _take_row(self, row: Row) -> None:
        number, values = row
        match values:
            case (None, *rest) if _are(rest, _COLUMNS_OF_STRETCH):
                self._take_stretch(number, rest)
            case (None, *rest) if _FEWEST_OF_SESSION <= len(rest) <= len(_COLUMNS_OF_SESSION):
                self._take_session(number, rest)
            case (None, str(token), int(pid), str(host), *is_over) if _are_flags(is_over):
                self._db.execute(_KEEP_LEASE, (number, token, pid, host, *(is_over or [0])))
            case ("session", int(last)) if last < _LARGEST_KEY:
                self._last_key = max(self._last_key, last)
            case (str(agent_session_id), int(key)):
                self._db.execute(_KEEP_FORMER, (agent_session_id, key))
            case (str(token), int(taken), int(at_us)):
                self._db.execute(_KEEP_PENDING, (token, taken, at_us))
            case _:
                pass

    def _take_stretch(self, where: int, values: list[Any]) -> None:
        count, side, kind, _, _, codec, data = values
        if not (0 < key_at(where) < _LARGEST_KEY and seq_at(where)):
            return
        is_known = side in _SIDES and kind in _KINDS and codec == CODEC_LINES
        if not is_known or count != data.count(b"\n") + 1:
            self._take_place(where)
            return
        lines = data.split(b"\n") if count > 1 else [data]
        sound = [kind == Kind.OPAQUE or is_json(line) for line in lines]
        if all(sound):
            self._keep_stretch(where, values)
            return
        for is_sound, run in groupby(enumerate(lines), lambda it: sound[it[0]]):
            if is_sound:
                kept = list(run)
                joined = b"\n".join(line for _, line in kept)
                self._keep_stretch(where + kept[0][0], [len(kept), *values[1:-1], joined])

    def _keep_stretch(self, where: int, values: list[Any]) -> None:
        # The same may lie on a page that is not used any more.
        self._db.execute(APPEND.replace("insert", "insert or ignore"), (where, *values))

    def _take_session(self, key: int, values: list[Value]) -> None:
        found: dict[str, Value] = dict(zip(_COLUMNS_OF_SESSION, values, strict=False))
        if not 0 < key < _LARGEST_KEY or not isinstance(found["id"], str) or not found["id"]:
            return
        row = (key, *(_sensible(name, found) for name in _COLUMNS_OF_SESSION))
        try:
            self._db.execute(_KEEP_SESSION, row)
        except apsw.ConstraintError:
            at_us, revision = _sensible("updated_us", found), _sensible("revision", found)
            if self._db.execute(_IS_NEWER, (key, at_us, revision)).get:
                self._db.execute("delete from session where key = ?", (key,))
                self._take_session(key, values)

    def _take_hint(self, values: tuple[Value, ...]) -> None:
        match values:
            case (str(kind), int(where)) if kind in _TURNS:
                self._take_place(where)
            case (int(at_us), str(id_), int(key)) if 0 < key < _LARGEST_KEY:
                self._db.execute(_KEEP_HINT, (key, id_, None, at_us))
            case (str() | None as cwd, int(at_us), str(id_), int(key)) if 0 < key < _LARGEST_KEY:
                self._db.execute(_KEEP_HINT, (key, id_, cwd, at_us))
            case _:
                pass

    def _take_place(self, where: int) -> None:
        if 0 < key_at(where) < _LARGEST_KEY:
            self._db.execute(_KEEP_LAST, (key_at(where), where))

    # -- what becomes of it -----------------------------------------------------------------

    def _make_session(self, key: int) -> None:
        """Make a session for entries whose own is lost."""
        if self._last_key and key > self._last_key:
            # No such session was ever made.
            self._db.execute("delete from stretch where place between ? and ?", places(key))
            return
        hints = self._db.execute(_HINT_OF, (key,)).fetchall() or [(None, None, None)]
        id_, cwd, updated_us = hints[0]
        told = _told_by(self._db.execute(f"{ROW} where place between ? and ?", places(key)))
        id_ = id_ or told.session_id
        if not id_ or self._db.execute(_ID_IS_TAKEN, (id_,)).get:
            id_ = f"salvaged-{key}"
        found: dict[str, Value] = {
            "id": id_,
            "agent_session_id": id_,
            # Without a folder it would not be listed.
            "cwd": cwd or told.cwd or "/",
            "prompt_title": told.title,
            "created_us": told.first_us,
            "updated_us": max(updated_us or 0, told.last_us),
            "turns": told.turns,
            "messages": told.turns,
        }
        row = (key, *(_sensible(name, found) for name in _COLUMNS_OF_SESSION))
        self._db.execute(_KEEP_SESSION, row)

    def _close_gaps(self, key: int, at_us: int, tally: Tally) -> None:
        """Let the entries of a session follow each other, and count them."""
        end, saved = place(key, 1), 0
        wrong: list[int] = []
        gaps: list[tuple[int, int, int]] = []
        for first, lines, then_us in self._without_overlaps(key, wrong):
            if first > end:
                gaps.append((end, first - end, at_us))
            end, at_us, saved = first + lines, then_us, saved + lines
        for where in wrong:
            self._db.execute("delete from stretch where place = ?", (where,))
        last = self._db.execute("select place from last where key = ?", (key,)).get or 0
        if 0 <= last - end < _LARGEST_GAP:
            gaps.append((end, last - end + 1, at_us))
        for gap in gaps:
            self._mark(*gap)
        lost = sum(count for _, count, _ in gaps)
        if not saved + lost:
            lost = self._mark_all(key, at_us)
        tally.entries_saved += saved
        tally.entries_lost += lost

    def _without_overlaps(self, key: int, wrong: list[int]) -> Iterator[tuple[int, int, int]]:
        """Yield the rows of a session; note those that lie where others do, or nowhere."""
        sql = "select place, lines, at_us from stretch where place between ? and ? order by place"
        before = end = place(key, 1)
        held: tuple[int, int, int] | None = None
        for row in self._db.execute(sql, places(key)):
            if row[0] - end >= _LARGEST_GAP or (row[0] < end and (not held or held[0] == before)):
                wrong.append(row[0])
                continue
            if held and row[0] < end:
                # It does not follow what is before it, and overlaps what comes after.
                wrong.append(held[0])
            elif held:
                yield held
                before = end
            held, end = row, row[0] + row[1]
        if held:
            yield held

    def _mark_all(self, key: int, at_us: int) -> int:
        """Mark that of a session nothing is left, if there was something."""
        counted = "select max(turns, messages) from session where key = ?"
        lost = self._db.execute(counted, (key,)).get
        if lost:
            self._mark_as(place(key, 1), lost, at_us)
        return lost

    def _mark(self, where: int, lost: int, at_us: int) -> None:
        """Put a gap where entries are missing, and as many rows of it as keep the others' seqs."""
        self._mark_as(where, lost, at_us)
        if lost > 1:
            filler = b"\n" * (lost - 2)
            row = (where + 1, lost - 1, Side.AGENT, Kind.OPAQUE, at_us, 1, CODEC_LINES, filler)
            self._db.execute(APPEND, row)

    def _mark_as(self, where: int, lost: int, at_us: int) -> None:
        gap = encode({"lostEntries": lost, "isDamage": True})
        row = (where, 1, Side.AGENT, Kind.GAP, at_us, 1, CODEC_LINES, gap)
        self._db.execute(APPEND, row)


class _Told(Struct):
    """What the entries of a session tell of it."""

    session_id: str | None = None
    cwd: str | None = None
    title: str | None = None
    turns: int = 0
    first_us: int = 0
    last_us: int = 0


def _told_by(found: Iterator[Any]) -> _Told:
    told = _Told()
    for _, _, side, kind, at_us, _, _, data in found:
        told.first_us = told.first_us or at_us
        told.last_us = max(told.last_us, at_us)
        if side != Side.CLIENT or kind not in {Kind.SETUP, Kind.PROMPT}:
            continue
        params = _params(data)
        told.session_id = told.session_id or as_str(params.get("sessionId"))
        if kind == Kind.SETUP:
            told.cwd = told.cwd or as_str(params.get("cwd"))
        else:
            told.turns += 1
            told.title = told.title or title_from_prompt(as_array(params.get("prompt")))
    return told


def _params(line: bytes) -> dict[str, Any]:
    try:
        return as_object(as_object(json.loads(line)).get("params"))
    except (ValueError, RecursionError):
        return {}


def _are(values: list[Value], types: tuple[type, ...]) -> bool:
    return len(values) == len(types) and all(map(isinstance, values, types))


def _are_flags(values: list[Value]) -> bool:
    return values in ([], [0], [1])


def _sensible(name: str, found: dict[str, Value]) -> Value:
    """Return a column of a session if it makes sense, else what it is where nothing is known."""
    value = found.get(name)
    if name in _LISTS:
        return value if isinstance(value, str) and _is_list_of_words(value) else "[]"
    if name in _COUNTS:
        return value if isinstance(value, int) and value >= 0 else 0
    if name in _NUMBERS:
        is_needed = name in {"created_us", "updated_us"}
        return value if isinstance(value, int) else (0 if is_needed else None)
    if name == "agent_session_id":
        return value if isinstance(value, str) else ""
    if name == "origin":
        return value if isinstance(value, str) and _is_origin(value) else None
    return value if isinstance(value, str) else None


def _is_list_of_words(value: str) -> bool:
    try:
        msgspec.json.decode(value, type=list[str])
    except (ValueError, RecursionError):
        return False
    return True


def _is_origin(value: str) -> bool:
    try:
        origin_in(value)
    except ValueError:
        return False
    return True


_check_json = msgspec.json.Decoder(msgspec.Raw).decode


def is_json(line: bytes) -> bool:
    """Tell whether a line can be read at all."""
    try:
        line.decode()
        _check_json(line)
    except ValueError:
        try:
            json.loads(line)
        except (ValueError, RecursionError):
            return False
    return True
