"""The choice of one session: by its id, its title, its place in the list, or from a menu.

A SESSION on the command line is, in this order: an exact id; `-` for the session used last in this
project; `@N` for the N-th session of `rekindle list`; the beginning of an id; or words of a title.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterable
from itertools import islice

from msgspec.structs import replace

from rekindle.cli.arguments import nonempty_text
from rekindle.cli.confirm import ask
from rekindle.cli.formatting import agent_label, folder_label, format_age, one_line, title_label
from rekindle.cli.messages import print_note
from rekindle.cli.project import of_project
from rekindle.cli.store_access import every, short_id
from rekindle.cli.terminal import columns
from rekindle.errors import (
    RekindleError,
    SessionAmbiguous,
    SessionNotFound,
    SessionPurged,
    StoreError,
    UsageError,
)
from rekindle.model import Page, Session
from rekindle.store.base import Store
from rekindle.text.widths import ELLIPSIS, cut, cut_path

LISTED = Page(prompted=True)
"""The sessions that `rekindle list` shows."""
LAST = "-"
NO_SESSIONS_YET = (
    "no sessions are recorded yet; configure an editor with `rekindle setup EDITOR`, start a"
    " session with `rekindle new AGENT`, or import those of other tools with"
    " `rekindle import all`"
)

_PLACE = re.compile(r"@(\d{1,9})")
_MAX_CANDIDATES = 10
_MENU_LENGTH = 9
_FOLDER_SHARE = 3
"""A menu line gives one third of its width to the folder."""
_WHICH = (
    "no session given; type words of its title, the beginning of its id, @1 for the first of"
    " `rekindle list`, or - for the one used last in this project"
)


def add_session_choice(parser: argparse.ArgumentParser) -> None:
    """Add the options `--last` and `--title`."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--last",
        action="store_true",
        help="the session used last in this project (its git repository, or this folder)",
    )
    choice.add_argument(
        "--title",
        type=nonempty_text,
        metavar="TEXT",
        help="the session whose title contains these words",
    )


def check_session_choice(session_id: str | None, *, last: bool, title: str | None) -> None:
    """Raise UsageError unless exactly one way of choosing is used."""
    if (session_id is not None) + last + (title is not None) != 1:
        raise UsageError(_WHICH)


def choose_session(
    store: Store, session_id: str | None, *, last: bool, title: str | None, any_project: bool
) -> Session:
    """Return the chosen session. Raises UsageError, StoreError.

    `any_project` is as for `find_session`.
    """
    check_session_choice(session_id, last=last, title=title)
    if session_id is not None:
        return find_existing(store, session_id, any_project=any_project)
    return find_last(store, any_project=any_project) if last else by_title(store, title or "")


def find_existing(store: Store, text: str, *, any_project: bool) -> Session:
    """Return the session that a text names. Raises StoreError, also if it was purged."""
    session = find_session(store, text, any_project=any_project)
    if session.is_purged:
        raise SessionPurged(one_line(session.id))
    return session


def find_session(
    store: Store, text: str, listed: Page = LISTED, *, any_project: bool = False
) -> Session:
    """Return the session that a text names, even if it was purged. Raises StoreError.

    `listed` selects the sessions to which `-` and `@N` refer. Titles of deleted sessions count only
    if it selects these. If the current project has no session, `-` is an error. With
    `any_project`, which is only for commands that change nothing, it is the last one of all.
    """
    try:
        return store.session(text)
    except SessionNotFound:
        pass
    place = _PLACE.fullmatch(text)
    if text == LAST:
        return find_last(store, listed, any_project=any_project)
    if place is not None:
        return _at_place(store, listed, int(place[1]))
    try:
        # A table shortens long ids with an ellipsis.
        return store.find(text.removesuffix(ELLIPSIS))
    except SessionAmbiguous as error:
        found = [store.session(session_id) for session_id in error.matches[:_MAX_CANDIDATES]]
        raise StoreError(_ambiguous(store, text, found, len(error.matches))) from None
    except SessionNotFound:
        found = _titled(store, text, replace(listed, prompted=False, with_archived=True))
        if not found:
            error = StoreError(NO_SESSIONS_YET) if is_empty(store) else SessionNotFound(text)
            raise error from None
        return _only(store, text, found)


def is_empty(store: Store) -> bool:
    """Return whether a store has no sessions, not even archived or deleted ones."""
    pages = (Page(limit=1, with_archived=True, with_unopened=True), Page(limit=1, deleted=True))
    return not any(map(store.sessions, pages))


def _at_place(store: Store, listed: Page, number: int) -> Session:
    """Return the session with a number in the list."""
    found = next(islice(every(store, listed), number - 1, None), None) if number else None
    if found is None:
        raise StoreError(
            NO_SESSIONS_YET
            if is_empty(store)
            else f"there is no {_kind(listed)}session @{number}; `{_list_command(listed)}` shows"
            f" the {_kind(listed)}sessions, and @1 is the first of them"
        )
    return found


def find_last(store: Store, listed: Page = LISTED, *, any_project: bool) -> Session:
    """Return the session of a list that was used last in the current project. Raises StoreError.

    `any_project` is as for `find_session`.
    """
    last = replace(listed, limit=1)
    found = store.sessions(of_project(last))
    if found:
        return found[0]
    found = store.sessions(last)
    if not found:
        none = f"there is no {_kind(listed)}session; `rekindle list` shows the others"
        raise StoreError(NO_SESSIONS_YET if is_empty(store) else none)
    where = folder_label(found[0])
    if not any_project:
        raise StoreError(
            f"this project has no {_kind(listed)}session, and the last used one belongs to {where};"
            f" `{_list_command(listed)}` shows all: name one by its id, its title or @N"
        )
    print_note(f"this project has no session; the last used session is of {where}")
    return found[0]


def _kind(listed: Page) -> str:
    return "deleted " if listed.deleted else "archived " if listed.archived else ""


def _list_command(listed: Page) -> str:
    """Return the command that lists the sessions to which `@N` refers."""
    kind = _kind(listed).strip()
    return f"rekindle list --{kind}" if kind else "rekindle list"


def by_title(store: Store, text: str) -> Session:
    """Return the only session whose title contains the words, in any case. Raises StoreError."""
    found = _titled(store, text, Page(with_archived=True))
    if not found:
        raise StoreError(f"no title contains {text!r}; `rekindle list` shows the sessions")
    return _only(store, text, found)


def _titled(store: Store, text: str, page: Page) -> list[Session]:
    """Return the sessions whose titles contain all words of a text, in any order and case.

    If a title is exactly the text, only sessions with that title are returned. Otherwise words that
    begin with the given words are better than words that contain them.
    """
    words = text.casefold().split()
    if not words:
        return []
    exact: list[Session] = []
    beginning: list[Session] = []
    containing: list[Session] = []
    for session in every(store, page):
        title = (session.title or "").casefold()
        if not all(word in title for word in words):
            continue
        if title.split() == words:
            exact.append(session)
        elif _begins_each(words, title):
            beginning.append(session)
        else:
            containing.append(session)
    return exact or beginning or containing


def _begins_each(words: Iterable[str], title: str) -> bool:
    return all(re.search(rf"(?<!\w){re.escape(word)}", title) for word in words)


def _only(store: Store, text: str, found: list[Session]) -> Session:
    if len(found) > 1:
        raise StoreError(_ambiguous(store, text, found[:_MAX_CANDIDATES], len(found)))
    return found[0]


def _ambiguous(store: Store, text: str, found: list[Session], count: int) -> str:
    """Return the error for a text that names several sessions, with the first of them."""
    rows = [
        (short_id(store, session.id), format_age(session.updated_us), title_label(session))
        for session in found
    ]
    widest = max(len(shown_id) for shown_id, _, _ in rows)
    lines = [f"  {shown_id:{widest}}  {age:>6}  {title}" for shown_id, age, title in rows]
    if count > len(found):
        lines.append(f"  … and {count - len(found)} more")
    summary = f"{one_line(text)!r} matches {count} sessions; type more of a title or of an id"
    return "\n".join([summary, *lines])


# -- the menu -------------------------------------------------------------------------------


def choose_from_menu(store: Store, page: Page = LISTED, *, redact: bool = True) -> Session:
    """Print the sessions used last, those of this folder first, and ask for one.

    Raises StoreError if the page has no session, RekindleError at the end of input.
    """
    sessions = _menu_sessions(store, page)
    if not sessions:
        raise StoreError(NO_SESSIONS_YET)
    for number, session in enumerate(sessions, 1):
        print(_menu_line(number, session, columns(), redact=redact))
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
        print(f"{one_line(answer)!r} is not a number from 1 to {len(sessions)}")


def _menu_line(number: int, session: Session, room: int, *, redact: bool) -> str:
    # A long path is cut first: the title is the better description.
    where = cut_path(folder_label(session), room // _FOLDER_SHARE)
    line = f"{number}  {format_age(session.updated_us):>6}  {agent_label(session.agent)}  {where}"
    return cut(f"{line}  {title_label(session, redact=redact)}", room)


def _menu_sessions(store: Store, page: Page) -> list[Session]:
    cwd = os.getcwd()  # noqa: PTH109 - as editors spell it
    of_this_folder = store.sessions(replace(page, cwd=cwd, limit=_MENU_LENGTH))
    known = {session.id for session in of_this_folder}
    recent = store.sessions(replace(page, limit=2 * _MENU_LENGTH))
    others = [session for session in recent if session.id not in known]
    return [*of_this_folder, *others][:_MENU_LENGTH]
