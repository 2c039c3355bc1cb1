"""The commands `delete` and `undelete`."""

import argparse
import sys

from rekindle.cli.arguments import CommandSpec
from rekindle.cli.confirm import confirm
from rekindle.cli.formatting import one_line, plural, title_label
from rekindle.cli.messages import print_note
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
from rekindle.cli.terminal import is_terminal
from rekindle.errors import SessionNotFound, SessionPurged, StoreError, UsageError
from rekindle.model import Deleted, Opened, Page, Session
from rekindle.store.base import Store

_DELETE_HELP = """\
Delete sessions. For 30 days, `rekindle undelete` restores them.

A session in use is not deleted. With --now, sessions are erased for good, and
Rekindle rewrites the whole store, so that no text of them remains on the disk.
Editors wait until that is done.

example:
  rekindle delete @1
  rekindle delete @1 @2 --now
"""
_UNDELETE_HELP = """\
Restore deleted sessions. `rekindle list --deleted` lists them.

example:
  rekindle undelete @1
"""


def configure_delete(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `delete`."""
    add_store_option(parser)
    parser.add_argument(
        "--now",
        "--purge-now",
        action="store_true",
        help="erase the sessions now and for good; they cannot be restored",
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before --now")
    add_sessions(parser)


def delete(arguments: argparse.Namespace) -> int:
    """Delete all the sessions, or none of them if one is in use."""
    if arguments.now and not (arguments.yes or is_terminal(sys.stdin)):
        raise UsageError("--now erases sessions for good; without a terminal, it needs --yes")
    with open_for_changing(arguments.store) as store:
        sessions = find_all(store, arguments.sessions)
        for session in sessions:
            check_not_in_use(store, session)
        if arguments.now and not (arguments.yes or _is_confirmed(sessions)):
            print_note("nothing was erased")
            return 1
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


def _is_confirmed(sessions: list[Session]) -> bool:
    """Name the sessions, and ask whether to erase them."""
    for session in sessions:
        print(f"  {one_line(session.id)}  {title_label(session)}", file=sys.stderr)
    return confirm(f"Erase {plural(len(sessions), 'session')} for good?")


def configure_undelete(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `undelete`."""
    add_store_option(parser)
    add_sessions(parser, "--deleted")


def undelete(arguments: argparse.Namespace) -> int:
    """Restore the sessions."""
    with open_for_changing(arguments.store) as store:
        sessions = _find_deleted(store, arguments.sessions)
        for session in sessions:
            if session.is_purged:
                raise SessionPurged(one_line(session.id))
        at_us = now_us()
        apply(store, [Opened(session_id=session.id, at_us=at_us) for session in sessions])
    report_change("restored", sessions)
    return 0


def _find_deleted(store: Store, named: list[str]) -> list[Session]:
    try:
        return find_all(store, named, Page(deleted=True, with_archived=True))
    except SessionNotFound as error:
        hint = "`rekindle list --deleted` shows the sessions that can be restored"
        raise StoreError(f"no session matches {error.session_id!r}; {hint}") from error


SPECS = {
    "delete": CommandSpec(_DELETE_HELP, configure_delete, delete),
    "undelete": CommandSpec(_UNDELETE_HELP, configure_undelete, undelete),
}
