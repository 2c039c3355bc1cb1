"""Actions on a session within the picker. Each returns a status text."""

from rekindle.cli.formatting import one_line, title_label
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


def archive_session(option: str | None, session: Session) -> str:
    """Archive a session. Raises StoreError."""
    with open_for_changing(option) as store:
        (current,) = find_undeleted(store, [session.id])
        apply(store, [Archived(session_id=current.id, at_us=now_us())])
    return f"archived: {title_label(current)}"


def delete_session(option: str | None, session: Session) -> str:
    """Delete a session, which can be undeleted. Raises StoreError."""
    with open_for_changing(option) as store:
        (current,) = find_undeleted(store, [session.id])
        check_not_in_use(store, current)
        apply(store, [Deleted(session_id=current.id, at_us=now_us())])
    return f"deleted; for 30 days: rekindle undelete {one_line(current.id)}"


def fork_session(option: str | None, session: Session) -> str:
    """Fork a session. Raises StoreError."""
    with open_for_changing(option) as store:
        fork_id = fork(store, session.id)
    return f"forked: {fork_id}"


def rename_session(option: str | None, session: Session, title: str) -> str:
    """Set the user's title of a session; a blank one clears it. Raises StoreError, UsageError."""
    checked = validated_title(title)
    with open_for_changing(option) as store:
        _, renamed = rename(store, session.id, checked)
    return f"renamed: {title_label(renamed)}"
