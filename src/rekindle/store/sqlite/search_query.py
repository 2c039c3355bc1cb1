"""Looking for words in an index.

Best first, as by BM25; but how rare a word is does not count, because every passage that is found
has all of them, and finding out would take a walk through all of a common word's places. Passages
that are about as good are told newest first. Of those that are found only the latest are weighed:
of a word that is everywhere the old ones are no better.
"""

import json
import re
from bisect import bisect
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from rekindle.model import DocumentKind, Page
from rekindle.store.sqlite.codec import conditions_of
from rekindle.store.sqlite.schema import key_at, places, seq_at
from rekindle.store.sqlite.search_index import Index, table_of
from rekindle.text.redact.secrets import Span
from rekindle.text.search_terms import Term
from rekindle.text.tokens import GAP

_WEIGHED = 1000
_FEW_SESSIONS = 500
_SPARSE = 20
"""If only one of so many sessions is looked at, each is asked for by itself."""
_ENOUGH = 200
"""Of as many hits in the latest of many sessions, older ones are not looked for."""
_WORDS_COLUMN = 4
_USUAL_LENGTH = 60
_SATURATION = 1.2
_PART_OF_LENGTH = 0.75
_WEIGHTS = {DocumentKind.USER: 1.2, DocumentKind.THOUGHT: 0.8}
_EVERYWHERE = (0, (1 << 63) - 1)
_Range = tuple[int, int, int]
_BEGIN, _END = "\x02", "\x03"

_FOUND = """
    select rowid, turn, at_us, origin, likeness({table}) from {table}
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


class Wanted(Struct, frozen=True, kw_only=True):
    """What to look for, and where."""

    terms: list[Term]
    page: Page = Page(limit=20)
    """Which sessions, and how many turns at most."""
    since_us: int | None = None


class Hit(Struct, frozen=True, kw_only=True):
    """A turn that has what was looked for, by its best passage."""

    session_id: str
    turn: int
    seq: int
    at_us: int
    origin: DocumentKind
    score: float
    text: str
    matches: list[Span]


class _Candidate(Struct, frozen=True):
    place: int
    turn: int
    at_us: int
    origin: DocumentKind
    score: float


def search(index: Index, wanted: Wanted) -> list[Hit]:
    """Return the turns that fit, the best first. Raises StoreUnavailable.

    A session of which only the title fits is told as its turn 0.
    """
    if not wanted.terms:
        return []
    index.db.register_fts5_function("likeness", _likeness)
    expression = _expression(wanted.terms)
    candidates = sorted(_candidates(index, wanted, expression), key=_rank)
    best: dict[tuple[int, int], _Candidate] = {}
    for candidate in candidates:
        best.setdefault((key_at(candidate.place), candidate.turn), candidate)
    found_by_words = {key for key, turn in best if turn}
    # What a session is called matters where nothing better is found in it.
    told = [it for (key, turn), it in best.items() if turn or key not in found_by_words]
    chosen = told[: wanted.page.limit]
    marked = _marked(index, wanted.terms, expression, [it.place for it in chosen])
    ids = dict(index.query(_IDS, (json.dumps([key_at(it.place) for it in chosen]),)))
    # What went away meanwhile is not told.
    still_there = [it for it in chosen if it.place in marked and key_at(it.place) in ids]
    return [_hit(ids[key_at(it.place)], it, marked[it.place], wanted.terms) for it in still_there]


def _likeness(api: Any, *_: object) -> float:  # noqa: ANN401 - apsw's interface to FTS5
    """Weigh a passage: by how often it has each term, and less so the longer it is."""
    length = api.column_size(_WORDS_COLUMN) / _USUAL_LENGTH
    burden = _SATURATION * (1 - _PART_OF_LENGTH + _PART_OF_LENGTH * length)
    counts = [sum(map(len, api.phrase_locations(n))) for n in range(api.phrase_count)]
    return sum(count * (_SATURATION + 1) / (count + burden) for count in counts)


def _rank(candidate: _Candidate) -> tuple[float, int]:
    return (-round(candidate.score, 1), -candidate.at_us)


def _expression(terms: list[Term]) -> str:
    """Write terms as FTS5 reads them."""
    wanted, unwanted = (
        [_quoted(term) for term in terms if term.is_excluded is excluded]
        for excluded in (False, True)
    )
    return " NOT ".join([f"({' AND '.join(wanted)})", *unwanted])


def _quoted(term: Term) -> str:
    words = term.words.replace('"', '""').replace("\x00", " ")
    return f'"{words}"{"*" if term.is_prefix else ""}'


def _candidates(index: Index, wanted: Wanted, expression: str) -> list[_Candidate]:
    conditions, values = conditions_of(wanted.page)
    if wanted.since_us is not None:
        conditions.append("updated_us >= :since")
    where = " and ".join(conditions)
    values |= {"expression": expression, "since": wanted.since_us or 0, "most": _WEIGHED}
    low, high = _EVERYWHERE
    if _is_of_some(wanted):
        # By time, for which there are indexes; a folder's sessions would else all be sorted.
        sql = f"select key from store.session where {where} order by updated_us desc limit :few"  # noqa: S608
        rows = index.query(sql, values | {"few": _FEW_SESSIONS})
        keys = sorted((key for (key,) in rows), reverse=True)
        if not keys:
            return []
        are_all = len(keys) < _FEW_SESSIONS
        # A common word is in more places than can be walked through to find a few sessions.
        is_sparse = keys[0] - keys[-1] > len(keys) * _SPARSE
        if is_sparse and (are_all or not _has_beginning(wanted.terms)):
            found = _within(index, _ranges(index, map(places, keys)), where, values)
            if are_all or len(found) >= max(_ENOUGH, wanted.page.limit):
                return found
        if are_all:
            low, high = places(keys[-1])[0], places(keys[0])[1]
    return _within(index, [(shard, low, high) for shard in index.shards()], where, values)


def _is_of_some(wanted: Wanted) -> bool:
    """Tell whether only some of the sessions are looked at."""
    page = wanted.page
    return bool(page.cwd or page.folders or page.agent or wanted.since_us is not None)


def _has_beginning(terms: list[Term]) -> bool:
    """Tell whether FTS5 has to gather words, which it does anew for each query."""
    return any(term.is_prefix for term in terms)


def _ranges(index: Index, wanted: Iterable[tuple[int, int]]) -> list[_Range]:
    """Return places, each from one to another in one session, with the shards that have them."""
    begins = index.shards()[::-1]
    shards = ((begins[: bisect(begins, key_at(low))], low, high) for low, high in wanted)
    # What has no shard is not indexed any more.
    return [(before[-1], low, high) for before, low, high in shards if before]


def _within(
    index: Index, ranges: Sequence[_Range], where: str, values: dict[str, Any]
) -> list[_Candidate]:
    """Return what is found at these places, from the first ones on, as far as it is weighed."""
    found: list[_Candidate] = []
    for shard, low, high in ranges:
        sql = _FOUND.format(table=table_of(shard), where=where)
        more = {"low": low, "high": high, "most": _WEIGHED - len(found)}
        for place, turn, at_us, origin, score in index.query(sql, values | more):
            weight = _WEIGHTS.get(DocumentKind(origin), 1.0)
            found.append(_Candidate(place, turn, at_us, DocumentKind(origin), score * weight))
        if len(found) >= _WEIGHED:
            break
    return found


def _marked(index: Index, terms: list[Term], expression: str, chosen: list[int]) -> dict[int, str]:
    """Return the words of passages with what was looked for marked."""
    ranges = _ranges(index, [(place, place) for place in chosen])
    if _has_beginning(terms):
        ranges = [(shard, *_EVERYWHERE) for shard in {shard for shard, _, _ in ranges}]
    values = {"expression": expression, "places": json.dumps(chosen), "begin": _BEGIN, "end": _END}
    marked: dict[int, str] = {}
    for shard, low, high in ranges:
        sql = _MARKED.format(table=table_of(shard), column=_WORDS_COLUMN)
        marked |= dict(index.query(sql, values | {"low": low, "high": high}))
    return marked


def _hit(session_id: str, candidate: _Candidate, marked: str, terms: list[Term]) -> Hit:
    text, matches = _unmarked(marked)
    return Hit(
        session_id=session_id,
        turn=candidate.turn,
        seq=seq_at(candidate.place),
        at_us=candidate.at_us,
        origin=candidate.origin,
        score=candidate.score,
        text=text,
        matches=matches or _parts_of_names(text, terms),
    )


def _unmarked(marked: str) -> tuple[str, list[Span]]:
    """Take the marks out of a text; return where they were."""
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
    """Find what is only part of a name."""
    wanted = [re.escape(term.words) for term in terms if not term.is_excluded]
    return [match.span() for match in re.finditer("|".join(wanted), text, re.IGNORECASE)]
