"""Bring a search index up to date with its store, a few sessions at a time.

A session is indexed again from the start of its last indexed turn, because entries rarely refer to
an earlier one. If one does (it names a message, a tool call or a plan of an earlier turn, or it is
a rewind), the whole session is read again. In either case only documents that differ are written.
Reading takes no lock. The index discards an update if another process has indexed the session
meanwhile.

A session is folded as a whole, as for showing it. The number of sessions does not matter for
memory: stale sessions are looked up some thousands at a time.
"""

from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from rekindle.errors import SessionNotFound
from rekindle.model import SearchDocument
from rekindle.store.base import Store
from rekindle.store.search import IndexMark, IndexUpdate, SearchIndex, StaleSession
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.search_documents import search_documents, title_document

_SESSIONS_PER_PAGE = 5_000
_CHARACTERS_PER_WRITE = 2_000_000
_CHARACTERS_PER_DOCUMENT = 200
"""The overhead of a document in addition to its words."""


class _IndexedTurn(Struct, frozen=True):
    """A turn, the seq of its first entry, and its documents."""

    number: int
    first_seq: int
    documents: list[SearchDocument]


class IndexProgress(Struct, frozen=True):
    """How many entries of how many are indexed."""

    done: int
    total: int


def update_index(index: SearchIndex, store: Store) -> Iterator[IndexProgress]:
    """Index everything that was recorded since the last time; yield the progress.

    If it is stopped early, the part that is indexed stays. Raises StoreUnavailable.
    """
    first_page = index.stale(limit=_SESSIONS_PER_PAGE)
    # Counted in a pass of its own instead of being held: there may be a million sessions.
    total = sum(session.unread for session in _stale_sessions(index, first_page))
    done = size = 0
    held: list[IndexUpdate] = []
    for session in _stale_sessions(index, first_page):
        for update in _updates(index, store, session):
            held.append(update)
            size += _size(update.documents)
            if size >= _CHARACTERS_PER_WRITE:
                index.replace(held)
                held, size = [], 0
                yield IndexProgress(done, total)
        done += session.unread
    index.replace(held)


def _stale_sessions(index: SearchIndex, page: list[StaleSession]) -> Iterator[StaleSession]:
    """Yield the stale sessions of this page and of all pages after it."""
    yield from page
    while len(page) == _SESSIONS_PER_PAGE:
        page = index.stale(page[-1], limit=_SESSIONS_PER_PAGE)
        yield from page


def _updates(index: SearchIndex, store: Store, session: StaleSession) -> Iterator[IndexUpdate]:
    if not session.has_more:
        if not session.is_noted:
            yield IndexUpdate(
                session=session,
                expected_mark=session.mark,
                first_seq=1,
                last_seq=0,
                documents=[],
                title=_title(session),
                new_mark=session.mark,
            )
        return
    try:
        turns, last_seq = _read(index, store, session)
    except SessionNotFound:
        # It was erased meanwhile.
        return
    expected, first_seq = session.mark, max(1, turns[0].first_seq) if turns else 1
    held: list[SearchDocument] = []
    size = 0
    for turn, following in pairwise(turns):
        held += turn.documents
        size += _size(turn.documents)
        if size >= _CHARACTERS_PER_WRITE:
            mark = IndexMark(following.first_seq - 1, turn.number, turn.first_seq)
            yield IndexUpdate(
                session=session,
                expected_mark=expected,
                first_seq=first_seq,
                last_seq=mark.seq,
                documents=held,
                new_mark=mark,
                is_complete=False,
            )
            expected, first_seq, held, size = mark, mark.seq + 1, [], 0
    rest = turns[-1] if turns else _IndexedTurn(1, 0, [])
    yield IndexUpdate(
        session=session,
        expected_mark=expected,
        first_seq=first_seq,
        last_seq=None,
        documents=[*held, *rest.documents],
        title=_title(session),
        new_mark=IndexMark(last_seq, rest.number, rest.first_seq),
    )


def _title(session: StaleSession) -> SearchDocument | None:
    return title_document(session.title, session.updated_us) if session.title else None


def _size(documents: list[SearchDocument]) -> int:
    return sum(len(document.text) + _CHARACTERS_PER_DOCUMENT for document in documents)


def _read(
    index: SearchIndex, store: Store, session: StaleSession
) -> tuple[list[_IndexedTurn], int]:
    """Read the turns that have to be indexed; return them, and the seq of the last entry."""
    start = IndexMark() if session.is_outdated else session.mark
    transcript, turns = _fold(store, session, start)
    # A rewind to a message of the last turn may stay in it, but one to the start never does.
    is_rewound = transcript.truncations.last_seq > 0 or transcript.truncations.unresolved > 0
    if start.turn_seq and (is_rewound or _refers_back(index, session, turns)):
        transcript, turns = _fold(store, session, IndexMark())
    return turns, transcript.last_seq


def _fold(
    store: Store, session: StaleSession, start: IndexMark
) -> tuple[Transcript, list[_IndexedTurn]]:
    transcript = Transcript()
    transcript.last_seq = max(0, start.turn_seq - 1)
    for entry in store.read(session.session_id, after=transcript.last_seq):
        transcript.add(entry)
    turns: list[_IndexedTurn] = []
    for turn in transcript.turns:
        turn.number += start.turn - 1
        if turn.items:
            # Entries before the first turn belong to it.
            first_seq = turn.items[0].seq if turn.number > 1 else 0
            turns.append(_IndexedTurn(turn.number, first_seq, list(search_documents(turn))))
    return transcript, turns


def _refers_back(index: SearchIndex, session: StaleSession, turns: list[_IndexedTurn]) -> bool:
    """Return whether a document of these turns may continue one of an earlier turn."""
    idents = {document.ident for turn in turns for document in turn.documents} - {None}
    return bool(idents and idents & index.idents_before(session, session.mark.turn_seq))
