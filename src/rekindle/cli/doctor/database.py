"""The store as a database: which SQLite, which schema, is it sound, how large is it."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rekindle.cli.doctor import SAVE, Finding, Level
from rekindle.cli.doctor.location import size
from rekindle.cli.doctor.quarantine import save_what_can_be_read
from rekindle.cli.formatting import one_line
from rekindle.store.sqlite.inspect import (
    NEWEST_SCHEMA,
    SOUND_SQLITE,
    Examination,
    fold_log,
    rebuild_indexes,
    set_journal_mode,
    sqlite_version,
)

_LARGE_LOG = 64 * 1024 * 1024
_MUCH_FREE = 50_000_000
_SHARE_FREE = 0.3
_COMPLAINTS_SHOWN = 3
_HEADING = "***"
"""Begins a line of SQLite's that only names the database."""
_IN_INDEXES = ("missing from index", "wrong # of entries in index", "non-unique entry in index")


def check_sqlite() -> Iterator[Finding]:
    """Look whether the SQLite in use is one that keeps what several processes write."""
    version = ".".join(map(str, sqlite_version()))
    is_sound = sqlite_version() >= SOUND_SQLITE
    yield Finding(
        check="sqlite",
        level=Level.OK if is_sound else Level.PROBLEM,
        what=version if is_sound else f"{version} can damage a store that several write to",
        remedy="" if is_sound else "install a newer apsw: pip install -U apsw",
        facts={"version": version},
    )


def check_schema(store: Examination) -> Iterator[Finding]:
    """Look of what age the store is."""
    found = store.schema() or 0
    facts = {"schema": found, "newest": NEWEST_SCHEMA}
    if found > NEWEST_SCHEMA:
        yield Finding(
            check="schema",
            level=Level.PROBLEM,
            what=f"{found}, but this Rekindle knows only up to {NEWEST_SCHEMA}",
            remedy="upgrade Rekindle, or name another store with --store",
            facts=facts,
        )
    else:
        later = "" if found == NEWEST_SCHEMA else f"; the next use makes it {NEWEST_SCHEMA}"
        yield Finding(check="schema", what=f"{found}{later}", facts=facts)


def check_journal(store: Examination, path: Path) -> Iterator[Finding]:
    """Look whether writers and readers of the store can work side by side."""
    mode = store.pragma("journal_mode")
    if mode != "wal":
        yield Finding(
            check="journal",
            level=Level.WARNING,
            what=f"the mode is {mode}: whoever reads and whoever writes wait for each other",
            remedy="rekindle doctor --fix sets it to wal",
            mend=partial(set_journal_mode, path),
        )


def check_integrity(store: Examination, path: Path, *, full: bool) -> Iterator[Finding]:
    """Let SQLite look for damage."""
    begin = time.monotonic()
    complaints = store.complaints(full=full)
    if full and not complaints:
        complaints = store.unreadable_entries()
    took = f"{time.monotonic() - begin:.1f} s"
    if not complaints:
        kind = "full" if full else "quick; --full looks at more"
        yield Finding(check="integrity", what=f"sound ({kind}, took {took})")
        return
    is_in_indexes = all(any(words in it for words in _IN_INDEXES) for it in complaints)
    yield Finding(
        check="integrity",
        level=Level.PROBLEM,
        what=f"damaged: {_shortened(complaints)}",
        remedy="rekindle doctor --full --fix makes the indexes anew" if is_in_indexes else SAVE,
        facts={"complaints": complaints},
        mend=partial(rebuild_indexes if is_in_indexes else save_what_can_be_read, path),
        is_damage=True,
    )


def _shortened(complaints: list[str]) -> str:
    """Name the first of what is damaged: one page is often found by many of its rows."""
    lines = [one_line(line) for it in complaints for line in it.splitlines()]
    told = [line for line in lines if not line.startswith(_HEADING)]
    more = len(told) - _COMPLAINTS_SHOWN
    words = "; ".join(told[:_COMPLAINTS_SHOWN])
    return f"{words}; and {more} more" if more > 0 else words


def check_sessions(store: Examination, path: Path) -> Iterator[Finding]:
    """Look whether sessions and entries fit together."""
    counts = store.counts()
    there = counts.sessions - counts.deleted - counts.strays
    aside = {"archived": counts.archived, "deleted": counts.deleted}
    words = ", ".join(f"{number} {what}" for what, number in aside.items() if number)
    yield Finding(
        check="sessions",
        what=f"{there}{f' ({words})' if words else ''}",
        facts={"sessions": there, **aside},
    )
    orphans, unreadable = store.entries_without_session(), store.unreadable_sessions()
    if orphans:
        yield Finding(
            check="sessions",
            level=Level.PROBLEM,
            what=f"{len(orphans)} sessions are gone, but their entries are there",
            remedy=SAVE,
            mend=partial(save_what_can_be_read, path),
            is_damage=True,
        )
    if unreadable:
        yield Finding(
            check="sessions",
            level=Level.PROBLEM,
            what=f"{len(unreadable)} cannot be read: {', '.join(map(one_line, unreadable[:5]))}",
            remedy=SAVE,
            mend=partial(save_what_can_be_read, path),
            is_damage=True,
        )


def check_size(store: Examination, path: Path, *, can_compact: bool) -> Iterator[Finding]:
    """Look how large the store is, and what of it is free."""
    page = store.pragma("page_size")
    whole, free = store.pragma("page_count") * page, store.pragma("freelist_count") * page
    facts = {"bytes": whole, "free": free}
    is_much = free > _MUCH_FREE and free > whole * _SHARE_FREE
    advice = "rekindle compact gives it back to the disk" if can_compact else ""
    yield Finding(
        check="size",
        level=Level.WARNING if is_much and advice else Level.OK,
        what=f"{size(whole)}{f', of which {size(free)} are free' if free else ''}",
        remedy=advice if is_much else "",
        facts=facts,
    )
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size > _LARGE_LOG:
        yield Finding(
            check="log",
            level=Level.WARNING,
            what=f"SQLite's log has {size(log.stat().st_size)}, because somebody keeps reading or "
            "was killed",
            remedy="rekindle doctor --fix brings it into the store",
            mend=partial(fold_log, path),
        )
