"""Bring deleted sessions back, unless they were purged. `rekindle list --deleted` shows them.

example:
  rekindle undelete 3f2a
"""

import argparse

from rekindle.cli.formatting import one_line
from rekindle.cli.store_access import add_sessions, add_store_option
from rekindle.cli.store_changes import apply, find_all, now_us, open_for_changing, report_change
from rekindle.errors import SessionNotFound, SessionPurged, StoreError
from rekindle.model import Opened, Session
from rekindle.store.base import Store


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_store_option(parser)
    add_sessions(parser)


def main(arguments: argparse.Namespace) -> int:
    """Bring the sessions back."""
    with open_for_changing(arguments.store) as store:
        sessions = _found(store, arguments.sessions)
        for session in sessions:
            if session.is_purged:
                raise SessionPurged(one_line(session.id))
        at_us = now_us()
        apply(store, [Opened(session_id=session.id, at_us=at_us) for session in sessions])
    report_change("here again:", sessions)
    return 0


def _found(store: Store, named: list[str]) -> list[Session]:
    try:
        return find_all(store, named)
    except SessionNotFound as error:
        where = "`rekindle list --deleted` shows those that can be brought back"
        raise StoreError(f"no session {error.session_id!r} in this store: {where}") from error
