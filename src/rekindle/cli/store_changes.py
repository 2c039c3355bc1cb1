"""What the commands that change sessions have in common."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rekindle.cli.formatting import one_line, plural, printable, title_label
from rekindle.cli.progress import ProgressBar
from rekindle.errors import (
    SessionDeleted,
    SessionInUse,
    SessionPurged,
    StoreMissing,
    StoreUnavailable,
    UsageError,
)
from rekindle.model import Change, Opened, Session, Titled, TitleSource
from rekindle.store.address import asked_for, is_there, open_store, pending_files, usual_path
from rekindle.store.base import Store

_LONGEST_TITLE = 500
_PATIENCE = 2.0


def open_for_changing(option: str | None) -> Store:
    """Open a store that is there. Raises StoreUnavailable."""
    path = asked_for(option) or usual_path()
    if not is_there(path):
        raise StoreMissing(str(path))
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


def apply(store: Store, changes: Sequence[Change]) -> None:
    """Write `changes` so that they last. A person waits for other writers a little longer."""
    if changes:
        store.write(changes, sync=True, patience=_PATIENCE)


def overwrite(store: Store, option: str | None, session_ids: Sequence[str]) -> bool:
    """Let no file keep anything of what was purged; tell whether that could be done."""
    is_elsewhere = _note_if_it_waits(asked_for(option) or usual_path(), session_ids)
    try:
        with ProgressBar("overwriting what was said") as bar:
            store.scrub(lambda: bar.update(0, None))
    except StoreUnavailable as error:
        print(
            f"rekindle: {error}: in unused parts of its files copies of what was said may be left;"
            f" `rekindle delete --now {one_line(session_ids[0])}` tries again to remove them",
            file=sys.stderr,
        )
        return False
    return not is_elsewhere


def _note_if_it_waits(path: Path, session_ids: Sequence[str]) -> bool:
    """Tell whether something of purged sessions waits to be recorded, and say where."""
    if not pending_files(path):
        return False
    from rekindle.store.sqlite.pending import left

    files = [it for it in left(path) if it.why_not or not it.sessions.isdisjoint(session_ids)]
    for it in files:
        when = "a Rekindle that runs removes it" if it.is_alive else "`rekindle doctor` says more"
        print(
            f"rekindle: something of what was said waits in {it.path}, and is not recorded"
            f" any more: {when}",
            file=sys.stderr,
        )
    return bool(files)


def tell(what: str, sessions: Sequence[Session]) -> None:
    """Say what was done to sessions, a line for each."""
    for session in sessions:
        print(f"{what} {one_line(session.id)}: {title_label(session)}")


def now_us() -> int:
    """Return the time."""
    return time.time_ns() // 1000


def rename(store: Store, named: str, words: str | None) -> tuple[Session, Session]:
    """Give a session a title, or take it back; return how it was and how it is now."""
    (session,) = find_there(store, [named])
    titled = Titled(session_id=session.id, at_us=now_us(), source=TitleSource.USER, title=words)
    apply(store, [titled])
    return session, store.session(session.id)


def checked_title(given: str) -> str | None:
    """Return a title as it can be written down; None if there is no word in it.

    Raises UsageError.
    """
    words = " ".join(given.split())
    if printable(words) != words:
        raise UsageError("a title cannot have control characters")
    if len(words) > _LONGEST_TITLE:
        raise UsageError(
            f"a title can have at most {_LONGEST_TITLE} characters: this has {len(words)}"
        )
    return words or None


def fork(store: Store, named: str, turn: int | None = None) -> str:
    """Make a fork of a session up to a turn, or of all of it; return its id. Raises UsageError."""
    from uuid import uuid4

    from rekindle.proxy.handlers.fork import fork_changes
    from rekindle.transcript.reducer import Transcript, fold

    (session,) = find_there(store, [named])
    transcript: Transcript = fold(store.read(session.id))
    starts = [turn.items[0].seq for turn in transcript.turns if turn.items]
    # Folded and copied alike, even if the session goes on meanwhile.
    until = _end_of(session, turn, starts, transcript.last_seq)
    fork_id, at_us = str(uuid4()), now_us()
    folders = Opened(session_id=fork_id, at_us=at_us, directories=session.directories)
    apply(store, [*fork_changes(fork_id, at_us, session, transcript, until), folders])
    return fork_id


def _end_of(session: Session, turn: int | None, starts: list[int], last_seq: int) -> int:
    """Return the last entry of a turn, where that is asked for. Raises UsageError."""
    if turn is None:
        return last_seq
    if not 1 <= turn <= len(starts):
        has = plural(len(starts), "turn")
        raise UsageError(f"session {one_line(session.id)} has {has}: there is no turn {turn}")
    return starts[turn] - 1 if turn < len(starts) else last_seq
