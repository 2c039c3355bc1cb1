"""Give a session a title that stays, whatever the agent calls it. Editors see it, too.

example:
  rekindle rename 3f2a Fix the parser
  rekindle rename 3f2a --clear
"""

import argparse

from rekindle.cli.formatting import one_line, title
from rekindle.cli.store_access import add_session, add_store_option
from rekindle.cli.store_changes import open_for_changing, rename, validated_title
from rekindle.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_store_option(parser)
    parser.add_argument(
        "--clear", action="store_true", help="take your title back: the agent's counts again"
    )
    add_session(parser)
    parser.add_argument("title", nargs="*", metavar="TITLE", help="what to call it")


def main(arguments: argparse.Namespace) -> int:
    """Write the title down, or take it back."""
    words = _title(" ".join(arguments.title), is_cleared=arguments.clear)
    with open_for_changing(arguments.store) as store:
        before, now = rename(store, arguments.session, words)
    print(f"{one_line(now.id)}: {title(before)} → {title(now)}")
    return 0


def _title(given: str, *, is_cleared: bool) -> str | None:
    """Return the title that was asked for; None to have none. Raises UsageError."""
    if bool(given.split()) is is_cleared:
        raise UsageError("give a title, or --clear to take yours back")
    return validated_title(given)
