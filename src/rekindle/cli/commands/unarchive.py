"""Take archived sessions out again, so that they are listed.

example:
  rekindle unarchive 3f2a
"""

import argparse

from rekindle.cli.store_access import add_sessions, add_store_option
from rekindle.cli.store_changes import (
    apply,
    find_undeleted,
    now_us,
    open_for_changing,
    report_change,
)
from rekindle.model import Archived


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_store_option(parser)
    add_sessions(parser)


def main(arguments: argparse.Namespace) -> int:
    """Take the sessions out of the archive."""
    with open_for_changing(arguments.store) as store:
        sessions = find_undeleted(store, arguments.sessions)
        at_us = now_us()
        apply(
            store,
            [Archived(session_id=it.id, at_us=at_us, is_archived=False) for it in sessions],
        )
    report_change("unarchived", sessions)
    return 0
