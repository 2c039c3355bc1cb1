"""The commands `delete` and `undelete`."""

import argparse

from rekindle.cli.arguments import CommandSpec
from rekindle.cli.formatting import one_line
from rekindle.cli.store_access import add_sessions, add_store_option
from rekindle.cli.store_changes import (
    apply,
    check_not_in_use,
    find_all,
    now_us,
    open_for_changing,
    overwrite,
    report_change,
)
from rekindle.errors import SessionNotFound, SessionPurged, StoreError
from rekindle.model import Deleted, Opened, Session
from rekindle.store.base import Store

_DELETE_HELP = """\
Delete sessions. `rekindle undelete` brings them back for 30 days; then they are purged.

A session that a process drives now is not deleted. With --now the whole store is written anew, so
that nothing of what was said is left in its files; editors wait with recording meanwhile.

example:
  rekindle delete 3f2a
  rekindle delete 3f2a 77b1 --now
"""
_UNDELETE_HELP = """\
Bring deleted sessions back, unless they were purged. `rekindle list --deleted` shows them.

example:
  rekindle undelete 3f2a
"""


def configure_delete(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `delete`."""
    add_store_option(parser)
    parser.add_argument(
        "--now",
        "--purge-now",
        action="store_true",
        help="remove for good, at once, all that was said; nothing brings it back",
    )
    add_sessions(parser)


def delete(arguments: argparse.Namespace) -> int:
    """Delete all the sessions, or none of them if one is in use."""
    with open_for_changing(arguments.store) as store:
        sessions = find_all(store, arguments.sessions)
        for session in sessions:
            check_not_in_use(store, session)
        at_us = now_us()
        # A session that is deleted already keeps its deletion time, and so its 30 days.
        present = [session for session in sessions if session.deleted_us is None]
        apply(store, [Deleted(session_id=session.id, at_us=at_us) for session in present])
        if arguments.now:
            store.purge(*(session.id for session in sessions))
        report_change("purged" if arguments.now else "deleted", sessions)
        ids = [session.id for session in sessions]
        is_done = not arguments.now or overwrite(store, arguments.store, ids)
    return 0 if is_done else 1


def configure_undelete(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `undelete`."""
    add_store_option(parser)
    add_sessions(parser)


def undelete(arguments: argparse.Namespace) -> int:
    """Restore the sessions."""
    with open_for_changing(arguments.store) as store:
        sessions = _find_deleted(store, arguments.sessions)
        for session in sessions:
            if session.is_purged:
                raise SessionPurged(one_line(session.id))
        at_us = now_us()
        apply(store, [Opened(session_id=session.id, at_us=at_us) for session in sessions])
    report_change("here again:", sessions)
    return 0


def _find_deleted(store: Store, named: list[str]) -> list[Session]:
    try:
        return find_all(store, named)
    except SessionNotFound as error:
        hint = "`rekindle list --deleted` shows those that can be brought back"
        raise StoreError(f"no session {error.session_id!r} in this store: {hint}") from error


SPECS = {
    "delete": CommandSpec(_DELETE_HELP, configure_delete, delete),
    "undelete": CommandSpec(_UNDELETE_HELP, configure_undelete, undelete),
}
