"""Actions on a session within the picker. Each returns its outcome, and how to undo it."""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from rekindle.cli.formatting import title_label
from rekindle.cli.store_changes import (
    apply,
    check_not_in_use,
    find_undeleted,
    fork,
    now_us,
    open_for_changing,
    rename,
    validated_title,
)
from rekindle.errors import SessionPurged
from rekindle.model import Archived, Deleted, Opened, Session, TitleSource


class ActionOutcome(NamedTuple):
    """The result of an action."""

    text: str
    """The report to the user."""
    session_id: str | None = None
    """The session that is back in its list, to be highlighted."""
    undo: "Action | None" = None


Action = Callable[[], ActionOutcome]
"""Changes the store. It runs in a thread, and raises RekindleError."""


class ActionQueue:
    """Runs actions one after another, and undoes them in the opposite order.

    `start` must run a function in a thread; the caller calls `finish` once that has ended.
    """

    def __init__(self, start: Callable[[Action], object]) -> None:
        self._start = start
        self._waiting: deque[Action] = deque()
        """The running action, and those after it."""
        self._undos: list[Action] = []

    def add(self, action: Action) -> None:
        """Run an action after all earlier ones."""
        self._waiting.append(action)
        if len(self._waiting) == 1:
            self._start(self._run)

    def finish(self) -> None:
        """Note that the running action has ended."""
        self._waiting.popleft()
        if self._waiting:
            self._start(self._run)

    @property
    def can_undo(self) -> bool:
        """Whether an action can be undone."""
        return bool(self._undos)

    def undo(self) -> ActionOutcome:
        """Undo the last action that is not undone yet. This is an action, too."""
        if not self._undos:
            return ActionOutcome("nothing to undo")
        return self._undos.pop()()

    def _run(self) -> ActionOutcome:
        outcome = self._waiting[0]()
        if outcome.undo is not None:
            self._undos.append(outcome.undo)
        return outcome


def archive_session(option: str | None, session: Session, *, is_archived: bool) -> ActionOutcome:
    """Archive or unarchive a session. Raises StoreError."""
    current = _set_archived(option, session, is_archived=is_archived)
    done, noun = ("archived", "archive") if is_archived else ("unarchived", "unarchive")

    def undo() -> ActionOutcome:
        _set_archived(option, session, is_archived=not is_archived)
        return _undone(noun, current)

    return ActionOutcome(f"{done}: {title_label(current)}", undo=undo)


def _set_archived(option: str | None, session: Session, *, is_archived: bool) -> Session:
    with open_for_changing(option) as store:
        (current,) = find_undeleted(store, [session.id])
        # The undo of an unarchive keeps the time of the archive.
        at_us = session.archived_us or now_us()
        apply(store, [Archived(session_id=current.id, at_us=at_us, is_archived=is_archived)])
    return current


def delete_session(option: str | None, session: Session) -> ActionOutcome:
    """Delete a session, which can be undeleted. Raises StoreError."""
    with open_for_changing(option) as store:
        (current,) = find_undeleted(store, [session.id])
        check_not_in_use(store, current)
        apply(store, [Deleted(session_id=current.id, at_us=now_us())])

    def undo() -> ActionOutcome:
        with open_for_changing(option) as store:
            if store.session(current.id).is_purged:
                raise SessionPurged(current.id)
            apply(store, [Opened(session_id=current.id, at_us=now_us())])
        return _undone("delete", current)

    return ActionOutcome(f"deleted: {title_label(current)}", undo=undo)


def fork_session(option: str | None, session: Session) -> ActionOutcome:
    """Fork a session. Raises StoreError."""
    with open_for_changing(option) as store:
        fork_id = fork(store, session.id)
    return ActionOutcome(f"forked: {title_label(session)} ({fork_id})")


def rename_session(option: str | None, session: Session, title: str) -> ActionOutcome:
    """Set the user's title of a session; a blank one clears it. Raises StoreError, UsageError."""
    checked = validated_title(title)
    with open_for_changing(option) as store:
        before, renamed = rename(store, session.id, checked)

    def undo() -> ActionOutcome:
        with open_for_changing(option) as store:
            is_own = before.title_source is TitleSource.USER
            rename(store, before.id, before.title if is_own else None)
        return _undone("rename", before)

    return ActionOutcome(f"renamed: {title_label(renamed)}", undo=undo)


def _undone(action: str, session: Session) -> ActionOutcome:
    return ActionOutcome(f"undid {action}: {title_label(session)}", session.id)
