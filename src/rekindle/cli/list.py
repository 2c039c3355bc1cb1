"""List recorded sessions, the last used first.

On a terminal, marks tell which are live (a process drives them), which were interrupted (the
last turn has no end) and which are archived.

example:
  rekindle list --here --limit 10
  rekindle list --agent opencode --json
"""

import argparse
import sys

from rekindle.cli.project import folders_of_project, spellings
from rekindle.cli.reading import add_store_option, open_for_reading, short_id, stand
from rekindle.cli.terminal import is_terminal, paint
from rekindle.cli.words import agent_name, one_line, print_json, title
from rekindle.core.times import iso
from rekindle.errors import UsageError
from rekindle.model import Page, Session, Standing
from rekindle.store.base import Store

_MOST = 1_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_store_option(parser)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--cwd", metavar="DIR", help="only sessions of exactly this folder")
    place.add_argument(
        "--here",
        action="store_true",
        help="only those of this project: the git repository around the current folder, or else"
        " that folder, and all below",
    )
    parser.add_argument("--agent", metavar="NAME", help="only sessions with such an agent")
    parser.add_argument(
        "--limit", type=int, default=50, metavar="N", help="at most N (default: %(default)d)"
    )
    parser.add_argument(
        "--all", action="store_true", help="also those that are archived, and those of sub-agents"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--archived", action="store_true", help="only those that are archived")
    which.add_argument(
        "--deleted", action="store_true", help="those that were deleted and can be brought back"
    )
    parser.add_argument("--json", action="store_true", help="print JSON: see docs/json.md")


def main(arguments: argparse.Namespace) -> int:
    """Print the sessions."""
    if not 1 <= arguments.limit <= _MOST:
        raise UsageError(f"--limit must be from 1 to {_MOST}")
    with open_for_reading(arguments.store) as store:
        # One more than is shown tells whether there are more.
        found = store.sessions(_page(arguments))
        sessions = [it for it in found[: arguments.limit] if not it.is_purged]
        standings = stand(store, sessions)
        if arguments.json:
            from rekindle.export.describing import describe

            print_json([describe(it) | {"state": standings[it.id]} for it in sessions])
        elif not sessions:
            print("rekindle: no sessions", file=sys.stderr)
        elif is_terminal():
            _print_table(store, sessions, standings)
            if len(found) > arguments.limit:
                print(paint(f"the last {arguments.limit}: --limit N shows more", "dim"))
        else:
            for session in sessions:
                print("\t".join(_row(session, standings[session.id])))
    return 0


def _page(arguments: argparse.Namespace) -> Page:
    return Page(
        folders=spellings(arguments.cwd) if arguments.cwd else (),
        under=folders_of_project() if arguments.here else (),
        agent=arguments.agent,
        limit=arguments.limit + 1,
        archived=arguments.archived,
        with_archived=arguments.all or arguments.deleted,
        deleted=arguments.deleted,
        with_strays=arguments.all,
    )


def _print_table(store: Store, sessions: list[Session], standings: dict[str, Standing]) -> None:
    from rekindle.cli.table import Line, legend, print_table

    lines = [Line(it, short_id(store, it.id), standings[it.id]) for it in sessions]
    print_table(lines)
    if words := legend(lines):
        print(paint(words, "dim"))


def _row(session: Session, standing: Standing) -> tuple[str, ...]:
    return (
        one_line(session.id),
        iso(session.updated_us),
        agent_name(session.agent),
        one_line(session.cwd or "?"),
        str(session.turns),
        title(session),
        standing.value,
    )
