"""The commands `archive` and `unarchive`."""

import argparse

from rekindle.cli.arguments import CommandSpec
from rekindle.cli.store_access import add_sessions, add_store_option
from rekindle.cli.store_changes import (
    apply,
    find_undeleted,
    now_us,
    open_for_changing,
    report_change,
)
from rekindle.model import Archived

_ARCHIVE_HELP = """\
Put sessions away: they are kept, and no longer listed, here or in an editor.

A session that is in use may be archived; it goes on. `rekindle list --archived` shows them.

example:
  rekindle archive 3f2a 77b1
"""
_UNARCHIVE_HELP = """\
Take archived sessions out again, so that they are listed.

example:
  rekindle unarchive 3f2a
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of both commands."""
    add_store_option(parser)
    add_sessions(parser)


def archive(arguments: argparse.Namespace) -> int:
    """Archive the sessions."""
    return _set_archived(arguments, is_archived=True)


def unarchive(arguments: argparse.Namespace) -> int:
    """Take the sessions out of the archive."""
    return _set_archived(arguments, is_archived=False)


def _set_archived(arguments: argparse.Namespace, *, is_archived: bool) -> int:
    with open_for_changing(arguments.store) as store:
        sessions = find_undeleted(store, arguments.sessions)
        at_us = now_us()
        apply(
            store,
            [
                Archived(session_id=session.id, at_us=at_us, is_archived=is_archived)
                for session in sessions
            ],
        )
    report_change("archived" if is_archived else "unarchived", sessions)
    return 0


SPECS = {
    "archive": CommandSpec(_ARCHIVE_HELP, configure, archive),
    "unarchive": CommandSpec(_UNARCHIVE_HELP, configure, unarchive),
}
