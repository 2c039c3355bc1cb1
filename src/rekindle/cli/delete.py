"""Delete a session. `rekindle undelete` brings it back for 30 days; then it is purged.

example:
  rekindle delete 3f2a
  rekindle delete 3f2a --purge-now
"""

import argparse

from rekindle.cli.changing import check_not_in_use, now_us, open_for_changing
from rekindle.cli.reading import add_session, add_store_option
from rekindle.cli.words import one_line, title
from rekindle.model import Deleted


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_store_option(parser)
    parser.add_argument(
        "--purge-now",
        action="store_true",
        help="remove for good, at once, all that was said; nothing brings it back",
    )
    add_session(parser)


def main(arguments: argparse.Namespace) -> int:
    """Delete the session."""
    with open_for_changing(arguments.store) as store:
        session = store.find(arguments.session)
        check_not_in_use(store, session)
        store.write([Deleted(session_id=session.id, at_us=now_us())], sync=True)
        if arguments.purge_now:
            store.purge(session.id)
    what = "purged" if arguments.purge_now else "deleted"
    print(f"{what} {one_line(session.id)}: {title(session)}")
    return 0
