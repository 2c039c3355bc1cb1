"""The searches of the picker. Threads call them, never the thread that draws.

Sessions are read page by page, and only until enough of them match: a store may have a hundred
thousand.
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
from rekindle.text.redact.detect import find_secrets
from rekindle.text.search_syntax import Term, parse
from rekindle.text.snippets import Fragment, snippet
from rekindle.transfer.indexer import update_index

_PAGE = 500
_MAX_TURNS = 60
_SNIPPET_WIDTH = 160

IsCurrent = Callable[[], bool]
"""Returns whether the result of a search is still needed."""


class PickerMatches(Struct, frozen=True, kw_only=True):
    """The sessions that match the typed text, the best first."""

    typed: str
    lines: list[SessionRow]
    has_more: bool = False
    """Whether more sessions match than the limit allows."""
    snippets: dict[str, list[Fragment]] = {}
    """By session id, the text around the typed words."""


class SearchState(Struct, kw_only=True):
    """The results for the typed text so far, and the progress of the index."""

    typed: str | None = ""
    """The text that is searched; None once the picker is closed, so that threads end."""
    limit: int
    """The maximum number of matches by metadata."""
    by_metadata: PickerMatches | None = None
    by_text: PickerMatches | None = None
    is_indexing: bool = False
    indexed: float | None = None
    """The indexed share of the text, from 0 to 1; None until the index is open."""

    def restart(self, typed: str) -> None:
        """Start a search for another text. The matches by metadata stay until new ones come."""
        self.typed, self.by_text = typed, None

    def lines(self) -> list[SessionRow]:
        """Return all matches, each session once: first by metadata, then by text."""
        by_metadata = self.by_metadata.lines if self.by_metadata is not None else []
        by_text = self.by_text.lines if self.by_text is not None else []
        known = {line.session.id for line in by_metadata}
        return [*by_metadata, *(line for line in by_text if line.session.id not in known)]

    @property
    def has_more(self) -> bool:
        """Whether more sessions match by metadata than the limit allows."""
        return self.by_metadata is not None and self.by_metadata.has_more

    def is_complete(self, typed: str, *, has_lines: bool) -> bool:
        """Return whether the lines on the screen, or their absence, are the result for a text."""
        if self.by_metadata is None or self.by_metadata.typed != typed:
            return False
        return has_lines or self.by_text is not None


class MetadataSearch:
    """A search in titles, folders, agents and ids. They are read once, as far as needed."""

    def __init__(self, store: Store, page: Page) -> None:
        self._store = store
        self._next_page: Page | None = replace(page, limit=_PAGE)
        self._known: list[tuple[str, str]] = []
        """Session ids, each with its folded metadata."""
        self._lock = Lock()

    def find(self, typed: str, limit: int, is_current: IsCurrent) -> PickerMatches:
        """Return the sessions whose metadata contain all the words."""
        words = [word.strip('"*') for word in typed.casefold().split()]
        ids: list[str] = []
        for number, (session_id, metadata) in enumerate(self._all()):
            if number % _PAGE == 0 and not is_current():
                break
            if all(word in metadata for word in words):
                ids.append(session_id)
            # One more than the limit, to know whether there are more.
            if len(ids) > limit:
                break
        lines = table_lines(self._store, ids[:limit])
        return PickerMatches(typed=typed, lines=lines, has_more=len(ids) > limit)

    def _all(self) -> Iterator[tuple[str, str]]:
        at = 0
        while at < len(self._known) or self._read_page(at):
            yield self._known[at]
            at += 1

    def _read_page(self, at: int) -> bool:
        """Read the next page unless another thread has; return whether `at` is known now."""
        with self._lock:
            page = self._next_page
            if at == len(self._known) and page is not None:
                sessions = self._store.sessions(page)
                self._known += [(session.id, _metadata(session)) for session in sessions]
                last = (sessions[-1].updated_us, sessions[-1].id) if sessions else None
                self._next_page = last and replace(page, before=last)
            return at < len(self._known)


def _metadata(session: Session) -> str:
    agent = session.agent
    names = (session.title, session.cwd, agent.name, agent.program, session.id)
    return "\n".join(name for name in names if name).casefold()


class TextSearch:
    """A search in the text of the sessions, with the index beside the store."""

    def __init__(self, address: StoreAddress, store: Store, page: Page) -> None:
        self._address = address
        self._store = store
        self._page = replace(page, limit=_MAX_TURNS)

    def find(self, typed: str) -> PickerMatches:
        """Return the sessions whose text has the words, as far as they are indexed."""
        terms = _terms(typed)
        if not terms:
            return PickerMatches(typed=typed, lines=[])
        with open_search_index(self._address) as index:
            hits = index.search(SearchRequest(terms=terms, page=self._page))
        snippets: dict[str, list[Fragment]] = {}
        for hit in hits:
            if hit.session_id not in snippets:
                secrets = find_secrets(hit.text)
                snippets[hit.session_id] = snippet(hit.text, hit.matches, secrets, _SNIPPET_WIDTH)
        lines = table_lines(self._store, list(snippets))
        return PickerMatches(typed=typed, lines=lines, snippets=snippets)

    def update(self) -> Iterator[float]:
        """Update the index; yield the share that is done. Do nothing if it is unavailable."""
        with suppress(StoreUnavailable), open_search_index(self._address) as index:
            index.remove_missing()
            yield 0.0
            for step in update_index(index, self._store):
                yield step.done / max(1, step.total)


def _terms(typed: str) -> list[Term]:
    """Parse the typed text. The last word may be unfinished, so it matches as a prefix."""
    is_unfinished = typed[-1:].isalnum()
    with suppress(UsageError):
        return parse(f"{typed}*" if is_unfinished else typed)
    return []


def table_lines(store: Store, ids: list[str]) -> list[SessionRow]:
    """Return the table lines of sessions, without those that were deleted meanwhile."""
    sessions: list[Session] = []
    for session_id in ids:
        with suppress(SessionNotFound):
            sessions.append(store.session(session_id))
    sessions = [session for session in sessions if session.deleted_us is None]
    statuses = statuses_of(store, sessions)
    return [
        SessionRow(session, short_id(store, session.id), statuses[session.id])
        for session in sessions
    ]
