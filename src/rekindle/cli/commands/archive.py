"""The commands `archive` and `unarchive`."""

import argparse

from rekindle.cli.arguments import CommandSpec
from rekindle.cli.session_choice import LISTED
from rekindle.cli.store_access import add_sessions, add_store_option
from rekindle.cli.store_changes import (
    apply,
    find_undeleted,
    now_us,
    open_for_changing,
    report_change,
)
from rekindle.model import Archived, Page

_ARCHIVE_HELP = """\
Archive sessions: they are kept, but neither `rekindle list` nor an editor
lists them.

A session in use can be archived, and stays in use. `rekindle list --archived`
lists archived sessions.

example:
  rekindle archive @1 @2
"""
_UNARCHIVE_HELP = """\
Unarchive sessions, so that they are listed again. `rekindle list --archived`
lists them.

example:
  rekindle unarchive @1
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `archive`."""
    add_store_option(parser)
    add_sessions(parser)


def configure_unarchive(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `unarchive`."""
    add_store_option(parser)
    add_sessions(parser, "--archived")


def archive(arguments: argparse.Namespace) -> int:
    """Archive the sessions."""
    return _set_archived(arguments, is_archived=True)


def unarchive(arguments: argparse.Namespace) -> int:
    """Unarchive the sessions."""
    return _set_archived(arguments, is_archived=False)


def _set_archived(arguments: argparse.Namespace, *, is_archived: bool) -> int:
    with open_for_changing(arguments.store) as store:
        listed = LISTED if is_archived else Page(archived=True)
        sessions = find_undeleted(store, arguments.sessions, listed)
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
    "unarchive": CommandSpec(_UNARCHIVE_HELP, configure_unarchive, unarchive),
}
