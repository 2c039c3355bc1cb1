"""Open the store for changes, and apply changes to sessions."""

import time
from collections.abc import Sequence

from rekindle.cli.formatting import one_line, plural, printable, title_label
from rekindle.cli.messages import print_error
from rekindle.cli.progress import ProgressBar
from rekindle.cli.session_choice import LISTED, find_session
from rekindle.composition import open_store
from rekindle.errors import (
    SessionDeleted,
    SessionInUse,
    SessionPurged,
    StoreMissing,
    StoreUnavailable,
    UsageError,
)
from rekindle.model import Change, Opened, Page, Session, Titled, TitleSource
from rekindle.store.address import StoreAddress, backend_for, locate, store_exists
from rekindle.store.base import Store
from rekindle.store.maintenance import SpaceManager

_MAX_TITLE = 500
_WRITE_TIMEOUT = 2.0


def open_for_changing(option: str | None) -> Store:
    """Open an existing store. Raises StoreUnavailable."""
    address = locate(option)
    if not store_exists(address):
        raise StoreMissing(str(address))
    return open_store(address, create=True)


def check_not_in_use(store: Store, session: Session) -> None:
    """Raise SessionInUse if a process holds the lease of the session."""
    holder = store.lease_holder(session.id)
    if holder is not None:
        raise SessionInUse(one_line(session.id), holder.pid, holder.machine)


def find_all(store: Store, names: Sequence[str], listed: Page = LISTED) -> list[Session]:
    """Return the sessions with these ids or names, each once. Raises StoreError."""
    found = [find_session(store, name, listed) for name in names]
    return list({session.id: session for session in found}.values())


def find_undeleted(store: Store, names: Sequence[str], listed: Page = LISTED) -> list[Session]:
    """Return the sessions with these ids or names. Raises SessionDeleted, SessionPurged."""
    sessions = find_all(store, names, listed)
    for session in sessions:
        if session.is_purged:
            raise SessionPurged(one_line(session.id))
        if session.deleted_us is not None:
            raise SessionDeleted(one_line(session.id))
    return sessions


def apply(store: Store, changes: Sequence[Change]) -> None:
    """Write `changes`, synced. A user waits a little longer for other writers."""
    if changes:
        store.write(changes, sync=True, timeout=_WRITE_TIMEOUT)


def overwrite(store: Store, option: str | None, session_ids: Sequence[str]) -> bool:
    """Overwrite the remaining copies of purged sessions; return whether none is left.

    A store that does not manage its space has no copies that it could overwrite.
    """
    is_pending = _report_pending(locate(option), session_ids)
    if not isinstance(store, SpaceManager):
        return not is_pending
    try:
        with ProgressBar("overwriting purged text") as bar:
            store.scrub(lambda: bar.update(0, None))
    except StoreUnavailable as error:
        print_error(
            f"{error}; copies of the purged text may remain in unused parts of its files;"
            f" `rekindle delete --now {one_line(session_ids[0])}` tries again to remove them"
        )
        return False
    return not is_pending


def _report_pending(address: StoreAddress, session_ids: Sequence[str]) -> bool:
    """Report pending changes of purged sessions; return whether there are any."""
    found = [
        pending
        for pending in backend_for(address).pending()
        if pending.problem or not pending.sessions.isdisjoint(session_ids)
    ]
    for it in found:
        remedy = (
            "the running Rekindle that owns the file removes it"
            if it.is_alive
            else "`rekindle doctor` explains what to do"
        )
        print_error(f"{it.location} still contains text of a purged session; {remedy}")
    return bool(found)


def report_change(action: str, sessions: Sequence[Session]) -> None:
    """Print an action and its sessions, one line for each."""
    for session in sessions:
        print(f"{action} {one_line(session.id)}: {title_label(session)}")


def now_us() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1000


def rename(store: Store, prefix: str, title: str | None) -> tuple[Session, Session]:
    """Set or remove the user's title; return the session before and after."""
    (session,) = find_undeleted(store, [prefix])
    titled = Titled(session_id=session.id, at_us=now_us(), source=TitleSource.USER, title=title)
    apply(store, [titled])
    return session, store.session(session.id)


def validated_title(text: str) -> str | None:
    """Return a title with single spaces; None if it is empty. Raises UsageError."""
    title = " ".join(text.split())
    if printable(title) != title:
        raise UsageError("a title must not contain control characters; leave them out")
    if len(title) > _MAX_TITLE:
        raise UsageError(f"a title has at most {_MAX_TITLE} characters; this one has {len(title)}")
    return title or None


def fork(store: Store, prefix: str, turn: int | None = None) -> str:
    """Fork a session, up to a turn if given; return the id of the fork. Raises UsageError."""
    from uuid import uuid4

    from rekindle.transcript.forks import fork_changes
    from rekindle.transcript.reducer import Transcript, fold

    (session,) = find_undeleted(store, [prefix])
    transcript: Transcript = fold(store.read(session.id))
    starts = [turn.items[0].seq for turn in transcript.turns if turn.items]
    # The copy ends where the folded transcript ends, even if the session grows meanwhile.
    until = _end_of(session, turn, starts, transcript.last_seq)
    fork_id, at_us = str(uuid4()), now_us()
    folders = Opened(session_id=fork_id, at_us=at_us, directories=session.directories)
    apply(store, [*fork_changes(fork_id, at_us, session, transcript, until), folders])
    return fork_id


def _end_of(session: Session, turn: int | None, starts: list[int], last_seq: int) -> int:
    """Return the last seq of a turn; without a turn, that of the session. Raises UsageError."""
    if turn is None:
        return last_seq
    if not 1 <= turn <= len(starts):
        has = plural(len(starts), "turn")
        raise UsageError(f"session {one_line(session.id)} has no turn {turn}; it has {has}")
    return starts[turn] - 1 if turn < len(starts) else last_seq
