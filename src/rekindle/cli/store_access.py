"""What the commands that read the store have in common."""

import argparse
import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from rekindle.cli.formatting import one_line
from rekindle.errors import SessionAmbiguous, SessionDeleted, SessionPurged, StoreMissing
from rekindle.model import Page, Session, SessionStatus
from rekindle.store.address import (
    ADDRESS,
    asked_for,
    is_there,
    open_store,
    pending_files,
    usual_path,
)
from rekindle.store.base import Store

_SESSIONS_A_PAGE = 500
_SHORTEST_ID = 8
_STEP = 3
_TOLD_FOR = 7 * 24 * 3600
_WORD_BEFORE_ID = re.compile(r"[A-Za-z]+[-_]")


def add_store_option(parser: argparse.ArgumentParser) -> None:
    """Let the store be chosen."""
    parser.add_argument("--store", help=f"which store: {ADDRESS}")


def add_session(parser: argparse.ArgumentParser) -> None:
    """Let a session be named."""
    parser.add_argument("session", metavar="SESSION", help="its id, or the beginning of it")


def add_sessions(parser: argparse.ArgumentParser) -> None:
    """Let one or more sessions be named."""
    parser.add_argument(
        "sessions", nargs="+", metavar="SESSION", help="ids of sessions, or their beginnings"
    )


def open_for_reading(option: str | None, *, quietly: bool = False) -> Store:
    """Open the store. Where nothing was recorded yet, the usual one counts as empty.

    If it was damaged lately, or something waits to be recorded, that is said, unless `quietly`.
    Raises StoreUnavailable, also when there is none where the user said.
    """
    path = path_for_reading(option)
    if path is not None:
        store = open_store(path, create=False)
        if not quietly:
            _note_if_salvaged(path)
            _note_if_something_waits(path)
        return store
    from rekindle.store.memory import MemoryStore

    return MemoryStore()


def path_for_reading(option: str | None) -> Path | None:
    """Return where the store is; None where nothing was recorded yet. Raises StoreUnavailable."""
    asked = asked_for(option)
    if asked is not None and not is_there(asked):
        raise StoreMissing(str(asked))
    path = asked or usual_path()
    return path if is_there(path) else None


def _note_if_salvaged(path: Path) -> None:
    """Say what was lost, where an editor may have kept it to itself."""
    from rekindle.store.sqlite.connection import set_aside

    if not set_aside(path):
        return
    from rekindle.store.sqlite.quarantine import in_words, reports

    for report in reports(path):
        if time.time() - report.at_us / 1e6 < _TOLD_FOR:
            print(f"rekindle: {one_line(in_words(report))}", file=sys.stderr)


def _note_if_something_waits(path: Path) -> None:
    """Say where the last is that was said, if its recorder has ended before it could record it."""
    if not pending_files(path):
        return
    from rekindle.store.sqlite.pending import left

    for it in left(path):
        if not (it.is_alive or it.is_kept):
            print(
                f"rekindle: what waits in {it.path} is not recorded yet:"
                " `rekindle doctor --fix` records it",
                file=sys.stderr,
            )


def every(store: Store, page: Page) -> Iterator[Session]:
    """Yield all sessions that a page chooses, the last used first, however many they are."""
    page = replace(page, limit=_SESSIONS_A_PAGE)
    while sessions := store.sessions(page):
        yield from sessions
        page = replace(page, before=(sessions[-1].updated_us, sessions[-1].id))


def find_left(store: Store, named: str) -> Session:
    """Return the session that is meant, if anything is left of it. Raises StoreError."""
    session = store.find(named)
    if session.is_purged:
        raise SessionPurged(one_line(session.id))
    return session


def note_if_deleted(session: Session) -> None:
    """Say of a session that it was deleted, where that is not seen from what is shown of it."""
    if session.deleted_us is not None:
        print(f"rekindle: {SessionDeleted(one_line(session.id))}", file=sys.stderr)


def short_id(store: Store, session_id: str) -> str:
    """Shorten an id to a prefix that means this session alone in the whole store.

    A word that an agent puts before all its ids tells nothing apart, and does not count.
    """
    word = _WORD_BEFORE_ID.match(session_id)
    for length in range((word.end() if word else 0) + _SHORTEST_ID, len(session_id), _STEP):
        with suppress(SessionAmbiguous):
            if store.find(session_id[:length]).id == session_id:
                return one_line(session_id[:length])
    return one_line(session_id)


def stand(store: Store, sessions: list[Session]) -> dict[str, SessionStatus]:
    """Return how it stands with sessions; one that was removed just now stands still."""
    ids = [session.id for session in sessions]
    return dict.fromkeys(ids, SessionStatus.IDLE) | store.standings(ids)
