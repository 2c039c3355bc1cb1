"""Set the folder of sessions whose project has moved.

A session in use cannot be relocated.

example:
  rekindle relocate @1 ~/projects/parser
  rekindle relocate --all ~/parser ~/projects/parser
"""

import argparse
import os
from pathlib import Path, PurePath

from rekindle.cli.formatting import one_line
from rekindle.cli.messages import print_note
from rekindle.cli.project import absolute_path
from rekindle.cli.store_access import add_store_option, every
from rekindle.cli.store_changes import (
    apply,
    check_not_in_use,
    find_undeleted,
    now_us,
    open_for_changing,
)
from rekindle.errors import UsageError
from rekindle.model import Opened, Page, Session
from rekindle.store.base import Store


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "rekindle relocate [--store STORE] (SESSION DIR | --all OLD NEW)"
    add_store_option(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help="relocate all sessions of the folder OLD, and of the folders in it, to NEW",
    )
    parser.add_argument("what", metavar="SESSION", help="a session, or with --all the old folder")
    parser.add_argument("folder", metavar="DIR", help="the folder of the project now")


def main(arguments: argparse.Namespace) -> int:
    """Record the new folders of the sessions."""
    new = _absolute(arguments.folder)
    if not new.is_dir():
        raise UsageError(f"there is no folder {new}; move the project there first")
    with open_for_changing(arguments.store) as store:
        moves = (
            _moves_below(store, _absolute(arguments.what), new)
            if arguments.all
            else [(session, new) for session in find_undeleted(store, [arguments.what])]
        )
        for session, _ in moves:
            check_not_in_use(store, session)
        at_us = now_us()
        apply(
            store,
            [Opened(session_id=session.id, at_us=at_us, cwd=str(to)) for session, to in moves],
        )
    for session, to in moves:
        print(f"{one_line(session.id)}: {one_line(session.cwd or '?')} → {one_line(str(to))}")
    if not moves:
        print_note(f"no session belongs to {arguments.what}")
    return 0


def _moves_below(store: Store, old: PurePath, new: PurePath) -> list[tuple[Session, PurePath]]:
    """Return the sessions of a folder and those below it, each with its new folder."""
    sessions = every(store, Page(under=(str(old),), with_archived=True))
    return [(session, new / PurePath(str(session.cwd)).relative_to(old)) for session in sessions]


def _absolute(folder: str) -> Path:
    return Path(absolute_path(os.path.expanduser(folder)))  # noqa: PTH111 - Path.expanduser may raise
