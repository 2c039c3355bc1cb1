"""Search an index.

The ranking is that of BM25 without the rarity of a term: every result has all terms, and counting a
common term would visit all its documents. Documents with about the same score are ordered newest
first. Only the latest matches are scored: for a term that is everywhere, old ones are not better.
"""

import json
import re
from bisect import bisect
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from rekindle.model import DocumentKind
from rekindle.store.search import SearchHit, SearchRequest
from rekindle.store.sqlite.codec import page_conditions
from rekindle.store.sqlite.schema import key_at, places, seq_at
from rekindle.store.sqlite.search_index import SqliteSearchIndex, table_of
from rekindle.text.redact.detect import Span
from rekindle.text.search_syntax import Term
from rekindle.text.tokens import GAP

_MAX_SCORED = 1000
_FEW_SESSIONS = 500
_SPARSE = 20
"""If fewer than one of this many sessions is selected, each is searched by itself."""
_ENOUGH = 200
"""With this many hits in the latest sessions, older ones are not searched."""
_WORDS_COLUMN = 4
_AVERAGE_LENGTH = 60
_SATURATION = 1.2
_LENGTH_WEIGHT = 0.75
_WEIGHTS = {DocumentKind.USER: 1.2, DocumentKind.THOUGHT: 0.8}
_EVERYWHERE = (0, (1 << 63) - 1)
_Range = tuple[int, int, int]
_BEGIN, _END = "\x02", "\x03"

_FOUND = """
    select rowid, turn, at_us, origin, relevance({table}) from {table}
    where {table} match :expression and rowid between :low and :high and at_us >= :since
      and (select {where} from store.session where key = {table}.rowid >> 32)
    order by rowid desc limit :most
"""
_MARKED = """
    select rowid, highlight({table}, {column}, :begin, :end) from {table}
    where {table} match :expression and rowid between :low and :high
      and +rowid in (select value from json_each(:places))
"""
_IDS = "select key, id from store.session where key in (select value from json_each(?))"


class _Candidate(Struct, frozen=True):
    place: int
    turn: int
    at_us: int
    kind: DocumentKind
    score: float


def search(index: SqliteSearchIndex, request: SearchRequest) -> list[SearchHit]:
    """Implement `SearchIndex.search`."""
    if not request.terms:
        return []
    index.db.register_fts5_function("relevance", _relevance)
    expression = _expression(request.terms)
    candidates = sorted(_candidates(index, request, expression), key=_rank)
    best: dict[tuple[int, int], _Candidate] = {}
    for candidate in candidates:
        best.setdefault((key_at(candidate.place), candidate.turn), candidate)
    found_in_turns = {key for key, turn in best if turn}
    # A title counts only where no turn of the session matches.
    kept = [it for (key, turn), it in best.items() if turn or key not in found_in_turns]
    chosen = kept[: request.page.limit]
    marked = _marked(index, request.terms, expression, [it.place for it in chosen])
    ids = dict(index.query(_IDS, (json.dumps([key_at(it.place) for it in chosen]),)))
    # Sessions and documents may have been removed meanwhile.
    existing = [it for it in chosen if it.place in marked and key_at(it.place) in ids]
    return [_hit(ids[key_at(it.place)], it, marked[it.place], request.terms) for it in existing]


def _relevance(api: Any, *_: object) -> float:  # noqa: ANN401 - apsw's interface to FTS5
    """Score a document: by the number of occurrences of each term, and lower the longer it is."""
    length = api.column_size(_WORDS_COLUMN) / _AVERAGE_LENGTH
    penalty = _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * length)
    counts = [sum(map(len, api.phrase_locations(n))) for n in range(api.phrase_count)]
    return sum(count * (_SATURATION + 1) / (count + penalty) for count in counts)


def _rank(candidate: _Candidate) -> tuple[float, int]:
    return (-round(candidate.score, 1), -candidate.at_us)


def _expression(terms: list[Term]) -> str:
    """Return the FTS5 expression for terms."""
    required, excluded = (
        [_quoted(term) for term in terms if term.is_excluded is is_excluded]
        for is_excluded in (False, True)
    )
    return " NOT ".join([f"({' AND '.join(required)})", *excluded])


def _quoted(term: Term) -> str:
    text = term.text.replace('"', '""').replace("\x00", " ")
    return f'"{text}"{"*" if term.is_prefix else ""}'


def _candidates(
    index: SqliteSearchIndex, request: SearchRequest, expression: str
) -> list[_Candidate]:
    conditions, values = page_conditions(request.page)
    if request.since_us is not None:
        conditions.append("updated_us >= :since")
    where = " and ".join(conditions)
    values |= {"expression": expression, "since": request.since_us or 0, "most": _MAX_SCORED}
    low, high = _EVERYWHERE
    if _is_filtered(request):
        # By time, which is indexed. Otherwise all sessions of a folder would be sorted.
        sql = f"select key from store.session where {where} order by updated_us desc limit :few"  # noqa: S608
        rows = index.query(sql, values | {"few": _FEW_SESSIONS})
        keys = sorted((key for (key,) in rows), reverse=True)
        if not keys:
            return []
        are_all = len(keys) < _FEW_SESSIONS
        # A common term is in too many documents to visit them all for a few sessions.
        is_sparse = keys[0] - keys[-1] > len(keys) * _SPARSE
        if is_sparse and (are_all or not _has_prefix(request.terms)):
            found = _within(index, _ranges(index, map(places, keys)), where, values)
            if are_all or len(found) >= max(_ENOUGH, request.page.limit):
                return found
        if are_all:
            low, high = places(keys[-1])[0], places(keys[0])[1]
    return _within(index, [(shard, low, high) for shard in index.shards()], where, values)


def _is_filtered(request: SearchRequest) -> bool:
    """Return whether the request selects only some sessions."""
    page = request.page
    return bool(page.cwd or page.folders or page.agent or request.since_us is not None)


def _has_prefix(terms: list[Term]) -> bool:
    """Return whether a term is a prefix. FTS5 collects its words again for each query."""
    return any(term.is_prefix for term in terms)


def _ranges(index: SqliteSearchIndex, spans: Iterable[tuple[int, int]]) -> list[_Range]:
    """Return spans of places, each within one session, with the shards that contain them."""
    begins = index.shards()[::-1]
    shards = ((begins[: bisect(begins, key_at(low))], low, high) for low, high in spans)
    # A place without a shard is not indexed any more.
    return [(before[-1], low, high) for before, low, high in shards if before]


def _within(
    index: SqliteSearchIndex, ranges: Sequence[_Range], where: str, values: dict[str, Any]
) -> list[_Candidate]:
    """Return the matches in these ranges, in order, until enough are found to score."""
    found: list[_Candidate] = []
    for shard, low, high in ranges:
        sql = _FOUND.format(table=table_of(shard), where=where)
        more = {"low": low, "high": high, "most": _MAX_SCORED - len(found)}
        for place, turn, at_us, kind, score in index.query(sql, values | more):
            weight = _WEIGHTS.get(DocumentKind(kind), 1.0)
            found.append(_Candidate(place, turn, at_us, DocumentKind(kind), score * weight))
        if len(found) >= _MAX_SCORED:
            break
    return found


def _marked(
    index: SqliteSearchIndex, terms: list[Term], expression: str, chosen: list[int]
) -> dict[int, str]:
    """Return the text of documents with the matches marked."""
    ranges = _ranges(index, [(place, place) for place in chosen])
    if _has_prefix(terms):
        ranges = [(shard, *_EVERYWHERE) for shard in {shard for shard, _, _ in ranges}]
    values = {"expression": expression, "places": json.dumps(chosen), "begin": _BEGIN, "end": _END}
    marked: dict[int, str] = {}
    for shard, low, high in ranges:
        sql = _MARKED.format(table=table_of(shard), column=_WORDS_COLUMN)
        marked |= dict(index.query(sql, values | {"low": low, "high": high}))
    return marked


def _hit(session_id: str, candidate: _Candidate, marked: str, terms: list[Term]) -> SearchHit:
    text, matches = _unmarked(marked)
    return SearchHit(
        session_id=session_id,
        turn=candidate.turn,
        seq=seq_at(candidate.place),
        at_us=candidate.at_us,
        kind=candidate.kind,
        score=candidate.score,
        text=text,
        matches=matches or _parts_of_names(text, terms),
    )


def _unmarked(marked: str) -> tuple[str, list[Span]]:
    """Remove the marks from a text; return the text and the marked spans."""
    first, *rest = marked.replace(GAP, "").split(_BEGIN)
    matches: list[Span] = []
    pieces, at = [first], len(first)
    for piece in rest:
        match, _, after = piece.partition(_END)
        matches.append((at, at + len(match)))
        pieces += (match, after)
        at += len(match) + len(after)
    return "".join(pieces), matches


def _parts_of_names(text: str, terms: list[Term]) -> list[Span]:
    """Return the spans of terms that are only a part of a name."""
    included = [re.escape(term.text) for term in terms if not term.is_excluded]
    return [match.span() for match in re.finditer("|".join(included), text, re.IGNORECASE)]
