"""Which session is meant: by its id, its title, or as the last one used."""

import argparse
import sys

from rekindle.cli.arguments import some_text
from rekindle.cli.formatting import folder, one_line, title
from rekindle.cli.project import spellings
from rekindle.cli.store_access import every, find_existing, short_id
from rekindle.errors import StoreError, UsageError
from rekindle.model import Page, Session
from rekindle.store.base import Store

_MOST_TOLD = 10


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Let a session be chosen otherwise than by its id."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--last", action="store_true", help="the last used session: of this folder, else of all"
    )
    choice.add_argument(
        "--title", type=some_text, metavar="TEXT", help="the one whose title has this text in it"
    )


def check_choice(session_id: str | None, *, last: bool, words: str | None) -> None:
    """Raise UsageError unless one session is meant."""
    if (session_id is not None) + last + (words is not None) != 1:
        raise UsageError("which session? give the beginning of its id, --last, or --title TEXT")


def choose(store: Store, session_id: str | None, *, last: bool, words: str | None) -> Session:
    """Return the session that is meant. Raises UsageError, StoreError."""
    check_choice(session_id, last=last, words=words)
    if session_id is not None:
        return find_existing(store, session_id)
    return last_used(store) if last else by_title(store, words or "")


def last_used(store: Store) -> Session:
    """Return the session that was used last: in this folder, else anywhere. Raises StoreError."""
    found = store.sessions(Page(folders=spellings("."), limit=1))
    if found:
        return found[0]
    found = store.sessions(Page(limit=1))
    if not found:
        raise StoreError("no session is recorded yet: `rekindle new -- COMMAND` starts one")
    where = folder(found[0])
    print(f"rekindle: no session of this folder; the last of all is of {where}", file=sys.stderr)
    return found[0]


def by_title(store: Store, words: str) -> Session:
    """Return the one session whose title has these words in it. Raises StoreError."""
    wanted = words.casefold()
    sessions = every(store, Page(with_archived=True))
    found = [it for it in sessions if it.title and wanted in it.title.casefold()]
    if not found:
        raise StoreError(f"no session's title has {words!r} in it: `rekindle list` shows them")
    if len(found) > 1:
        raise StoreError(_several(store, words, found))
    return found[0]


def _several(store: Store, words: str, found: list[Session]) -> str:
    lines = [f"  {short_id(store, it.id)}  {title(it)}" for it in found[:_MOST_TOLD]]
    if len(found) > _MOST_TOLD:
        lines.append(f"  … and {len(found) - _MOST_TOLD} more")
    what = f"{len(found)} titles have {one_line(words)!r} in them: give more of it, or an id"
    return "\n".join([what, *lines])
