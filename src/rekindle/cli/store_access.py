"""Open the store for reading, and find sessions in it."""

import argparse
import re
import time
from collections.abc import Iterator
from contextlib import suppress

from msgspec.structs import replace

from rekindle.cli.formatting import one_line
from rekindle.cli.messages import print_note, print_warning
from rekindle.composition import open_store
from rekindle.errors import SessionAmbiguous, SessionDeleted, StoreMissing
from rekindle.model import Page, Session, SessionStatus
from rekindle.store.address import (
    StoreAddress,
    address_help,
    backend_for,
    default_address,
    requested_address,
    store_exists,
)
from rekindle.store.base import Store
from rekindle.store.maintenance import MaintenanceBackend

_SESSIONS_PER_PAGE = 500
_MIN_ID_LENGTH = 8
_LENGTH_STEP = 3
_REPORTED_SECONDS = 7 * 24 * 3600
_ID_PREFIX = re.compile(r"[A-Za-z]+[-_]")

_SESSION_HELP = (
    'a session: the beginning of its id, "words of its title", @N for the N-th of'
    " `rekindle list{option}`, or - for the one used last in this project"
)
SESSION_HELP = _SESSION_HELP.format(option="")
"""The help text of an argument that names a session."""


def add_store_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that selects the store."""
    parser.add_argument("--store", help=f"the store to use: {address_help()}")


def add_session(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a session."""
    parser.add_argument("session", metavar="SESSION", help=SESSION_HELP)


def add_sessions(parser: argparse.ArgumentParser, list_option: str = "") -> None:
    """Add the argument that names one or more sessions.

    `@N` refers to those that `rekindle list` lists with `list_option`.
    """
    text = _SESSION_HELP.format(option=list_option and f" {list_option}")
    parser.add_argument("sessions", nargs="+", metavar="SESSION", help=text)


def open_for_reading(option: str | None, *, quietly: bool = False) -> Store:
    """Open the store for reading. If the default store does not exist yet, it counts as empty.

    Unless `quietly`, a recent recovery and pending changes are reported on stderr.
    Raises StoreUnavailable, also if the store that the user named does not exist.
    """
    address = address_for_reading(option)
    if address is not None:
        store = open_store(address, create=False)
        if not quietly:
            _report_recoveries(address)
            _report_pending_changes(address)
        return store
    from rekindle.store.memory import MemoryStore

    return MemoryStore()


def address_for_reading(option: str | None) -> StoreAddress | None:
    """Return the address of the store; None if the default store does not exist yet.

    Raises StoreMissing if the store that the user named does not exist.
    """
    requested = requested_address(option)
    if requested is not None and not store_exists(requested):
        raise StoreMissing(str(requested))
    address = requested or default_address()
    return address if store_exists(address) else None


def _report_recoveries(address: StoreAddress) -> None:
    """Report recent recoveries. An editor may not have shown the report."""
    backend = backend_for(address)
    if not isinstance(backend, MaintenanceBackend):
        return
    for report in backend.recovery_reports():
        if time.time() - report.at_us / 1e6 < _REPORTED_SECONDS:
            print_warning(one_line(report.text))


def _report_pending_changes(address: StoreAddress) -> None:
    """Report the pending changes of processes that have ended."""
    for pending in backend_for(address).pending():
        if not (pending.is_alive or pending.is_leftover):
            print_warning(
                f"{pending.location} contains changes that the store does not have yet;"
                " `rekindle doctor --fix` adds them"
            )


def every(store: Store, page: Page) -> Iterator[Session]:
    """Yield all sessions that match a page, last updated first, however many there are."""
    page = replace(page, limit=_SESSIONS_PER_PAGE)
    while sessions := store.sessions(page):
        yield from sessions
        page = replace(page, before=(sessions[-1].updated_us, sessions[-1].id))


def note_if_deleted(session: Session) -> None:
    """Report on stderr that a session is deleted, if it is."""
    if session.deleted_us is not None:
        print_note(str(SessionDeleted(one_line(session.id))))


def short_id(store: Store, session_id: str) -> str:
    """Return a prefix of an id that identifies the session in the whole store.

    A word that an agent puts before all its ids does not count for the length.
    """
    word = _ID_PREFIX.match(session_id)
    for length in range(
        (word.end() if word else 0) + _MIN_ID_LENGTH, len(session_id), _LENGTH_STEP
    ):
        with suppress(SessionAmbiguous):
            if store.find(session_id[:length]).id == session_id:
                return one_line(session_id[:length])
    return one_line(session_id)


def statuses_of(store: Store, sessions: list[Session]) -> dict[str, SessionStatus]:
    """Return the status of each session. A session that was removed meanwhile counts as idle."""
    ids = [session.id for session in sessions]
    return dict.fromkeys(ids, SessionStatus.IDLE) | store.statuses(ids)


def turn_states_of(
    address: StoreAddress | None, statuses: dict[str, SessionStatus]
) -> dict[str, str]:
    """Return the state of the turn of each session that is live, as far as its process answers."""
    if address is None or SessionStatus.LIVE not in statuses.values():
        return {}
    from rekindle.runtime.host_requests import turn_states

    return turn_states(address)
