"""The choice of one session: by id, by title, as the last one used, or from a menu."""

import argparse
import os
import sys

from msgspec.structs import replace

from rekindle.cli.arguments import nonempty_text
from rekindle.cli.confirm import ask
from rekindle.cli.formatting import agent_label, folder_label, format_age, one_line, title_label
from rekindle.cli.project import folder_spellings
from rekindle.cli.store_access import every, find_existing, short_id
from rekindle.cli.terminal import columns
from rekindle.errors import RekindleError, StoreError, UsageError
from rekindle.model import Page, Session
from rekindle.store.base import Store
from rekindle.text.widths import cut, cut_path

_MAX_CANDIDATES = 10
_MENU_LENGTH = 9
_FOLDER_SHARE = 3
"""A menu line gives one third of its width to the folder."""
_ALL = Page(prompted=True)
_NO_SESSION = "no session is recorded yet: `rekindle new -- COMMAND` starts one"


def add_session_choice(parser: argparse.ArgumentParser) -> None:
    """Add the options `--last` and `--title`."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--last", action="store_true", help="the last used session: of this folder, else of all"
    )
    choice.add_argument(
        "--title",
        type=nonempty_text,
        metavar="TEXT",
        help="the one whose title has this text in it",
    )


def check_session_choice(session_id: str | None, *, last: bool, title: str | None) -> None:
    """Raise UsageError unless exactly one way of choosing is used."""
    if (session_id is not None) + last + (title is not None) != 1:
        raise UsageError("which session? give the beginning of its id, --last, or --title TEXT")


def choose_session(
    store: Store, session_id: str | None, *, last: bool, title: str | None
) -> Session:
    """Return the chosen session. Raises UsageError, StoreError."""
    check_session_choice(session_id, last=last, title=title)
    if session_id is not None:
        return find_existing(store, session_id)
    return last_used(store) if last else by_title(store, title or "")


def last_used(store: Store, *, prompted: bool = True) -> Session:
    """Return the session used last in this folder, or anywhere. Raises StoreError.

    Sessions that were never prompted count only if `prompted` is false.
    """
    page = Page(limit=1, prompted=prompted)
    found = store.sessions(replace(page, folders=folder_spellings(".")))
    if found:
        return found[0]
    found = store.sessions(page)
    if not found:
        raise StoreError(_NO_SESSION)
    where = folder_label(found[0])
    print(f"rekindle: no session of this folder; the last of all is of {where}", file=sys.stderr)
    return found[0]


def by_title(store: Store, text: str) -> Session:
    """Return the only session whose title contains the text, in any case. Raises StoreError."""
    folded = text.casefold()
    sessions = every(store, Page(with_archived=True))
    found = [
        session for session in sessions if session.title and folded in session.title.casefold()
    ]
    if not found:
        raise StoreError(f"no session's title has {text!r} in it: `rekindle list` shows them")
    if len(found) > 1:
        raise StoreError(_ambiguous_title(store, text, found))
    return found[0]


def _ambiguous_title(store: Store, text: str, found: list[Session]) -> str:
    lines = [
        f"  {short_id(store, session.id)}  {title_label(session)}"
        for session in found[:_MAX_CANDIDATES]
    ]
    if len(found) > _MAX_CANDIDATES:
        lines.append(f"  … and {len(found) - _MAX_CANDIDATES} more")
    summary = f"{len(found)} titles have {one_line(text)!r} in them: give more of it, or an id"
    return "\n".join([summary, *lines])


# -- the menu -------------------------------------------------------------------------------


def choose_from_menu(store: Store, page: Page = _ALL) -> Session:
    """Print the sessions used last, those of this folder first, and ask for one.

    Raises StoreError if the page has no session, RekindleError at the end of input.
    """
    sessions = _menu_sessions(store, page)
    if not sessions:
        raise StoreError(_NO_SESSION)
    for number, session in enumerate(sessions, 1):
        print(_menu_line(number, session, columns()))
    while True:
        try:
            line = ask(f"Which one, 1 to {len(sessions)}? [1] ", sys.stdout)
        except KeyboardInterrupt:
            print()
            raise
        if not line:
            print()
            raise RekindleError("no session was chosen")
        answer = line.strip() or "1"
        if answer.isdecimal() and 1 <= int(answer) <= len(sessions):
            return sessions[int(answer) - 1]
        print(f"{one_line(answer)!r} is none of these")


def _menu_line(number: int, session: Session, room: int) -> str:
    # A long path is cut first: the title is the better description.
    where = cut_path(folder_label(session), room // _FOLDER_SHARE)
    line = f"{number}  {format_age(session.updated_us):>6}  {agent_label(session.agent)}  {where}"
    return cut(f"{line}  {title_label(session)}", room)


def _menu_sessions(store: Store, page: Page) -> list[Session]:
    cwd = os.getcwd()  # noqa: PTH109 - as editors spell it
    of_this_folder = store.sessions(replace(page, cwd=cwd, limit=_MENU_LENGTH))
    known = {session.id for session in of_this_folder}
    recent = store.sessions(replace(page, limit=2 * _MENU_LENGTH))
    others = [session for session in recent if session.id not in known]
    return [*of_this_folder, *others][:_MENU_LENGTH]
