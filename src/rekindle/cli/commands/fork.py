"""Make a session that begins with another's record, and print its id.

The other one stays as it is, and may be in use meanwhile. Open the fork in an editor: the agent
is told the record with the first prompt.

example:
  rekindle fork 3f2a
  rekindle fork 3f2a --until 4
"""

import argparse

from rekindle.cli.store_access import add_session, add_store_option
from rekindle.cli.store_changes import fork, open_for_changing


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_store_option(parser)
    parser.add_argument(
        "--until", type=int, metavar="TURN", help="begin with the record up to this turn's end"
    )
    add_session(parser)


def main(arguments: argparse.Namespace) -> int:
    """Create the fork, and print its id."""
    with open_for_changing(arguments.store) as store:
        fork_id = fork(store, arguments.session, arguments.until)
    print(fork_id)
    return 0
