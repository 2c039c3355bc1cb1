"""Finding sessions while somebody types. Called by threads, never by the one that draws.

Nothing is read before it is needed: of a hundred thousand sessions, a page if nothing is typed, and
else as many pages as it takes to find enough.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Lock

from msgspec import Struct
from msgspec.structs import replace

from rekindle.cli.render.table import SessionRow
from rekindle.cli.store_access import short_id, statuses_of
from rekindle.errors import SessionNotFound, StoreUnavailable, UsageError
from rekindle.model import Page, Session
from rekindle.store.address import StoreAddress, open_search_index
from rekindle.store.base import Store
from rekindle.store.search import SearchRequest
from rekindle.text.redact.secrets import find_secrets
from rekindle.text.search_terms import Term, parse
from rekindle.text.snippets import Fragment, snippet
from rekindle.transfer.indexer import update_index

_SESSIONS_A_PAGE = 500
_TURNS_FOUND = 60
_WIDTH = 160

IsWanted = Callable[[], bool]
"""Tells whether anybody still waits for what is looked for."""


class Found(Struct, frozen=True, kw_only=True):
    """Sessions that fit what was typed, the best first."""

    typed: str
    lines: list[SessionRow]
    is_more: bool = False
    """Whether there may be others."""
    said: dict[str, list[Fragment]] = {}
    """By a session's id, where in it the words were said."""


class Catalogue:
    """What sessions are called, as far as anybody has looked; not more, to be held in memory."""

    def __init__(self, store: Store, page: Page) -> None:
        self._store = store
        self._next_page: Page | None = replace(page, limit=_SESSIONS_A_PAGE)
        self._known: list[tuple[str, str]] = []
        self._lock = Lock()

    def find(self, typed: str, most: int, is_wanted: IsWanted) -> Found:
        """Return the sessions whose title, folder, agent and id have all the words in them."""
        words = [word.strip('"*') for word in typed.casefold().split()]
        ids: list[str] = []
        for number, (session_id, called) in enumerate(self._all()):
            if number % _SESSIONS_A_PAGE == 0 and not is_wanted():
                break
            if all(word in called for word in words):
                ids.append(session_id)
            # One more than is shown tells whether there are more.
            if len(ids) > most:
                break
        lines = lines_of(self._store, ids[:most])
        return Found(typed=typed, lines=lines, is_more=len(ids) > most)

    def _all(self) -> Iterator[tuple[str, str]]:
        at = 0
        while at < len(self._known) or self._read_on(at):
            yield self._known[at]
            at += 1

    def _read_on(self, at: int) -> bool:
        """Read the next page, unless another thread has; tell whether there is more now."""
        with self._lock:
            page = self._next_page
            if at == len(self._known) and page is not None:
                sessions = self._store.sessions(page)
                self._known += [(it.id, _called(it)) for it in sessions]
                last = (sessions[-1].updated_us, sessions[-1].id) if sessions else None
                self._next_page = last and replace(page, before=last)
            return at < len(self._known)


def _called(session: Session) -> str:
    agent = session.agent
    names = (session.title, session.cwd, agent.name, agent.program, session.id)
    return "\n".join(name for name in names if name).casefold()


class Texts:
    """What was said in the sessions, by the index beside the store."""

    def __init__(self, address: StoreAddress, store: Store, page: Page) -> None:
        self._address = address
        self._store = store
        self._page = replace(page, limit=_TURNS_FOUND)

    def find(self, typed: str) -> Found:
        """Return the sessions in which the words were said, as far as they are indexed."""
        terms = _terms(typed)
        if not terms:
            return Found(typed=typed, lines=[])
        with open_search_index(self._address) as index:
            hits = index.search(SearchRequest(terms=terms, page=self._page))
        said: dict[str, list[Fragment]] = {}
        for hit in hits:
            if hit.session_id not in said:
                said[hit.session_id] = snippet(
                    hit.text, hit.matches, find_secrets(hit.text), _WIDTH
                )
        return Found(typed=typed, lines=lines_of(self._store, list(said)), said=said)

    def update(self) -> Iterator[float]:
        """Bring the index up to date; yield which part is done. Where it cannot be, leave it."""
        with suppress(StoreUnavailable), open_search_index(self._address) as index:
            index.remove_missing()
            yield 0.0
            for step in update_index(index, self._store):
                yield step.done / max(1, step.total)


def _terms(typed: str) -> list[Term]:
    """Read what is typed so far: the last word may go on."""
    is_open = typed[-1:].isalnum()
    with suppress(UsageError):
        return parse(f"{typed}*" if is_open else typed)
    return []


def lines_of(store: Store, ids: list[str]) -> list[SessionRow]:
    """Return what a table shows of sessions; of those that are gone, nothing."""
    sessions: list[Session] = []
    for session_id in ids:
        with suppress(SessionNotFound):
            sessions.append(store.session(session_id))
    sessions = [session for session in sessions if session.deleted_us is None]
    standings = statuses_of(store, sessions)
    return [SessionRow(it, short_id(store, it.id), standings[it.id]) for it in sessions]
