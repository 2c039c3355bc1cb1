"""Measures of searching many messages, and of updating their index."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

import generate
import lines
from client import WrongResult
from rekindle.model import AgentIdentity, EntryBatch, Kind, Opened, Page, Side
from rekindle.store.search import SearchRequest
from rekindle.store.sqlite.search_index import SqliteSearchIndex
from rekindle.store.sqlite.store import SqliteStore
from rekindle.text.search_syntax import parse
from rekindle.transfer.indexer import update_index

_FOLDER = "/home/user/project"
_NOW_US = 1_700_000_000_000_000
_MESSAGES_PER_SESSION = 40
_SESSIONS_PER_COMMIT = 50
_WORDS_PER_MESSAGE = 40
_MB = 1_000_000
_RARE_INTERVAL = 10_000
"""One message in this number has the rare word."""

QUERIES = {
    "a word in every message": "the",
    "a common word": "ba",
    "a rare word": "zebrafish",
    "two common words": "ba ke",
    "a phrase": '"the ba"',
    "two letters of many words": "ba*",
    "the beginning of many words": "stotri*",
    "a common word, of one folder": "the",
    "a common word, since an hour": "the",
}

Figures = dict[str, float]


def measure_search(_: str, store: Path, messages: int) -> Figures:
    """SqliteSearchIndex messages and search them; return the times and the sizes."""
    _fill(store, messages)
    figures: Figures = {"build": update_index_s(store)}
    index_size = store.with_name(store.name + ".index").stat().st_size
    figures |= {"mb": index_size / _MB, "store_mb": store.stat().st_size / _MB}
    figures["nothing_new"] = median(update_index_s(store) for _ in range(7)) * 1000
    figures["a_turn"] = median(_update_after_turn_s(store) for _ in range(7)) * 1000
    with SqliteSearchIndex(store) as index:
        for name, typed in QUERIES.items():
            cwd = f"{_FOLDER}/7" if "folder" in name else None
            since_us = _NOW_US + messages - 3600 if "hour" in name else None
            wanted = SearchRequest(
                terms=parse(typed), page=Page(cwd=cwd, limit=20), since_us=since_us
            )
            figures[name] = median_ms(lambda wanted=wanted: _check_found(index, wanted))
        _check_found(index, SearchRequest(terms=parse('"one more answer"')))
        rare = SearchRequest(terms=parse("zebrafish"), page=Page(limit=1_000_000))
        if len(index.search(rare)) != messages // _RARE_INTERVAL:
            raise WrongResult("not every message with the rare word is found")
    return figures


def _check_found(index: SqliteSearchIndex, wanted: SearchRequest) -> None:
    if not index.search(wanted):
        raise WrongResult(f"nothing is found for {wanted}")


def median_ms(action: Callable[[], object], rounds: int = 11) -> float:
    """Return the median time of an action."""
    times: list[float] = []
    for _ in range(rounds):
        begin = perf_counter()
        action()
        times.append((perf_counter() - begin) * 1000)
    return median(times)


def update_index_s(store: Path) -> float:
    """Update the index of a store; return the time."""
    begin = perf_counter()
    with SqliteStore(store, create=False) as db, SqliteSearchIndex(store) as index:
        for _ in update_index(index, db):
            pass
    return perf_counter() - begin


def _update_after_turn_s(store: Path) -> float:
    with SqliteStore(store) as db:
        at_us = db.sessions(Page(limit=1))[0].updated_us + 1
        session_id = f"ses_{at_us % 100:08}"
        db.write(list(_turn(session_id, at_us, "one more question", "one more answer")))
    return update_index_s(store)


def _fill(store: Path, messages: int) -> None:
    texts = _texts()
    agent = AgentIdentity(name="bench", command=("bench",))
    with SqliteStore(store) as db:
        changes: list[Opened | EntryBatch] = []
        for number in range(messages // _MESSAGES_PER_SESSION):
            name, at_us = f"ses_{number:08}", _NOW_US + number * _MESSAGES_PER_SESSION
            cwd = f"{_FOLDER}/{number % 100}"
            changes.append(Opened(session_id=name, at_us=at_us, agent=agent, cwd=cwd))
            for turn in range(_MESSAGES_PER_SESSION // 2):
                changes += _turn(name, at_us + 2 * turn, next(texts), next(texts))
            if len(changes) >= _SESSIONS_PER_COMMIT * _MESSAGES_PER_SESSION:
                db.write(changes)
                changes = []
        db.write(changes)


def _texts() -> Iterator[str]:
    """Yield messages whose words have the frequencies of a natural language."""
    dice = random.Random(1)  # noqa: S311 - the same messages in every run
    vocabulary, weights = generate.make_vocabulary(dice)
    number = 0
    while True:
        words = ["the", *dice.choices(vocabulary, cum_weights=weights, k=_WORDS_PER_MESSAGE)]
        number += 1
        yield " ".join([*words, "zebrafish"] if number % _RARE_INTERVAL == 0 else words)


def _turn(session_id: str, at_us: int, asked: str, answered: str) -> Iterator[EntryBatch]:
    def entry(side: Side, kind: Kind, line: bytes) -> EntryBatch:
        return EntryBatch(session_id=session_id, side=side, kind=kind, at_us=at_us, data=line[:-1])

    prompt = {"sessionId": session_id, "prompt": [{"type": "text", "text": asked}]}
    content = {"type": "text", "text": answered}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    params = {"sessionId": session_id, "update": update}
    yield entry(Side.CLIENT, Kind.PROMPT, lines.encode(id=1, params=prompt))
    yield entry(Side.AGENT, Kind.UPDATE, lines.encode(method="session/update", params=params))
    yield entry(Side.AGENT, Kind.ANSWER, lines.encode(id=1, result={"stopReason": "end_turn"}))
