"""Statuses, totals and disk space of a whole store. Call it with the store's mutex held."""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from rekindle.errors import StoreUnavailable
from rekindle.model import Entry, Kind, Overview, SessionStatus, SessionTotals
from rekindle.store.sqlite.codec import Row, decode_entries
from rekindle.store.sqlite.connection import INCREMENTAL
from rekindle.store.sqlite.files import index_path
from rekindle.store.sqlite.leases import Leases
from rekindle.store.sqlite.schema import WITHIN, Database, places
from rekindle.store.sqlite.sql import ROW
from rekindle.text.times import SHIFT_US, WEEK_US

MAX_REWRITE_BYTES = 256 * 1024 * 1024
"""A file of this size is rewritten in seconds. Recording processes can buffer for that long."""
_PAGES_PER_STEP = 256
_STEPS_PER_TICK = 100_000
# The end of a turn is among its last entries, except for late updates of the agent.
_LAST_ROWS = 500

_KEYS = """
    select id, key from session where id in (select value from json_each(?))
"""
_LAST_PROMPT = """
    select place from stretch
    where kind = 'prompt' and place between ? and ? order by place desc limit 1
"""
_ANSWERS = f"{ROW} where kind = 'answer' and place between ? and ? order by place"
_STATES = f"""
    select * from ({ROW} where place between ? and ? order by place desc limit ?)
    where kind = 'update' and protocol > 1 and instr(data, cast('"state_update"' as blob))
"""  # noqa: S608 - constants only
_ENTRIES_SIZE = f"""
    select coalesce(sum(length(data) - lines + 1), 0)
    from session join stretch on {WITHIN}
    where id in (select value from json_each(?))
"""  # noqa: S608 - constants only
_SUMS = """
    select coalesce(nullif(agent_name, ''), nullif(program, ''), ''),
           (created_us + :shift) / :week * :week - :shift,
           count(*), sum(turns), sum(messages),
           count(archived_us), min(created_us), max(updated_us)
    from session where deleted_us is null and cwd is not null group by 1, 2
"""
# The plus keeps SQLite from scanning all sessions by folder.
_COUNT_DELETED = "select count(*) from session where deleted_us is not null and +cwd is not null"


def statuses(
    db: Database,
    leased: Collection[int],
    session_ids: Sequence[str],
    turn_has_ended: Callable[[Iterable[Entry]], bool],
) -> dict[str, SessionStatus]:
    """Return the status of each known session. `leased` are the keys with a live lease."""

    def status(key: int) -> SessionStatus:
        if key in leased:
            return SessionStatus.LIVE
        is_idle = _has_ended(db, key, turn_has_ended)
        return SessionStatus.IDLE if is_idle else SessionStatus.INTERRUPTED

    found = db.execute(_KEYS, (json.dumps(list(session_ids)),)).fetchall()
    return {session_id: status(key) for session_id, key in found}


def _has_ended(db: Database, key: int, turn_has_ended: Callable[[Iterable[Entry]], bool]) -> bool:
    """Return whether the last turn has ended. A session without a prompt has nothing to end."""
    first, end = places(key)
    prompts = db.execute(_LAST_PROMPT, (first, end)).fetchall()
    if not prompts:
        return True
    ((prompt,),) = prompts
    answers = db.execute(_ANSWERS, (prompt, end)).fetchall()
    if any(row[5] == 1 for row in answers):
        return True
    states = db.execute(_STATES, (prompt, end, _LAST_ROWS)).fetchall()
    entries = [
        entry
        for row in sorted([*answers, *states])
        for entry in decode_entries(row)
        if entry.kind is Kind.ANSWER or b'"state_update"' in entry.line
    ]
    return bool(entries) and turn_has_ended(entries)


def entries_size(db: Database, session_ids: Sequence[str]) -> int:
    """Return the number of bytes in the entries of sessions."""
    return db.execute(_ENTRIES_SIZE, (json.dumps(list(session_ids)),)).fetchall()[0][0]


def overview(db: Database, path: Path) -> Overview:
    """Return totals of the whole store."""
    rows = db.execute(_SUMS, {"shift": SHIFT_US, "week": WEEK_US}).fetchall()
    return Overview(
        whole=_sum(rows),
        archived=sum(row[5] for row in rows),
        deleted=db.execute(_COUNT_DELETED).fetchall()[0][0],
        first_us=min((row[6] for row in rows), default=None),
        last_us=max((row[7] for row in rows), default=None),
        agents=_grouped(rows, 0),
        weeks=_grouped(rows, 1),
        size=size_of(path),
        unused=db.pragma("freelist_count") * db.pragma("page_size"),
    )


def size_of(path: Path) -> int:
    """Return the size of the store's files and of its index in bytes."""
    files = (it.with_name(it.name + end) for it in (path, index_path(path)) for end in ("", "-wal"))
    return sum(file.stat().st_size for file in files if file.is_file())


def _grouped(rows: list[Row], column: int) -> dict[Any, SessionTotals]:
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[column], []).append(row)
    return {group: _sum(members) for group, members in groups.items()}


def _sum(rows: Iterable[Row]) -> SessionTotals:
    columns = list(zip(*rows, strict=True)) or [()] * 5
    return SessionTotals(sessions=sum(columns[2]), turns=sum(columns[3]), messages=sum(columns[4]))


def can_compact_in_steps(db: Database) -> bool:
    """Return whether free pages can be returned while other processes write."""
    return db.pragma("auto_vacuum") == INCREMENTAL


def check_no_leases(leases: Leases) -> None:
    """Raise StoreUnavailable if a process holds a lease."""
    for holder in leases.holders().values():
        raise StoreUnavailable(
            f"process {holder.pid} on {holder.machine} is recording, and this older kind of store "
            "can be compacted only while no process records; close that process first"
        )


def check_rewrite_is_short(db: Database, leases: Leases) -> None:
    """Raise StoreUnavailable if a process holds a lease and the file is too large to wait for."""
    if db.pragma("page_count") * db.pragma("page_size") <= MAX_REWRITE_BYTES:
        return
    for holder in leases.holders().values():
        raise StoreUnavailable(
            f"process {holder.pid} on {holder.machine} is recording, and would have to wait until "
            "the whole store is rewritten; close that process first"
        )


def count_steps(db: Database) -> int:
    """Return the number of steps that return all free pages."""
    return -(-db.pragma("freelist_count") // _PAGES_PER_STEP)


def compact_step(db: Database) -> None:
    """Return some pages to the disk. Call it inside a transaction."""
    db.execute(f"pragma incremental_vacuum({_PAGES_PER_STEP})").fetchall()


def rewrite(db: Database, tick: Callable[[], object]) -> None:
    """Rewrite the whole file. After that it can be compacted in steps."""
    db.pragma("auto_vacuum", INCREMENTAL)

    def go_on() -> bool:
        tick()
        # True would stop it.
        return False

    db.set_progress_handler(go_on, _STEPS_PER_TICK)
    try:
        db.execute("vacuum")
    finally:
        db.set_progress_handler(None)
