"""The searches of the picker. Threads call them, never the thread that draws.

A store may have a hundred thousand sessions. They are read page by page: without a typed word only
until enough of them are known, otherwise all of them, to find the best matches.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import PurePath
from threading import Lock
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from rekindle.cli.picker.fuzzy import match_cost, substring_cost
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
_NOT_TITLE = 1
"""The additional cost of a match in the project or the agent."""
_NOT_NAME = 3
"""The cost of a match in the folder or the id."""

IsCurrent = Callable[[], bool]
"""Returns whether the result of a search is still needed."""


class SearchKey(NamedTuple):
    """The typed text, and whether it is searched among the archived sessions."""

    typed: str
    is_archived: bool = False


class PickerMatches(Struct, frozen=True, kw_only=True):
    """The sessions that match the typed text, the best first."""

    key: SearchKey
    lines: list[SessionRow]
    has_more: bool = False
    """Whether more sessions match than the limit allows."""
    snippets: dict[str, list[Fragment]] = {}
    """By session id, the text around the typed words."""


class SearchState(Struct, kw_only=True):
    """The results for the typed text so far, and the progress of the index."""

    key: SearchKey | None = SearchKey("")
    """The present search; None once the picker is closed, so that threads end."""
    limit: int
    """The maximum number of matches by metadata."""
    by_metadata: PickerMatches | None = None
    by_text: PickerMatches | None = None
    hidden: set[str] = field(default_factory=set[str])
    """The sessions that an action has removed from the list. Older results may have them."""
    is_indexing: bool = False
    indexed: float | None = None
    """The indexed share of the text, from 0 to 1; None until the index is open."""

    def restart(self, key: SearchKey) -> None:
        """Start a search. The present matches stay until new ones come.

        The exception are matches by text of another search, because the new ones come late.
        """
        if self.key is None or self.key.is_archived != key.is_archived:
            self.hidden.clear()
        if self.key != key:
            self.key, self.by_text = key, None

    def lines(self) -> list[SessionRow]:
        """Return all matches, each session once: first by metadata, then by text."""
        by_metadata = self.by_metadata.lines if self.by_metadata is not None else []
        by_text = self.by_text.lines if self.by_text is not None else []
        known = {line.session.id for line in by_metadata}
        others = (line for line in by_text if line.session.id not in known)
        return [line for line in (*by_metadata, *others) if line.session.id not in self.hidden]

    @property
    def has_more(self) -> bool:
        """Whether more sessions match by metadata than the limit allows."""
        return self.by_metadata is not None and self.by_metadata.has_more

    @property
    def is_finished(self) -> bool:
        """Whether both searches for the present key have ended."""
        return self.is_complete(self.key, has_lines=False)

    def is_complete(self, key: SearchKey | None, *, has_lines: bool) -> bool:
        """Return whether the lines on the screen, or their absence, are the result for a key."""
        if self.by_metadata is None or self.by_metadata.key != key:
            return False
        return has_lines or self.by_text is not None


class MetadataSearch:
    """A search in titles, projects, agents and ids. They are read once, as far as needed."""

    def __init__(self, store: Store, page: Page) -> None:
        self._store = store
        self._is_archived = page.archived
        self._next_page: Page | None = replace(page, limit=_PAGE)
        self._known: list[_Metadata] = []
        self._lock = Lock()

    def find(self, typed: str, limit: int, is_current: IsCurrent) -> PickerMatches:
        """Return the matching sessions: those with the words first, then those with their letters.

        Without a word, they are the sessions used last.
        """
        words = [word for it in typed.casefold().split() if (word := it.strip('"*'))]
        # One more than the limit, to know whether there are more.
        ids = self._ranked(words, limit + 1, is_current) if words else self._last_used(limit + 1)
        return PickerMatches(
            key=SearchKey(typed, self._is_archived),
            lines=self._lines(ids[:limit]) if is_current() else [],
            has_more=len(ids) > limit,
        )

    def _lines(self, ids: list[str]) -> list[SessionRow]:
        return table_lines(self._store, ids, is_archived=self._is_archived)

    def _last_used(self, count: int) -> list[str]:
        return [metadata.session_id for metadata in islice(self._all(), count)]

    def _ranked(self, words: list[str], count: int, is_current: IsCurrent) -> list[str]:
        whole: list[_Ranked] = []
        rest: list[_Metadata] = []
        for number, metadata in enumerate(self._all()):
            if number % _PAGE == 0 and not is_current():
                return []
            cost = _total(metadata.whole_cost(word) for word in words)
            if cost is None:
                rest.append(metadata)
            else:
                whole.append(_Ranked(cost, metadata.session_id))
        scattered: list[_Ranked] = []
        if len(whole) < count:
            for number, metadata in enumerate(rest):
                if number % _PAGE == 0 and not is_current():
                    return []
                cost = _total(metadata.scattered_cost(word) for word in words)
                if cost is not None:
                    scattered.append(_Ranked(cost, metadata.session_id))
        # Sorting keeps the order of equal costs: the session used last comes first.
        ranked = (*sorted(whole, key=_cost_of), *sorted(scattered, key=_cost_of))
        return [session_id for _, session_id in ranked[:count]]

    def _all(self) -> Iterator["_Metadata"]:
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
                self._known += map(_metadata, sessions)
                last = (sessions[-1].updated_us, sessions[-1].id) if sessions else None
                self._next_page = last and replace(page, before=last)
            return at < len(self._known)


class _Ranked(NamedTuple):
    """A matching session. A lower cost is a better match."""

    cost: int
    session_id: str


def _cost_of(ranked: _Ranked) -> int:
    return ranked.cost


class _Metadata(NamedTuple):
    """The casefolded names of a session."""

    session_id: str
    title: str
    others: tuple[str, ...]
    """The project, the agent and its program."""
    whole: str
    """The folder and the id, which match only as they are typed."""

    def whole_cost(self, word: str) -> int | None:
        """Return the cost of a whole word; None if it does not occur."""
        cost = substring_cost(word, self.title)
        if cost is not None:
            return cost
        costs = [substring_cost(word, other) for other in self.others]
        best = min((cost for cost in costs if cost is not None), default=None)
        if best is not None:
            return best + _NOT_TITLE
        return _NOT_NAME if word in self.whole else None

    def scattered_cost(self, word: str) -> int | None:
        """Return the cost of a word whose letters occur in order; None if they do not."""
        cost = self.whole_cost(word)
        if cost is not None:
            return cost
        costs = [match_cost(word, self.title)]
        costs += [
            cost + _NOT_TITLE
            for other in self.others
            if (cost := match_cost(word, other)) is not None
        ]
        return min((cost for cost in costs if cost is not None), default=None)


def _metadata(session: Session) -> _Metadata:
    agent = session.agent
    folder = PurePath(session.cwd or "")
    return _Metadata(
        session_id=session.id,
        title=(session.title or "").casefold(),
        others=tuple(
            dict.fromkeys(
                name.casefold() for name in (folder.name, agent.name, agent.program) if name
            )
        ),
        whole=f"{folder}\n{session.id}".casefold(),
    )


def _total(costs: Iterable[int | None]) -> int | None:
    """Return the sum of costs; None if any cost is None."""
    total = 0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total


class TextSearch:
    """A search in the text of the sessions, with the index beside the store."""

    def __init__(
        self, address: StoreAddress, store: Store, page: Page, *, redact: bool = True
    ) -> None:
        self._address = address
        self._store = store
        self._page = replace(page, limit=_MAX_TURNS)
        self._redact = redact

    def find(self, typed: str) -> PickerMatches:
        """Return the sessions whose text has the words, as far as they are indexed."""
        terms = _terms(typed)
        key = SearchKey(typed, self._page.archived)
        if not terms:
            return PickerMatches(key=key, lines=[])
        with open_search_index(self._address) as index:
            hits = index.search(SearchRequest(terms=terms, page=self._page))
        snippets: dict[str, list[Fragment]] = {}
        for hit in hits:
            if hit.session_id not in snippets:
                secrets = find_secrets(hit.text) if self._redact else []
                snippets[hit.session_id] = snippet(hit.text, hit.matches, secrets, _SNIPPET_WIDTH)
        lines = table_lines(self._store, list(snippets), is_archived=self._page.archived)
        return PickerMatches(key=key, lines=lines, snippets=snippets)

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


def table_lines(store: Store, ids: list[str], *, is_archived: bool) -> list[SessionRow]:
    """Return the table lines of sessions, without those deleted, archived or back meanwhile."""
    sessions: list[Session] = []
    for session_id in ids:
        with suppress(SessionNotFound):
            sessions.append(store.session(session_id))
    sessions = [
        session
        for session in sessions
        if session.deleted_us is None and (session.archived_us is not None) == is_archived
    ]
    statuses = statuses_of(store, sessions)
    return [
        SessionRow(session, short_id(store, session.id), statuses[session.id])
        for session in sessions
    ]
