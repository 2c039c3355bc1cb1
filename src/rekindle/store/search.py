"""The contract of a search index. A store may have one; it is derived from the store's entries.

`transfer/indexer` turns entries into documents and brings an index up to date. An index stores
documents and finds them. It knows nothing about entries.
"""

from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

from msgspec import Struct

from rekindle.model import DocumentKind, Page, SearchDocument
from rekindle.text.redact.detect import Span
from rekindle.text.search_syntax import Term


class SearchRequest(Struct, frozen=True, kw_only=True):
    """The terms to find, and where to look for them."""

    terms: list[Term]
    page: Page = Page(limit=20)
    """Selects the sessions; its limit is the number of turns."""
    since_us: int | None = None
    """Only documents from this time on."""


class SearchHit(Struct, frozen=True, kw_only=True):
    """A turn that matches, represented by its best document. Turn 0 is the session's title."""

    session_id: str
    turn: int
    seq: int
    at_us: int
    kind: DocumentKind
    score: float
    text: str
    matches: list[Span]


class IndexMark(Struct, frozen=True):
    """How far a session is indexed: up to entry `seq`.

    `turn` is the number of its last indexed turn, and `turn_seq` the first entry of that turn.
    """

    seq: int = 0
    turn: int = 1
    turn_seq: int = 0


class StaleSession(Struct, frozen=True, kw_only=True):
    """A session that may have changed since it was indexed."""

    session_id: str
    title: str | None
    """The title to index. None if it comes from the first prompt, which is indexed anyway."""
    updated_us: int
    last_seq: int
    mark: IndexMark
    is_indexed: bool
    """Whether some of it is indexed."""
    is_outdated: bool
    """Whether the indexed documents are of another session, or of entries that were removed."""
    is_noted: bool
    """Whether the index has noted its time and revision already."""
    position: int
    """Its place in the order of `SearchIndex.stale`."""
    version: tuple[int, ...]
    """Identifies the state that was seen. Only the index that made it understands it."""

    @property
    def unread(self) -> int:
        """The number of entries that are not indexed."""
        return max(0, self.last_seq - self.mark.seq)

    @property
    def has_more(self) -> bool:
        """Whether entries have to be read to index it."""
        return self.is_outdated or not self.is_indexed or self.mark.seq < self.last_seq


class IndexUpdate(Struct, frozen=True, kw_only=True):
    """The documents of one range of a session, to replace those in the index."""

    session: StaleSession
    expected_mark: IndexMark
    """The mark that the index must have for the update to apply."""
    first_seq: int
    last_seq: int | None
    """The end of the range, inclusive; None is the end of the session."""
    documents: list[SearchDocument]
    title: SearchDocument | None = None
    new_mark: IndexMark
    is_complete: bool = True
    """Whether the session is indexed to its end. Otherwise it stays stale, and keeps its title."""


class SearchIndex(Protocol):
    """An open index. Any number of processes may use one; an instance belongs to one thread.

    Every method raises StoreUnavailable, and IndexDamaged if the index cannot be read.
    """

    def search(self, request: SearchRequest) -> list[SearchHit]:
        """Return the turns that match, best first, at most `request.page.limit`.

        Documents with about the same score are ordered newest first. Where the title matches and
        no turn does, the session is returned as turn 0. Without terms the result is empty.
        """
        ...

    def stale(self, after: StaleSession | None = None, *, limit: int) -> list[StaleSession]:
        """Return sessions that may have changed since they were indexed, in a fixed order.

        Pass the last one of a page as `after` for the next page. A page with fewer than `limit`
        sessions is the last one.
        """
        ...

    def idents_before(self, session: StaleSession, seq: int) -> set[str | None]:
        """Return the idents of the session's documents before entry `seq`."""
        ...

    def replace(self, updates: Sequence[IndexUpdate]) -> None:
        """Apply updates in one transaction. Documents that do not differ are not written.

        An update is skipped if its session is gone, or if the mark differs from `expected_mark`
        because another process has indexed the session meanwhile.
        """
        ...

    def remove_missing(self) -> None:
        """Remove the documents of sessions that the store does not have any more."""
        ...

    def counts(self) -> tuple[int, int]:
        """Return the number of documents, and of sessions."""
        ...

    def close(self) -> None:
        """Close the index."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


@runtime_checkable
class SearchBackend(Protocol):
    """A back end whose store has a search index."""

    def open_index(self, *, rebuild: bool = False) -> SearchIndex:
        """Open the index; create it if necessary. With `rebuild`, discard its documents.

        Raises StoreUnavailable.
        """
        ...
