"""Set the title of a session. The agent cannot change it, and editors show it.

example:
  rekindle rename @1 Fix the parser
  rekindle rename @1 --clear
"""

import argparse

from rekindle.cli.formatting import one_line, title_label
from rekindle.cli.store_access import add_session, add_store_option
from rekindle.cli.store_changes import open_for_changing, rename, validated_title
from rekindle.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_store_option(parser)
    parser.add_argument(
        "--clear", action="store_true", help="remove your title, and use the agent's again"
    )
    add_session(parser)
    parser.add_argument("title", nargs="*", metavar="TITLE", help="the new title")


def main(arguments: argparse.Namespace) -> int:
    """Set the user's title, or clear it."""
    new_title = _title(" ".join(arguments.title), is_cleared=arguments.clear)
    with open_for_changing(arguments.store) as store:
        before, after = rename(store, arguments.session, new_title)
    print(f"{one_line(after.id)}: {title_label(before)} → {title_label(after)}")
    return 0


def _title(given: str, *, is_cleared: bool) -> str | None:
    """Return the new title, None to clear it. Raises UsageError."""
    if bool(given.split()) is is_cleared:
        raise UsageError("no title given; type one after the session, or use --clear")
    return validated_title(given)
