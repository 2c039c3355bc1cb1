"""What is asked of the store on disk as a whole: how sessions stand, what there is, what is free.

Call with the store's mutex held.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rekindle.errors import StoreUnavailable
from rekindle.model import Entry, Kind, Overview, SessionStatus, SessionTotals, Side
from rekindle.store.address import index_path
from rekindle.store.sqlite.codec import Row, entries_in
from rekindle.store.sqlite.connection import INCREMENTAL
from rekindle.store.sqlite.leases import Leases
from rekindle.store.sqlite.schema import WITHIN, Database, places
from rekindle.store.sqlite.sql import ROW
from rekindle.text.times import SHIFT_US, WEEK_US

LARGEST_WAITED_FOR = 256 * 1024 * 1024
"""A file of this size is written anew in seconds, for which recorders can hold back what comes."""
_PAGES_A_STEP = 256
_STEPS_A_TICK = 100_000
# The end of a turn is the last that is told of it, but for what an agent may still have to say.
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
"""  # noqa: S608 - all of it is ours
_WEIGH = f"""
    select coalesce(sum(length(data) - lines + 1), 0)
    from session join stretch on {WITHIN}
    where id in (select value from json_each(?))
"""  # noqa: S608 - all of it is ours
_SUMS = """
    select coalesce(nullif(agent_name, ''), nullif(program, ''), ''),
           (created_us + :shift) / :week * :week - :shift,
           count(*), sum(turns), sum(messages),
           count(archived_us), min(created_us), max(updated_us)
    from session where deleted_us is null and cwd is not null group by 1, 2
"""
# The plus keeps SQLite from walking through all by their folder.
_COUNT_DELETED = "select count(*) from session where deleted_us is not null and +cwd is not null"


def standings(db: Database, leases: Leases, session_ids: Sequence[str]) -> dict[str, SessionStatus]:
    """Tell how it stands with sessions."""
    found = db.execute(_KEYS, (json.dumps(list(session_ids)),)).fetchall()
    driven = leases.driven()
    return {
        session_id: SessionStatus.LIVE if key in driven else _undriven(db, key)
        for session_id, key in found
    }


def _undriven(db: Database, key: int) -> SessionStatus:
    return SessionStatus.IDLE if _has_ended(db, key) else SessionStatus.INTERRUPTED


def _has_ended(db: Database, key: int) -> bool:
    """Tell whether the last turn has an end; a session without a prompt has none to wait for."""
    first, end = places(key)
    prompts = db.execute(_LAST_PROMPT, (first, end)).fetchall()
    if not prompts:
        return True
    ((prompt,),) = prompts
    answers = db.execute(_ANSWERS, (prompt, end)).fetchall()
    if any(row[5] == 1 for row in answers):
        return True
    states = db.execute(_STATES, (prompt, end, _LAST_ROWS)).fetchall()
    return _tell_the_end(sorted([*answers, *states]))


def _tell_the_end(rows: list[Row]) -> bool:
    """Tell whether the turn to which these rows belong has ended, by folding only them."""
    if not rows:
        return False
    from rekindle.transcript.reducer import Transcript  # noqa: PLC0415 - rarely needed, and not light

    transcript = Transcript()
    transcript.add(Entry(seq=0, side=Side.CLIENT, kind=Kind.PROMPT, at_us=0, line=b"{}"))
    for row in rows:
        for entry in entries_in(row):
            if entry.kind is Kind.ANSWER or b'"state_update"' in entry.line:
                transcript.add(entry)
    return transcript.turns[-1].ended_us is not None


def weigh(db: Database, session_ids: Sequence[str]) -> int:
    """Return how many bytes the entries of sessions have."""
    return db.execute(_WEIGH, (json.dumps(list(session_ids)),)).fetchall()[0][0]


def overview(db: Database, path: Path) -> Overview:
    """Return what there is in all."""
    rows = db.execute(_SUMS, {"shift": SHIFT_US, "week": WEEK_US}).fetchall()
    return Overview(
        whole=_added(rows),
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
    """Return how many bytes the store's files take, and those of its index."""
    files = (it.with_name(it.name + end) for it in (path, index_path(path)) for end in ("", "-wal"))
    return sum(file.stat().st_size for file in files if file.is_file())


def _grouped(rows: list[Row], column: int) -> dict[Any, SessionTotals]:
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[column], []).append(row)
    return {group: _added(members) for group, members in groups.items()}


def _added(rows: Iterable[Row]) -> SessionTotals:
    columns = list(zip(*rows, strict=True)) or [()] * 5
    return SessionTotals(sessions=sum(columns[2]), turns=sum(columns[3]), messages=sum(columns[4]))


def gives_back_in_steps(db: Database) -> bool:
    """Tell whether free pages can be given back while others write."""
    return db.pragma("auto_vacuum") == INCREMENTAL


def check_nobody_records(leases: Leases) -> None:
    """Raise StoreUnavailable if somebody does."""
    for holder in leases.driven().values():
        raise StoreUnavailable(
            f"process {holder.pid} on {holder.host} is recording, and this store is of an "
            "older kind, which can be compacted only while nobody records: close it first"
        )


def check_nobody_waits_long(db: Database, leases: Leases) -> None:
    """Raise StoreUnavailable if somebody records, and would have to wait for a large file."""
    if db.pragma("page_count") * db.pragma("page_size") <= LARGEST_WAITED_FOR:
        return
    for holder in leases.driven().values():
        raise StoreUnavailable(
            f"process {holder.pid} on {holder.host} is recording, and would have to wait until "
            "the whole store is written anew: close it first"
        )


def count_steps(db: Database) -> int:
    """Return how many steps it takes to give back what is free now."""
    return -(-db.pragma("freelist_count") // _PAGES_A_STEP)


def compact_step(db: Database) -> None:
    """Give back some pages. Call inside a transaction."""
    db.execute(f"pragma incremental_vacuum({_PAGES_A_STEP})").fetchall()


def rewrite(db: Database, tick: Callable[[], object]) -> None:
    """Write the whole file anew; from then on it can be compacted in steps."""
    db.pragma("auto_vacuum", INCREMENTAL)

    def go_on() -> bool:
        tick()
        # Otherwise it would stop.
        return False

    db.set_progress_handler(go_on, _STEPS_A_TICK)
    try:
        db.execute("vacuum")
    finally:
        db.set_progress_handler(None)
