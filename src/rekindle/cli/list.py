"""List recorded sessions, the last used first.

example:
  rekindle list --cwd . --limit 10
"""

import argparse
import os
import sys
from typing import Any

from rekindle.cli.reading import add_store_option, open_for_reading, short_id
from rekindle.cli.words import age, agent_name, folder, iso, one_line, print_json, title
from rekindle.errors import UsageError
from rekindle.model import Page, Session

_COLUMNS = ("ID", "USED", "AGENT", "FOLDER", "TURNS", "TITLE")
_WIDEST_FOLDER = 30
_MOST = 1_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_store_option(parser)
    parser.add_argument("--cwd", metavar="DIR", help="only sessions of this folder")
    parser.add_argument("--agent", metavar="NAME", help="only sessions with this agent")
    parser.add_argument(
        "--limit", type=int, default=50, metavar="N", help="at most N (default: %(default)d)"
    )
    parser.add_argument(
        "--deleted", action="store_true", help="those that were deleted and can be brought back"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """Print the sessions."""
    if not 1 <= arguments.limit <= _MOST:
        raise UsageError(f"--limit must be from 1 to {_MOST}")
    page = Page(
        cwd=os.path.abspath(arguments.cwd) if arguments.cwd else None,  # noqa: PTH100 - as editors spell it
        agent=arguments.agent,
        limit=arguments.limit,
        deleted=arguments.deleted,
    )
    with open_for_reading(arguments.store) as store:
        sessions = store.sessions(page)
        if arguments.json:
            print_json([describe(session) for session in sessions])
        elif not sessions:
            print("rekindle: no sessions", file=sys.stderr)
        elif sys.stdout.isatty():
            _print_table(sessions, [short_id(store, session.id) for session in sessions])
        else:
            for session in sessions:
                print("\t".join(_row(one_line(session.id), iso(session.updated_us), session)))
    return 0


def describe(session: Session) -> dict[str, Any]:
    """Return a session as `--json` prints it."""
    return {
        "id": session.id,
        "agentSessionId": session.agent_session_id,
        "agent": {
            "name": session.agent.name,
            "version": session.agent.version,
            "command": list(session.agent.command),
        },
        "cwd": session.cwd,
        "additionalDirectories": list(session.directories),
        "title": session.title,
        "titleSource": session.title_source,
        "createdAt": iso(session.created_us),
        "updatedAt": iso(session.updated_us),
        "parentId": session.parent_id,
        "archivedAt": iso(session.archived_us) if session.archived_us else None,
        "deletedAt": iso(session.deleted_us) if session.deleted_us else None,
        "turns": session.turns,
        "messages": session.messages,
        "entries": session.last_seq,
    }


def _print_table(sessions: list[Session], ids: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = [
        _row(id_, age(session.updated_us), session)
        for id_, session in zip(ids, sessions, strict=True)
    ]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, cells in zip(_COLUMNS, zip(*rows, strict=True), strict=True):
        table.add_column(
            name,
            no_wrap=True,
            overflow="ellipsis",
            justify="right" if name == "TURNS" else "left",
            style="dim" if name in {"USED", "FOLDER"} else "",
            # What identifies a session is never cut; what describes it may be.
            min_width=0 if name in {"FOLDER", "TITLE"} else max(len(name), *map(len, cells)),
            max_width=_WIDEST_FOLDER if name == "FOLDER" else None,
        )
    for row in rows:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)


def _row(shown_id: str, used: str, session: Session) -> tuple[str, ...]:
    return (
        shown_id,
        used,
        agent_name(session.agent),
        folder(session),
        str(session.turns),
        title(session),
    )
