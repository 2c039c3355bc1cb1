"""Asking which session to go on with."""

import os
import sys

from msgspec.structs import replace

from rekindle.cli.confirm import ask
from rekindle.cli.formatting import age, agent_name, folder, one_line, title
from rekindle.cli.terminal import columns
from rekindle.errors import RekindleError, StoreError
from rekindle.model import Page, Session
from rekindle.store.base import Store
from rekindle.text.widths import cut, cut_path

_OFFERED = 9
_SHARE_OF_FOLDER = 3
_ALL = Page()


def pick(store: Store, page: Page = _ALL) -> Session:
    """Let the user pick one of a page's sessions used last, those of this folder first."""
    sessions = _offered(store, page)
    if not sessions:
        raise StoreError("no session is recorded yet: `rekindle new -- COMMAND` starts one")
    for number, session in enumerate(sessions, 1):
        print(_line(number, session, columns()))
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


def _line(number: int, session: Session, room: int) -> str:
    """Write a session on one line. The title tells more than the whole path of a folder."""
    where = cut_path(folder(session), room // _SHARE_OF_FOLDER)
    line = f"{number}  {age(session.updated_us):>6}  {agent_name(session.agent)}  {where}"
    return cut(f"{line}  {title(session)}", room)


def _offered(store: Store, page: Page) -> list[Session]:
    here = os.getcwd()  # noqa: PTH109 - as editors spell it
    of_here = store.sessions(replace(page, cwd=here, limit=_OFFERED))
    known = {session.id for session in of_here}
    last_used = store.sessions(replace(page, limit=2 * _OFFERED))
    others = [it for it in last_used if it.id not in known]
    return [*of_here, *others][:_OFFERED]
