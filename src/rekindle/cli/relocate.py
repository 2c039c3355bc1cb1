"""Tell Rekindle that a project was moved, so that its sessions can be opened there.

example:
  rekindle relocate 3f2a ~/projects/parser
  rekindle relocate --all ~/parser ~/projects/parser
"""

import argparse
from pathlib import Path, PurePath

from rekindle.cli.changing import check_not_in_use, now_us, open_for_changing
from rekindle.cli.reading import add_store_option
from rekindle.cli.words import one_line
from rekindle.errors import UsageError
from rekindle.model import Opened, Page, Session
from rekindle.store.base import Store

_SESSIONS_A_PAGE = 500


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.usage = "rekindle relocate [--store STORE] (SESSION DIR | --all OLD NEW)"
    add_store_option(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help="all sessions of the folder OLD, and of those below it, to NEW",
    )
    parser.add_argument("what", metavar="SESSION", help="a session, or with --all the old folder")
    parser.add_argument("folder", metavar="DIR", help="where the project is now")


def main(arguments: argparse.Namespace) -> int:
    """Write down where the sessions belong now."""
    new = Path(arguments.folder).expanduser().absolute()
    if not new.is_dir():
        raise UsageError(f"there is no folder {new}: move the project there first")
    with open_for_changing(arguments.store) as store:
        moves = (
            _all_below(store, Path(arguments.what).expanduser().absolute(), new)
            if arguments.all
            else [(store.find(arguments.what), new)]
        )
        for session, _ in moves:
            check_not_in_use(store, session)
        at_us = now_us()
        changes = [Opened(session_id=it.id, at_us=at_us, cwd=str(to)) for it, to in moves]
        if changes:
            store.write(changes, sync=True)
    for session, to in moves:
        print(f"{one_line(session.id)}: {one_line(str(session.cwd))} → {one_line(str(to))}")
    if not moves:
        print(f"no session belongs to {arguments.what}")
    return 0


def _all_below(store: Store, old: PurePath, new: PurePath) -> list[tuple[Session, PurePath]]:
    """Return the sessions of a folder and those below it, and where each belongs now."""
    moves: list[tuple[Session, PurePath]] = []
    before: tuple[int, str] | None = None
    while page := store.sessions(Page(limit=_SESSIONS_A_PAGE, before=before, with_archived=True)):
        for session in page:
            cwd = PurePath(str(session.cwd))
            if cwd == old or old in cwd.parents:
                moves.append((session, new / cwd.relative_to(old)))
        before = (page[-1].updated_us, page[-1].id)
    return moves
