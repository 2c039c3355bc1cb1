"""Copy a session under a new id, and print that id.

The original does not change, and can be in use. Rekindle sends the copied
history to the agent with the first prompt of the fork.

example:
  rekindle fork @1
  rekindle fork "fix parser" --until 4
"""

import argparse

from rekindle.cli.store_access import add_session, add_store_option
from rekindle.cli.store_changes import fork, open_for_changing


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_store_option(parser)
    parser.add_argument(
        "--until", type=int, metavar="TURN", help="copy only up to the end of this turn"
    )
    add_session(parser)


def main(arguments: argparse.Namespace) -> int:
    """Create the fork, and print its id."""
    with open_for_changing(arguments.store) as store:
        fork_id = fork(store, arguments.session, arguments.until)
    print(fork_id)
    return 0
