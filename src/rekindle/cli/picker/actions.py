"""What can be done to a session without leaving the list, in the words of what was done."""

from rekindle.cli.formatting import one_line, title
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
from rekindle.model import Archived, Deleted, Session


def archive(option: str | None, session: Session) -> str:
    """Put a session away. Raises StoreError."""
    with open_for_changing(option) as store:
        (there,) = find_undeleted(store, [session.id])
        apply(store, [Archived(session_id=there.id, at_us=now_us())])
    return f"archived: {title(there)}"


def delete(option: str | None, session: Session) -> str:
    """Delete a session, so that it can be brought back. Raises StoreError."""
    with open_for_changing(option) as store:
        (there,) = find_undeleted(store, [session.id])
        check_not_in_use(store, there)
        apply(store, [Deleted(session_id=there.id, at_us=now_us())])
    return f"deleted; for 30 days: rekindle undelete {one_line(there.id)}"


def make_fork(option: str | None, session: Session) -> str:
    """Make a fork. Raises StoreError."""
    with open_for_changing(option) as store:
        fork_id = fork(store, session.id)
    return f"forked: {fork_id}"


def give_title(option: str | None, session: Session, words: str) -> str:
    """Give a session a title; without a word, take it back. Raises StoreError, UsageError."""
    wanted = validated_title(words)
    with open_for_changing(option) as store:
        _, now = rename(store, session.id, wanted)
    return f"renamed: {title(now)}"
