"""List recorded sessions, the last used first. Sessions without a prompt are listed with --all.

On a terminal, marks tell which are live (a process drives them), which were interrupted (the
last turn has no end) and which are archived.

example:
  rekindle list --here --limit 10
  rekindle list --agent opencode --json
"""

import argparse
import sys

from msgspec.structs import replace

from rekindle.cli.formatting import agent_label, one_line, print_json, title_label
from rekindle.cli.project import folder_spellings, project_folders
from rekindle.cli.store_access import add_store_option, open_for_reading, short_id, statuses_of
from rekindle.cli.terminal import is_terminal, paint
from rekindle.errors import UsageError
from rekindle.model import Page, Session, SessionStatus
from rekindle.store.base import Store
from rekindle.text.times import iso

_MAX_LIMIT = 1_000_000
_DEFAULT_ON_TERMINAL = 50
_BATCH = 1_000
_NO_SESSIONS = "rekindle: no sessions"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
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
        help=f"at most N (default: {_DEFAULT_ON_TERMINAL} on a terminal, else all)",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="also those that are archived, those of sub-agents, and those without a prompt",
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
        # One more than the limit, to know whether there are more.
        found = store.sessions(_page(arguments, limit + 1))
        sessions = [session for session in found[:limit] if not session.is_purged]
        statuses = statuses_of(store, sessions)
        if arguments.json:
            from rekindle.export.description import describe

            print_json(
                [describe(session) | {"state": statuses[session.id]} for session in sessions]
            )
        elif not sessions:
            print(_NO_SESSIONS, file=sys.stderr)
        else:
            _print_table(store, sessions, statuses)
            if len(found) > limit:
                print(paint(f"the last {limit}: --limit N shows more", "dim"))
    return 0


def _limit(arguments: argparse.Namespace) -> int:
    """Return the maximum number of sessions. Without a terminal the default is all of them."""
    if arguments.limit is None:
        return _DEFAULT_ON_TERMINAL if is_terminal() and not arguments.json else _MAX_LIMIT
    if not 1 <= arguments.limit <= _MAX_LIMIT:
        raise UsageError(f"--limit must be from 1 to {_MAX_LIMIT}")
    return arguments.limit


def _print_lines(store: Store, page: Page, limit: int) -> None:
    """Print a line for each session. Sessions are read in batches, because there may be many."""
    left = limit
    while left > 0 and (batch := store.sessions(replace(page, limit=min(left, _BATCH)))):
        sessions = [session for session in batch if not session.is_purged]
        statuses = statuses_of(store, sessions)
        for session in sessions:
            print("\t".join(_row(session, statuses[session.id])))
        left -= len(batch)
        page = replace(page, before=(batch[-1].updated_us, batch[-1].id))
    if left == limit:
        print(_NO_SESSIONS, file=sys.stderr)


def _page(arguments: argparse.Namespace, limit: int) -> Page:
    return Page(
        folders=folder_spellings(arguments.cwd) if arguments.cwd else (),
        under=project_folders() if arguments.here else (),
        agent=arguments.agent,
        limit=limit,
        archived=arguments.archived,
        with_archived=arguments.all or arguments.deleted,
        deleted=arguments.deleted,
        with_unopened=arguments.all,
        prompted=not (arguments.all or arguments.archived or arguments.deleted),
    )


def _print_table(store: Store, sessions: list[Session], statuses: dict[str, SessionStatus]) -> None:
    from rekindle.cli.render.table import SessionRow, legend, print_table

    lines = [
        SessionRow(session, short_id(store, session.id), statuses[session.id])
        for session in sessions
    ]
    print_table(lines)
    if text := legend(lines):
        print(paint(text, "dim"))


def _row(session: Session, status: SessionStatus) -> tuple[str, ...]:
    return (
        one_line(session.id),
        iso(session.updated_us),
        agent_label(session.agent),
        one_line(session.cwd or "?"),
        str(session.turns),
        title_label(session),
        status.value,
    )
