"""What the commands that change sessions have in common."""

import time

from rekindle.cli.words import one_line
from rekindle.errors import SessionInUse, StoreUnavailable
from rekindle.model import Session
from rekindle.store.base import Store
from rekindle.store.location import asked_for, open_store, usual_path


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


def now_us() -> int:
    """Return the time."""
    return time.time_ns() // 1000
