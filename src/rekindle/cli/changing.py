"""What the commands that change sessions have in common."""

import time
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from rekindle.cli.words import one_line, title
from rekindle.errors import SessionDeleted, SessionInUse, SessionPurged, StoreUnavailable
from rekindle.model import Change, Page, Session
from rekindle.store.base import Store
from rekindle.store.location import asked_for, open_store, usual_path

_PATIENCE = 2.0
_SESSIONS_A_PAGE = 500


def open_for_changing(option: str | None) -> Store:
    """Open a store that is there. Raises StoreUnavailable."""
    path = asked_for(option) or usual_path()
    if not path.exists():
        raise StoreUnavailable(f"there is no store at {path}")
    return open_store(path)


def check_not_in_use(store: Store, session: Session) -> None:
    """Raise SessionInUse if a process drives the session now."""
    holder = store.holder(session.id)
    if holder is not None:
        raise SessionInUse(one_line(session.id), holder.pid, holder.host)


def find_all(store: Store, named: Sequence[str]) -> list[Session]:
    """Return the sessions that are meant, each once. Raises before anything is changed."""
    return list({session.id: session for session in map(store.find, named)}.values())


def find_there(store: Store, named: Sequence[str]) -> list[Session]:
    """Return the sessions that are meant. Raises SessionDeleted if one is not there any more."""
    sessions = find_all(store, named)
    for session in sessions:
        if session.is_purged:
            raise SessionPurged(one_line(session.id))
        if session.deleted_us is not None:
            raise SessionDeleted(one_line(session.id))
    return sessions


def every(store: Store, page: Page) -> Iterator[Session]:
    """Yield all sessions that a page chooses, the last used first, however many they are."""
    page = replace(page, limit=_SESSIONS_A_PAGE)
    while sessions := store.sessions(page):
        yield from sessions
        page = replace(page, before=(sessions[-1].updated_us, sessions[-1].id))


def apply(store: Store, changes: Sequence[Change]) -> None:
    """Write `changes` so that they last. A person waits for other writers a little longer."""
    if changes:
        store.write(changes, sync=True, patience=_PATIENCE)


def tell(what: str, sessions: Sequence[Session]) -> None:
    """Say what was done to sessions, a line for each."""
    for session in sessions:
        print(f"{what} {one_line(session.id)}: {title(session)}")


def now_us() -> int:
    """Return the time."""
    return time.time_ns() // 1000
