"""List the recorded sessions, last used first.

On a terminal, marks show which sessions are live (in use by a process), and
of these, which are running (the agent works) or waiting (for an answer of the
user). Others are interrupted (the last turn did not end) or archived. In a
pipe, each session is a line of values separated by tabs.

example:
  rekindle list --here -n 10
  rekindle list --agent opencode --json
"""

import argparse

from msgspec.structs import replace

from rekindle.cli.formatting import agent_label, one_line, print_json, title_label
from rekindle.cli.messages import print_note
from rekindle.cli.project import folder_spellings, project_folders
from rekindle.cli.session_choice import NO_SESSIONS_YET, is_empty
from rekindle.cli.store_access import (
    add_store_option,
    address_for_reading,
    open_for_reading,
    short_id,
    statuses_of,
    turn_states_of,
)
from rekindle.cli.terminal import is_terminal, paint
from rekindle.errors import UsageError
from rekindle.model import Page, Session, SessionStatus
from rekindle.store.base import Store
from rekindle.text.times import iso

_MAX_LIMIT = 1_000_000
_DEFAULT_ON_TERMINAL = 50
_BATCH = 1_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_store_option(parser)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--cwd", metavar="DIR", help="only sessions of exactly this folder")
    place.add_argument(
        "--here",
        action="store_true",
        help="only sessions of this project: the git repository around the current folder, or"
        " the folder itself",
    )
    parser.add_argument(
        "--agent", metavar="NAME", help="only sessions of agents whose name contains NAME"
    )
    parser.add_argument(
        "-n",
        "--limit",
        type=int,
        metavar="N",
        help=f"list at most N sessions (default: {_DEFAULT_ON_TERMINAL} on a terminal)",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="include sessions that are archived, of sub-agents, or without a turn",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--archived", action="store_true", help="only archived sessions")
    which.add_argument(
        "--deleted", action="store_true", help="only deleted sessions, which can be restored"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(redact=True)


def main(arguments: argparse.Namespace) -> int:
    """Print the sessions."""
    limit = _limit(arguments)
    with open_for_reading(arguments.store) as store:
        if not arguments.json and not is_terminal():
            if not _print_lines(store, _page(arguments, limit), limit, redact=arguments.redact):
                print_note(_why_nothing(store, arguments))
            return 0
        # One more than the limit, to know whether there are more.
        found = store.sessions(_page(arguments, limit + 1))
        sessions = [session for session in found[:limit] if not session.is_purged]
        statuses = statuses_of(store, sessions)
        turns = turn_states_of(address_for_reading(arguments.store), statuses)
        if arguments.json:
            from rekindle.export.description import describe

            print_json(
                [
                    describe(it) | {"state": statuses[it.id]} | _described_turn(turns, it.id)
                    for it in sessions
                ]
            )
        elif not sessions:
            print_note(_why_nothing(store, arguments))
        else:
            from rekindle.cli.render.table import SessionRow, legend, print_table

            rows = [
                SessionRow(it, short_id(store, it.id), statuses[it.id], turns.get(it.id, ""))
                for it in sessions
            ]
            print_table(rows, redact=arguments.redact)
            if text := legend(rows):
                print(paint(text, "dim"))
            if len(found) > limit:
                print(paint(f"the last {limit} sessions; -n N lists more", "dim"))
    return 0


def _limit(arguments: argparse.Namespace) -> int:
    """Return the maximum number of sessions. Without a terminal the default is all of them."""
    if arguments.limit is None:
        return _DEFAULT_ON_TERMINAL if is_terminal() and not arguments.json else _MAX_LIMIT
    if not 1 <= arguments.limit <= _MAX_LIMIT:
        raise UsageError(f"--limit must be from 1 to {_MAX_LIMIT}; this is {arguments.limit}")
    return arguments.limit


def _print_lines(store: Store, page: Page, limit: int, *, redact: bool) -> bool:
    """Print a line for each session; return whether there is one.

    Sessions are read in batches, because there may be many.
    """
    left = limit
    while left > 0 and (batch := store.sessions(replace(page, limit=min(left, _BATCH)))):
        sessions = [session for session in batch if not session.is_purged]
        statuses = statuses_of(store, sessions)
        for session in sessions:
            print("\t".join(_row(session, statuses[session.id], redact=redact)))
        left -= len(batch)
        page = replace(page, before=(batch[-1].updated_us, batch[-1].id))
    return left < limit


def _why_nothing(store: Store, arguments: argparse.Namespace) -> str:
    """Return why no session is listed, and what to do."""
    if is_empty(store):
        return NO_SESSIONS_YET
    if arguments.cwd or arguments.here or arguments.agent:
        return "no session matches; `rekindle list` lists the sessions of all folders and agents"
    if arguments.archived or arguments.deleted:
        kind = "archived" if arguments.archived else "deleted"
        return f"no session is {kind}; `rekindle list` lists the others"
    if arguments.all:
        return "all sessions are deleted; `rekindle list --deleted` lists those of the last 30 days"
    return "no session to list; --all includes archived sessions and those without a turn"


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


def _described_turn(turns: dict[str, str], session_id: str) -> dict[str, str]:
    return {"turnState": turns[session_id]} if session_id in turns else {}


def _row(session: Session, status: SessionStatus, *, redact: bool) -> tuple[str, ...]:
    return (
        one_line(session.id),
        iso(session.updated_us),
        agent_label(session.agent),
        one_line(session.cwd or "?"),
        str(session.turns),
        title_label(session, redact=redact),
        status.value,
    )
