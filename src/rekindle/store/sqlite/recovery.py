"""Copy the readable rows of a damaged store into a new one.

A row is recognised by the types of its columns, on whatever page it is found, and copied only if
all of it is valid. A gap replaces missing entries of a session, so that the others keep their seqs.
Losses are counted as far as the rest shows them: by missing seqs between entries, by the separators
above the leaf pages, and by the indexes.
"""

import json
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from rekindle.jsonvalue import as_array, as_object, as_str, encode
from rekindle.model import Kind, Side
from rekindle.store.sqlite.codec import CODEC_LINES, decode_origin
from rekindle.store.sqlite.file_pages import DatabaseImage, Row, Value, read_page
from rekindle.store.sqlite.schema import WITHIN, Database, key_at, place, places, seq_at
from rekindle.store.sqlite.sql import APPEND, ORPHANS, ROW

_PAGES_PER_STEP = 1000
_MAX_KEY = 1 << 31
# A larger gap means that the rowid itself is damaged.
_MAX_GAP = 1_000_000

_SIDES, _KINDS = frozenset(Side), frozenset(Kind)
_TURNS = ("prompt", "answer")
_STRETCH_COLUMNS = (int, str, str, int, int, int, bytes)
# After the key. Rows that an older Rekindle wrote may lack the last ones.
_SESSION_COLUMNS = (
    "id", "agent_session_id", "agent_name", "agent_version", "command", "program", "cwd",
    "directories", "user_title", "agent_title", "prompt_title", "created_us", "updated_us",
    "parent_id", "archived_us", "deleted_us", "turns", "messages", "revision",
    "origin", "saved_turns", "agent_archived",
)  # fmt: skip
_MIN_SESSION_COLUMNS = len(_SESSION_COLUMNS) - 5
_NUMBERS = frozenset({"created_us", "updated_us", "archived_us", "deleted_us"})
_COUNTS = frozenset({"turns", "messages", "revision", "saved_turns", "agent_archived"})
_LISTS = frozenset({"command", "directories"})

_HINTS = """
    create temp table hint (
        key integer primary key, id text, cwd text, updated_us integer, times integer default 1
    );
    create temp table last (key integer primary key, place integer);
"""
_INSERT_HINT = """
    insert into hint (key, id, cwd, updated_us) values (?1, ?2, ?3, ?4)
    on conflict (key) do update set cwd = coalesce(cwd, ?3), times = times + (id = ?2)
"""
_INSERT_LAST = """
    insert into last values (?1, ?2) on conflict (key) do update set place = max(place, ?2)
"""
_INSERT_SESSION = f"""
    insert into session (key, {", ".join(_SESSION_COLUMNS)})
    values (?{", ?" * len(_SESSION_COLUMNS)})
"""  # noqa: S608 - constants only
_IS_NEWER = """
    select 1 from session where key = ? and (updated_us, revision) < (?, ?)
"""
_INSERT_LEASE = "insert or ignore into lease values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_LEASE_DEFAULTS = (0, 1, "", "", 0)
_INSERT_EPOCH = "insert or ignore into epoch values (?, ?, ?)"
_INSERT_FORMER = "insert or ignore into former values (?, ?)"
_INSERT_PENDING = """
    insert into pending values (?1, ?2, ?3)
    on conflict (token) do update set taken = max(taken, ?2), at_us = max(at_us, ?3)
"""
# Text has no checksum. An id that two indexes agree on is right.
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
"""  # noqa: S608 - constants only
_KEPT = f"select key, created_us from session where not ({_IS_PURGED})"  # noqa: S608
_SEQUENCE = """
    insert or replace into sqlite_sequence (rowid, name, seq)
    values (1, 'session', (select max(:last, coalesce(max(key), 0)) from session))
"""
_ID_IS_TAKEN = "select 1 from session where id = ?"


class RecoveryCounts(Struct, kw_only=True):
    """Saved and lost sessions and entries, as far as known."""

    sessions_saved: int = 0
    entries_saved: int = 0
    sessions_lost: int = 0
    entries_lost: int = 0


class PageRecovery:
    """Fills a new and empty store with the readable rows of a damaged one."""

    def __init__(
        self,
        image: DatabaseImage,
        db: Database,
        title_from_prompt: Callable[[list[Any]], str | None],
    ) -> None:
        self._image = image
        self._db = db
        self._title_from_prompt = title_from_prompt
        self._last_key = 0
        """The last key that the damaged store assigned, if it is known."""

    def copy_rows(self) -> Iterator[float]:
        """Copy all valid rows, step by step; yield how much is done, from 0 to 1."""
        self._db.execute(_HINTS)
        for start in range(1, self._image.count + 1, _PAGES_PER_STEP):
            with self._db:
                for number in range(start, min(start + _PAGES_PER_STEP, self._image.count + 1)):
                    self._copy_page(number)
            yield start / self._image.count

    def complete(self) -> RecoveryCounts:
        """Turn the rows into sessions without missing seqs; return the counts."""
        counts = RecoveryCounts()
        with self._db:
            self._db.execute(_PURGED)
            self._db.execute(_TRUST_HINTS)
            for (key,) in self._db.execute(ORPHANS).fetchall():
                self._create_session(key)
            keys = self._db.execute(_KEPT).fetchall()
            for key, at_us in keys:
                self._close_gaps(key, at_us, counts)
            counts.sessions_saved = len(keys)
            lost = "select count(*) from hint where key not in (select key from session)"
            counts.sessions_lost = self._db.execute(lost).get
            # A key is never reused.
            self._db.execute(_SEQUENCE, {"last": self._last_key})
        return counts

    # -- pages ---------------------------------------------------------------------------

    def _copy_page(self, number: int) -> None:
        content = read_page(self._image, number)
        for row in content.rows:
            self._copy_row(row)
        for values in content.index_rows:
            self._add_hint(values)
        for where in content.separators:
            self._add_place(where)

    def _copy_row(self, row: Row) -> None:
        number, values = row
        match values:
            case (None, *rest) if _are(rest, _STRETCH_COLUMNS):
                self._copy_stretch(number, rest)
            case (None, *rest) if _MIN_SESSION_COLUMNS <= len(rest) <= len(_SESSION_COLUMNS):
                self._copy_session(number, rest)
            case (None, str(token), int(pid), str(host), *rest) if _are_of_lease(rest):
                later = (*rest, *_LEASE_DEFAULTS[len(rest) :])
                self._db.execute(_INSERT_LEASE, (number, token, pid, host, *later))
            case (int(key), int(epoch), int(seq)):
                self._db.execute(_INSERT_EPOCH, (key, epoch, seq))
            case ("session", int(last)) if last < _MAX_KEY:
                self._last_key = max(self._last_key, last)
            case (str(agent_session_id), int(key)):
                self._db.execute(_INSERT_FORMER, (agent_session_id, key))
            case (str(token), int(taken), int(at_us)):
                self._db.execute(_INSERT_PENDING, (token, taken, at_us))
            case _:
                pass

    def _copy_stretch(self, where: int, values: list[Any]) -> None:
        count, side, kind, _, _, codec, data = values
        if not (0 < key_at(where) < _MAX_KEY and seq_at(where)):
            return
        is_known = side in _SIDES and kind in _KINDS and codec == CODEC_LINES
        if not is_known or count != data.count(b"\n") + 1:
            self._add_place(where)
            return
        lines = data.split(b"\n") if count > 1 else [data]
        valid = [kind == Kind.OPAQUE or is_json(line) for line in lines]
        if all(valid):
            self._insert_stretch(where, values)
            return
        for is_valid, run in groupby(enumerate(lines), lambda it: valid[it[0]]):
            if is_valid:
                kept = list(run)
                joined = b"\n".join(line for _, line in kept)
                self._insert_stretch(where + kept[0][0], [len(kept), *values[1:-1], joined])

    def _insert_stretch(self, where: int, values: list[Any]) -> None:
        # A copy of the row may be on a page that is not in use any more.
        self._db.execute(APPEND.replace("insert", "insert or ignore"), (where, *values))

    def _copy_session(self, key: int, values: list[Value]) -> None:
        found: dict[str, Value] = dict(zip(_SESSION_COLUMNS, values, strict=False))
        if not 0 < key < _MAX_KEY or not isinstance(found["id"], str) or not found["id"]:
            return
        row = (key, *(_valid_or_default(name, found) for name in _SESSION_COLUMNS))
        try:
            self._db.execute(_INSERT_SESSION, row)
        except apsw.ConstraintError:
            at_us, revision = (
                _valid_or_default("updated_us", found),
                _valid_or_default("revision", found),
            )
            if self._db.execute(_IS_NEWER, (key, at_us, revision)).get:
                self._db.execute("delete from session where key = ?", (key,))
                self._copy_session(key, values)

    def _add_hint(self, values: tuple[Value, ...]) -> None:
        match values:
            case (str(kind), int(where)) if kind in _TURNS:
                self._add_place(where)
            case (int(at_us), str(id_), int(key)) if 0 < key < _MAX_KEY:
                self._db.execute(_INSERT_HINT, (key, id_, None, at_us))
            case (str() | None as cwd, int(at_us), str(id_), int(key)) if 0 < key < _MAX_KEY:
                self._db.execute(_INSERT_HINT, (key, id_, cwd, at_us))
            case _:
                pass

    def _add_place(self, where: int) -> None:
        if 0 < key_at(where) < _MAX_KEY:
            self._db.execute(_INSERT_LAST, (key_at(where), where))

    # -- sessions ------------------------------------------------------------------------

    def _create_session(self, key: int) -> None:
        """Create a session for entries whose session row is lost."""
        if self._last_key and key > self._last_key:
            # The damaged store never had this session.
            self._db.execute("delete from stretch where place between ? and ?", places(key))
            return
        hints = self._db.execute(_HINT_OF, (key,)).fetchall() or [(None, None, None)]
        id_, cwd, updated_us = hints[0]
        rows = self._db.execute(f"{ROW} where place between ? and ?", places(key))
        facts = _facts_from(rows, self._title_from_prompt)
        id_ = id_ or facts.session_id
        if not id_ or self._db.execute(_ID_IS_TAKEN, (id_,)).get:
            id_ = f"salvaged-{key}"
        found: dict[str, Value] = {
            "id": id_,
            "agent_session_id": id_,
            # A session without a folder is not listed.
            "cwd": cwd or facts.cwd or "/",
            "prompt_title": facts.title,
            "created_us": facts.first_us,
            "updated_us": max(updated_us or 0, facts.last_us),
            "turns": facts.turns,
            "messages": facts.turns,
        }
        row = (key, *(_valid_or_default(name, found) for name in _SESSION_COLUMNS))
        self._db.execute(_INSERT_SESSION, row)

    def _close_gaps(self, key: int, at_us: int, counts: RecoveryCounts) -> None:
        """Fill the missing seqs of a session with gaps, and count its entries."""
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
        if 0 <= last - end < _MAX_GAP:
            gaps.append((end, last - end + 1, at_us))
        for gap in gaps:
            self._fill_gap(*gap)
        lost = sum(count for _, count, _ in gaps)
        if not saved + lost:
            lost = self._fill_session(key, at_us)
        counts.entries_saved += saved
        counts.entries_lost += lost

    def _without_overlaps(self, key: int, wrong: list[int]) -> Iterator[tuple[int, int, int]]:
        """Yield the rows of a session; add overlapping and misplaced rows to `wrong`."""
        sql = "select place, lines, at_us from stretch where place between ? and ? order by place"
        before = end = place(key, 1)
        held: tuple[int, int, int] | None = None
        for row in self._db.execute(sql, places(key)):
            if row[0] - end >= _MAX_GAP or (row[0] < end and (not held or held[0] == before)):
                wrong.append(row[0])
                continue
            if held and row[0] < end:
                # It leaves a gap before it, and overlaps the row after it.
                wrong.append(held[0])
            elif held:
                yield held
                before = end
            held, end = row, row[0] + row[1]
        if held:
            yield held

    def _fill_session(self, key: int, at_us: int) -> int:
        """Insert a gap if a session had entries and all of them are lost."""
        counted = "select max(turns, messages) from session where key = ?"
        lost = self._db.execute(counted, (key,)).get
        if lost:
            self._insert_gap(place(key, 1), lost, at_us)
        return lost

    def _fill_gap(self, where: int, lost: int, at_us: int) -> None:
        """Insert a gap entry, and empty entries for the other missing seqs."""
        self._insert_gap(where, lost, at_us)
        if lost > 1:
            filler = b"\n" * (lost - 2)
            row = (where + 1, lost - 1, Side.AGENT, Kind.OPAQUE, at_us, 1, CODEC_LINES, filler)
            self._db.execute(APPEND, row)

    def _insert_gap(self, where: int, lost: int, at_us: int) -> None:
        gap = encode({"lostEntries": lost, "isDamage": True})
        row = (where, 1, Side.AGENT, Kind.GAP, at_us, 1, CODEC_LINES, gap)
        self._db.execute(APPEND, row)


class _SessionFacts(Struct):
    """Facts about a session, found in its entries."""

    session_id: str | None = None
    cwd: str | None = None
    title: str | None = None
    turns: int = 0
    first_us: int = 0
    last_us: int = 0


def _facts_from(
    rows: Iterator[Any], title_from_prompt: Callable[[list[Any]], str | None]
) -> _SessionFacts:
    facts = _SessionFacts()
    for _, _, side, kind, at_us, _, _, data in rows:
        facts.first_us = facts.first_us or at_us
        facts.last_us = max(facts.last_us, at_us)
        if side != Side.CLIENT or kind not in {Kind.SETUP, Kind.PROMPT}:
            continue
        params = _params(data)
        facts.session_id = facts.session_id or as_str(params.get("sessionId"))
        if kind == Kind.SETUP:
            facts.cwd = facts.cwd or as_str(params.get("cwd"))
        else:
            facts.turns += 1
            facts.title = facts.title or title_from_prompt(as_array(params.get("prompt")))
    return facts


def _params(line: bytes) -> dict[str, Any]:
    try:
        return as_object(as_object(json.loads(line)).get("params"))
    except (ValueError, RecursionError):
        return {}


def _are(values: list[Value], types: tuple[type, ...]) -> bool:
    return len(values) == len(types) and all(map(isinstance, values, types))


def _are_of_lease(values: list[Value]) -> bool:
    """Return whether values are the later columns of a lease. Old rows have fewer of them."""
    match values:
        case [] | [0 | 1] | [0 | 1, int(), str(), str(), int()]:
            return True
        case _:
            return False


def _valid_or_default(name: str, found: dict[str, Value]) -> Value:
    """Return a column of a session if it is valid, and its default otherwise."""
    value = found.get(name)
    if name in _LISTS:
        return value if isinstance(value, str) and _is_list_of_strings(value) else "[]"
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


def _is_list_of_strings(value: str) -> bool:
    try:
        msgspec.json.decode(value, type=list[str])
    except (ValueError, RecursionError):
        return False
    return True


def _is_origin(value: str) -> bool:
    try:
        decode_origin(value)
    except ValueError:
        return False
    return True


_check_json = msgspec.json.Decoder(msgspec.Raw).decode


def is_json(line: bytes) -> bool:
    """Return whether a line is JSON."""
    try:
        line.decode()
        _check_json(line)
    except ValueError:
        try:
            json.loads(line)
        except (ValueError, RecursionError):
            return False
    return True
