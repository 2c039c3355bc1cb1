"""How long it takes to find words among very many messages, and to keep their index."""

import random
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from statistics import median
from time import perf_counter

import lines
from client import WrongResult
from rekindle.model import AgentIdentity, EntryBatch, Kind, Opened, Page, Side
from rekindle.store.search import SearchRequest
from rekindle.store.sqlite.search_index import SqliteSearchIndex
from rekindle.store.sqlite.store import SqliteStore
from rekindle.text.search_terms import parse
from rekindle.transfer.indexer import update_index

_FOLDER = "/home/user/project"
_NOW_US = 1_700_000_000_000_000
_MESSAGES_A_SESSION = 40
_SESSIONS_A_COMMIT = 50
_WORDS_A_MESSAGE = 40
_VOCABULARY = 50_000
_SYLLABLES = "ba ke lo mi nu pra sto tri ve xan qu ers ing al or en".split()  # noqa: SIM905
_MB = 1_000_000
_EVERY = 10_000
"""Each so many messages have the rare word."""

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


def look(_: str, store: Path, messages: int) -> Figures:
    """Index so many messages and look for words; return how long it takes, and how much it is."""
    _fill(store, messages)
    figures: Figures = {"build": _up_to_date_s(store)}
    index_size = store.with_name(store.name + ".index").stat().st_size
    figures |= {"mb": index_size / _MB, "store_mb": store.stat().st_size / _MB}
    figures["nothing_new"] = median(_up_to_date_s(store) for _ in range(7)) * 1000
    figures["a_turn"] = median(_after_one_turn_s(store) for _ in range(7)) * 1000
    with SqliteSearchIndex(store) as index:
        for name, typed in QUERIES.items():
            cwd = f"{_FOLDER}/7" if "folder" in name else None
            since_us = _NOW_US + messages - 3600 if "hour" in name else None
            wanted = SearchRequest(
                terms=parse(typed), page=Page(cwd=cwd, limit=20), since_us=since_us
            )
            figures[name] = _middle_ms(lambda wanted=wanted: _found(index, wanted))
        _found(index, SearchRequest(terms=parse('"one more answer"')))
        rare = SearchRequest(terms=parse("zebrafish"), page=Page(limit=1_000_000))
        if len(index.search(rare)) != messages // _EVERY:
            raise WrongResult("not every message with the rare word is found")
    return figures


def _found(index: SqliteSearchIndex, wanted: SearchRequest) -> None:
    if not index.search(wanted):
        raise WrongResult(f"nothing is found for {wanted}")


def _middle_ms(action: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(11):
        begin = perf_counter()
        action()
        times.append((perf_counter() - begin) * 1000)
    return median(times)


def _up_to_date_s(store: Path) -> float:
    begin = perf_counter()
    with SqliteStore(store, create=False) as db, SqliteSearchIndex(store) as index:
        for _ in update_index(index, db):
            pass
    return perf_counter() - begin


def _after_one_turn_s(store: Path) -> float:
    with SqliteStore(store) as db:
        at_us = db.sessions(Page(limit=1))[0].updated_us + 1
        session_id = f"ses_{at_us % 100:08}"
        db.write(list(_turn(session_id, at_us, "one more question", "one more answer")))
    return _up_to_date_s(store)


def _fill(store: Path, messages: int) -> None:
    words = _words()
    agent = AgentIdentity(name="bench", command=("bench",))
    with SqliteStore(store) as db:
        changes: list[Opened | EntryBatch] = []
        for number in range(messages // _MESSAGES_A_SESSION):
            name, at_us = f"ses_{number:08}", _NOW_US + number * _MESSAGES_A_SESSION
            cwd = f"{_FOLDER}/{number % 100}"
            changes.append(Opened(session_id=name, at_us=at_us, agent=agent, cwd=cwd))
            for turn in range(_MESSAGES_A_SESSION // 2):
                changes += _turn(name, at_us + 2 * turn, next(words), next(words))
            if len(changes) >= _SESSIONS_A_COMMIT * _MESSAGES_A_SESSION:
                db.write(changes)
                changes = []
        db.write(changes)


def _words() -> Iterator[str]:
    """Yield messages whose words are as unevenly common as those of a language."""
    dice = random.Random(1)  # noqa: S311 - the same ones every time
    vocabulary = [
        "".join(dice.choices(_SYLLABLES, k=dice.randint(1, 4))) for _ in range(_VOCABULARY)
    ]
    weights = list(accumulate(1 / (rank + 1) for rank in range(_VOCABULARY)))
    number = 0
    while True:
        words = ["the", *dice.choices(vocabulary, cum_weights=weights, k=_WORDS_A_MESSAGE)]
        number += 1
        yield " ".join([*words, "zebrafish"] if number % _EVERY == 0 else words)


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
