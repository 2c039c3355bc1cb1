"""Put sessions away: they are kept, and no longer listed, here or in an editor.

A session that is in use may be archived; it goes on. `rekindle list --archived` shows them.

example:
  rekindle archive 3f2a 77b1
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
    """Archive the sessions."""
    with open_for_changing(arguments.store) as store:
        sessions = find_undeleted(store, arguments.sessions)
        at_us = now_us()
        apply(store, [Archived(session_id=session.id, at_us=at_us) for session in sessions])
    report_change("archived", sessions)
    return 0
