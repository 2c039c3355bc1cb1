"""Bring a deleted session back, unless it was purged. `rekindle list --deleted` shows them.

example:
  rekindle undelete 3f2a
"""

import argparse

from rekindle.cli.changing import now_us, open_for_changing
from rekindle.cli.reading import add_session, add_store_option
from rekindle.cli.words import one_line, title
from rekindle.errors import SessionPurged
from rekindle.model import Opened


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_store_option(parser)
    add_session(parser)


def main(arguments: argparse.Namespace) -> int:
    """Bring the session back."""
    with open_for_changing(arguments.store) as store:
        session = store.find(arguments.session)
        if session.deleted_us is not None and session.is_stray:
            raise SessionPurged(one_line(session.id))
        store.write([Opened(session_id=session.id, at_us=now_us())], sync=True)
    print(f"here again: {one_line(session.id)}: {title(session)}")
    return 0
