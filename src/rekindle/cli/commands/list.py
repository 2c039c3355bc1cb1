"""List recorded sessions, the last used first.

On a terminal, marks tell which are live (a process drives them), which were interrupted (the
last turn has no end) and which are archived.

example:
  rekindle list --here --limit 10
  rekindle list --agent opencode --json
"""

import argparse
import sys

from msgspec.structs import replace

from rekindle.cli.formatting import agent_name, one_line, print_json, title
from rekindle.cli.project import folders_of_project, spellings
from rekindle.cli.store_access import add_store_option, open_for_reading, short_id, statuses_of
from rekindle.cli.terminal import is_terminal, paint
from rekindle.errors import UsageError
from rekindle.model import Page, Session, SessionStatus
from rekindle.store.base import Store
from rekindle.text.times import iso

_MOST = 1_000_000
_MOST_ON_A_SCREEN = 50
_AT_ONCE = 1_000
_NONE = "rekindle: no sessions"


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
        "--limit",
        type=int,
        metavar="N",
        help=f"at most N (default: {_MOST_ON_A_SCREEN} on a terminal, else all)",
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
    limit = _limit(arguments)
    with open_for_reading(arguments.store) as store:
        if not arguments.json and not is_terminal():
            _print_lines(store, _page(arguments, limit), limit)
            return 0
        # One more than is shown tells whether there are more.
        found = store.sessions(_page(arguments, limit + 1))
        sessions = [it for it in found[:limit] if not it.is_purged]
        standings = statuses_of(store, sessions)
        if arguments.json:
            from rekindle.export.description import describe

            print_json([describe(it) | {"state": standings[it.id]} for it in sessions])
        elif not sessions:
            print(_NONE, file=sys.stderr)
        else:
            _print_table(store, sessions, standings)
            if len(found) > limit:
                print(paint(f"the last {limit}: --limit N shows more", "dim"))
    return 0


def _limit(arguments: argparse.Namespace) -> int:
    """Return how many are wanted. Programs get all: they are not told that there are more."""
    if arguments.limit is None:
        return _MOST_ON_A_SCREEN if is_terminal() and not arguments.json else _MOST
    if not 1 <= arguments.limit <= _MOST:
        raise UsageError(f"--limit must be from 1 to {_MOST}")
    return arguments.limit


def _print_lines(store: Store, page: Page, limit: int) -> None:
    """Print a line for each, some at a time: there may be very many."""
    left = limit
    while left > 0 and (some := store.sessions(replace(page, limit=min(left, _AT_ONCE)))):
        shown = [it for it in some if not it.is_purged]
        standings = statuses_of(store, shown)
        for session in shown:
            print("\t".join(_row(session, standings[session.id])))
        left -= len(some)
        page = replace(page, before=(some[-1].updated_us, some[-1].id))
    if left == limit:
        print(_NONE, file=sys.stderr)


def _page(arguments: argparse.Namespace, limit: int) -> Page:
    return Page(
        folders=spellings(arguments.cwd) if arguments.cwd else (),
        under=folders_of_project() if arguments.here else (),
        agent=arguments.agent,
        limit=limit,
        archived=arguments.archived,
        with_archived=arguments.all or arguments.deleted,
        deleted=arguments.deleted,
        with_unopened=arguments.all,
    )


def _print_table(
    store: Store, sessions: list[Session], standings: dict[str, SessionStatus]
) -> None:
    from rekindle.cli.render.table import SessionRow, legend, print_table

    lines = [SessionRow(it, short_id(store, it.id), standings[it.id]) for it in sessions]
    print_table(lines)
    if words := legend(lines):
        print(paint(words, "dim"))


def _row(session: Session, standing: SessionStatus) -> tuple[str, ...]:
    return (
        one_line(session.id),
        iso(session.updated_us),
        agent_name(session.agent),
        one_line(session.cwd or "?"),
        str(session.turns),
        title(session),
        standing.value,
    )
