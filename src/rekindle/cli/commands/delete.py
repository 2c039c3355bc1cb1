"""Delete sessions. `rekindle undelete` brings them back for 30 days; then they are purged.

A session that a process drives now is not deleted. With --now the whole store is written anew, so
that nothing of what was said is left in its files; editors wait with recording meanwhile.

example:
  rekindle delete 3f2a
  rekindle delete 3f2a 77b1 --now
"""

import argparse

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
from rekindle.model import Deleted


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_store_option(parser)
    parser.add_argument(
        "--now",
        "--purge-now",
        action="store_true",
        help="remove for good, at once, all that was said; nothing brings it back",
    )
    add_sessions(parser)


def main(arguments: argparse.Namespace) -> int:
    """Delete the sessions: all of them, or none if one cannot be."""
    with open_for_changing(arguments.store) as store:
        sessions = find_all(store, arguments.sessions)
        for session in sessions:
            check_not_in_use(store, session)
        at_us = now_us()
        # One that was deleted before keeps its time, and so its 30 days.
        there = [session for session in sessions if session.deleted_us is None]
        apply(store, [Deleted(session_id=session.id, at_us=at_us) for session in there])
        if arguments.now:
            store.purge(*(session.id for session in sessions))
        report_change("purged" if arguments.now else "deleted", sessions)
        ids = [session.id for session in sessions]
        is_done = not arguments.now or overwrite(store, arguments.store, ids)
    return 0 if is_done else 1
