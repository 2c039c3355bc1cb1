"""Bringing an index up to date with its store, a few sessions at a time.

A session is indexed again from the beginning of the last turn that it had, because that is as
far back as an entry usually reaches. If one reaches further (it names a message, a tool call or
a plan of an earlier turn), the whole session is looked at again; either way only passages that
differ are written. Reading takes no lock; what was read is written only if nobody else has
written to it meanwhile, and the session is still there.

Memory: a session is folded as a whole, as for showing it; the number of sessions does not matter.
Of those that may have more, some thousands are looked up at a time.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from msgspec import Struct

from rekindle.errors import SessionNotFound
from rekindle.model import SearchDocument
from rekindle.store.base import Store
from rekindle.store.sqlite.schema import REVISION_BITS, place, places, seq_at
from rekindle.store.sqlite.search_index import Index, table_of
from rekindle.store.sqlite.sql import LAST_PLACE
from rekindle.text.tokens import camel_case_parts, split_unspaced
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.search_documents import search_documents, title_document

# A title that is made of the first prompt is found there.
_STALE = f"""
    select s.key, s.id, coalesce(user_title, agent_title), s.updated_us, s.revision,
           lease.session is not null, progress.id,
           progress.updated_us, progress.revision, progress.is_live,
           coalesce(seq, 0), coalesce(turn, 1), coalesce(turn_seq, 0), coalesce({LAST_PLACE}, 0)
    from store.session s
    left join progress on progress.session = s.key
    left join store.lease on lease.session = s.key and not lease.is_over
    where (progress.session is null or progress.id <> s.id or lease.session is not null
           or progress.updated_us <> s.updated_us or progress.revision <> s.revision
           or progress.is_live)
      and s.deleted_us is null and s.cwd is not null and s.key > :after
    order by s.key limit :most
"""  # noqa: S608 - all of it is ours
_IS_THERE = """
    select 1 from store.session
    where key = ? and id = ? and deleted_us is null and cwd is not null
"""
_PRESENT = "select rowid, turn, at_us, origin, ident, words from {} where rowid between ? and ?"
_INSERT = """
    insert into {} (rowid, turn, at_us, origin, ident, words, parts) values (?, ?, ?, ?, ?, ?, ?)
"""
_IDENTS = "select ident from {} where rowid between ? and ?"
_PROGRESS = "insert or replace into progress values (?, ?, ?, ?, ?, ?, ?, ?)"
_TASKS_AT_ONCE = 5_000
_CHARACTERS_A_WRITE = 2_000_000
_CHARACTERS_OF_A_ROW = 200

_Row = tuple[object, ...]


class _Mark(Struct, frozen=True):
    """How far a session is indexed."""

    seq: int = 0
    turn: int = 1
    turn_seq: int = 0


class _Task(Struct, frozen=True, kw_only=True):
    """A session that may have more than is indexed."""

    key: int
    id: str
    title: str | None
    updated_us: int
    revision: int
    is_live: bool
    indexed_id: str | None
    is_known: bool
    """Whether its time, its revision, and whether it is live, are on record already."""
    was_cut: bool
    """Whether entries were taken away that may be indexed."""
    mark: _Mark
    last_seq: int

    @property
    def left(self) -> int:
        """How many entries are to be looked at."""
        return max(0, self.last_seq - self.mark.seq)

    @property
    def is_another(self) -> bool:
        """Whether what is indexed is of another session, or of entries that are gone."""
        is_longer = self.mark.seq > self.last_seq
        return self.indexed_id not in {None, self.id} or is_longer or self.was_cut

    @property
    def has_more(self) -> bool:
        """Whether not all of it is indexed."""
        return self.is_another or self.indexed_id is None or self.mark.seq < self.last_seq


class _Turn(Struct, frozen=True):
    """A turn, the entry with which it begins, and what can be found in it."""

    number: int
    begin: int
    passages: list[SearchDocument]


class _Work(Struct, frozen=True, kw_only=True):
    """What to write of a session: all passages from one place to another."""

    task: _Task
    expected: _Mark
    first: int
    last: int
    found: list[SearchDocument]
    mark: _Mark
    is_whole: bool = True

    @property
    def size(self) -> int:
        """How much there is to write."""
        return _size(self.found)


class Progress(Struct, frozen=True):
    """How many entries of how many are looked at."""

    done: int
    total: int


def bring_up_to_date(index: Index, store: Store) -> Iterator[Progress]:
    """Index what was recorded since the last time. Raises StoreUnavailable.

    What is indexed so far stays, if it is not run to its end.
    """
    first = _stale(index, 0)
    # Counted, and not held: there may be a million sessions.
    total = sum(task.left for task in _tasks(index, first))
    done = size = 0
    held: list[_Work] = []
    for task in _tasks(index, first):
        for work in _works(index, store, task):
            held.append(work)
            size += work.size
            if size >= _CHARACTERS_A_WRITE:
                _write(index, held)
                held, size = [], 0
                yield Progress(done, total)
        done += task.left
    _write(index, held)


def _tasks(index: Index, tasks: list[_Task]) -> Iterator[_Task]:
    """Yield the sessions that may have more than is indexed: these, and those that follow."""
    yield from tasks
    while len(tasks) == _TASKS_AT_ONCE:
        tasks = _stale(index, tasks[-1].key)
        yield from tasks


def _stale(index: Index, after: int) -> list[_Task]:
    return list(map(_task, index.query(_STALE, {"after": after, "most": _TASKS_AT_ONCE})))


def _task(row: tuple[Any, ...]) -> _Task:
    key, id_, title, *now, indexed_id, was_us, revised, was_live, seq, turn, turn_seq, last = row
    updated_us, revision, is_live = now
    return _Task(
        key=key,
        id=id_,
        title=title,
        updated_us=updated_us,
        revision=revision,
        is_live=bool(is_live),
        indexed_id=indexed_id,
        is_known=[was_us, revised, was_live] == now,
        was_cut=(revised or 0) >> REVISION_BITS != revision >> REVISION_BITS,
        mark=_Mark(seq, turn, turn_seq),
        last_seq=seq_at(last),
    )


def _works(index: Index, store: Store, task: _Task) -> Iterator[_Work]:
    if not task.has_more:
        if not task.is_known:
            yield _Work(task=task, expected=task.mark, first=1, last=0, found=[], mark=task.mark)
        return
    try:
        turns, last_seq = _read(index, store, task)
    except SessionNotFound:
        # It was erased meanwhile.
        return
    expected, first = task.mark, place(task.key, max(1, turns[0].begin) if turns else 1)
    held: list[SearchDocument] = []
    size = 0
    for turn, following in pairwise(turns):
        held += turn.passages
        size += _size(turn.passages)
        if size >= _CHARACTERS_A_WRITE:
            mark = _Mark(following.begin - 1, turn.number, turn.begin)
            last = place(task.key, mark.seq)
            yield _Work(
                task=task, expected=expected, first=first, last=last, found=held, mark=mark,
                is_whole=False,
            )  # fmt: skip
            expected, first, held, size = mark, last + 1, [], 0
    rest = turns[-1] if turns else _Turn(1, 0, [])
    yield _Work(
        task=task,
        expected=expected,
        first=first,
        last=places(task.key)[1],
        found=[*held, *rest.passages],
        mark=_Mark(last_seq, rest.number, rest.begin),
    )


def _size(found: list[SearchDocument]) -> int:
    return sum(len(it.words) + _CHARACTERS_OF_A_ROW for it in found)


def _read(index: Index, store: Store, task: _Task) -> tuple[list[_Turn], int]:
    """Read what must be indexed of a session; return it, and the last entry's seq."""
    start = _Mark() if task.is_another else task.mark
    turns, last_seq = _fold(store, task, start)
    if start.turn_seq and _reaches_back(index, task, turns):
        turns, last_seq = _fold(store, task, _Mark())
    return turns, last_seq


def _fold(store: Store, task: _Task, start: _Mark) -> tuple[list[_Turn], int]:
    transcript = Transcript()
    seq = max(0, start.turn_seq - 1)
    for entry in store.read(task.id, after=seq):
        transcript.add(entry)
        seq = entry.seq
    turns: list[_Turn] = []
    for turn in transcript.turns:
        turn.number += start.turn - 1
        if turn.items:
            # What comes before the first turn belongs to it.
            begin = turn.items[0].seq if turn.number > 1 else 0
            turns.append(_Turn(turn.number, begin, list(search_documents(turn))))
    return turns, seq


def _reaches_back(index: Index, task: _Task, turns: list[_Turn]) -> bool:
    """Tell whether something that was just read may belong to an earlier turn."""
    idents = {passage.ident for turn in turns for passage in turn.passages} - {None}
    if not idents:
        return False
    begin = place(task.key, task.mark.turn_seq)
    sql = _IDENTS.format(index.table_of(task.key))
    known = index.query(sql, (places(task.key)[0], begin - 1))
    return any(ident in idents for (ident,) in known)


def _write(index: Index, works: list[_Work]) -> None:
    if not works:
        return
    with index.writing():
        for work in works:
            if _may_write(index, work):
                task, mark = work.task, work.mark
                first, _ = places(task.key)
                shard = index.shard_for(task.key)
                _write_passages(index, shard, task.key, (work.first, work.last), work.found)
                if work.is_whole:
                    _write_passages(index, shard, task.key, (first, first), _title(task))
                # With a time that never was, the rest is looked for the next time.
                updated_us = task.updated_us if work.is_whole else -1
                values = (task.key, task.id, updated_us, task.revision, task.is_live)
                index.db.execute(_PROGRESS, (*values, mark.seq, mark.turn, mark.turn_seq))


def _may_write(index: Index, work: _Work) -> bool:
    """Tell whether the session is still there, and nobody else has indexed it meanwhile."""
    key, expected = work.task.key, work.expected
    sql = "select seq, turn, turn_seq from progress where session = ?"
    marks = index.db.execute(sql, (key,)).fetchall() or [(0, 1, 0)]
    is_as_expected = marks == [(expected.seq, expected.turn, expected.turn_seq)]
    return is_as_expected and bool(index.db.execute(_IS_THERE, (key, work.task.id)).fetchall())


def _title(task: _Task) -> list[SearchDocument]:
    return [title_document(task.title, task.updated_us)] if task.title else []


def _write_passages(
    index: Index, shard: int, key: int, between: tuple[int, int], wanted: list[SearchDocument]
) -> None:
    """Make the passages of a stretch what is wanted, touching only those that differ."""
    found = {place(key, it.seq): _row(it) for it in wanted}
    table = table_of(shard)
    rows = index.db.execute(_PRESENT.format(table), between).fetchall()
    present = {row[0]: row[1:] for row in rows}
    gone = [(rowid,) for rowid, row in present.items() if found.get(rowid) != row]
    index.db.executemany(f"delete from {table} where rowid = ?", gone)  # noqa: S608
    # FTS5 is quickest when places only grow.
    new = [
        (rowid, *row, camel_case_parts(str(row[-1])))
        for rowid, row in sorted(found.items())
        if present.get(rowid) != row
    ]
    index.db.executemany(_INSERT.format(table), new)
    index.count(shard, len(new) - len(gone))


def _row(passage: SearchDocument) -> _Row:
    return (
        passage.turn,
        passage.at_us,
        passage.origin.value,
        passage.ident,
        split_unspaced(passage.words),
    )
