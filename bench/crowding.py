"""What a store costs as it fills: to list, open, load and search, and to throw parts away."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from threading import Event
from time import perf_counter

import command_line
import commands
import generate
import growing
from client import WrongResult
from lifecycle import slowest_page_ms
from paced import Talk
from rekindle.model import Page
from rekindle.store.search import SearchRequest
from rekindle.store.sqlite.search_index import SqliteSearchIndex
from rekindle.store.sqlite.store import SqliteStore
from rekindle.text.search_terms import parse
from rekindle.transfer.indexer import update_index
from setups import connected

FEWEST = 1_000
"""With fewer there are no full pages."""
FIXED = 50_000
"""How many entries the session has that is loaded, however full the store is."""
QUERIES = {
    "a word in every message": "the",
    "a common word": "ba",
    "a rare word": generate.RARE,
    "a word that is nowhere": "nowherefound",
    "two common words": "ba ke",
    "a phrase": '"the ba"',
    "the beginning of many words": "stotri*",
    "a common word, of one folder": "the",
}
_A_FOLDER = f"{generate.FOLDER}/3"
_HOW = ("terminal", "pipe")
_PACE = 100
_ROUNDS = 5
_PATIENCE = 3600.0

Figures = dict[str, float]


def fill(store: Path, sizes: list[int], padding: int) -> Iterator[tuple[int, Figures]]:
    """Yield what each size costs, of one store that fills from one to the next."""
    with SqliteStore(store) as db:
        generate.open_long(db)
        generate.lengthen(db, 0, FIXED)
    begin = 0
    for size in sizes:
        with SqliteStore(store) as db:
            generate.crowd(db, begin, size, padding)
        yield size, _cost(store, size)
        begin = size


def throw_away(store: Path, size: int, parts: dict[str, int]) -> Iterator[tuple[str, Figures]]:
    """Yield what the commands cost that look at everything, or throw a part of it away.

    Meanwhile a session is recorded, and the longest that a chunk of it took is told.
    """
    yield "`stats`", _beside(store, "stats")
    yield "`doctor`", _beside(store, "doctor")
    for name, part in parts.items():
        how = ("--now",) if "--now" in name else ()
        size -= part
        yield name, _beside(store, "prune", "--keep", str(size), "--yes", *how)
    yield "`compact`", _beside(store, "compact")


def _cost(store: Path, size: int) -> Figures:
    middle_us = generate.begun_us(size // 2)
    with SqliteStore(store, create=False) as db:
        figures: Figures = {"page_ms": slowest_page_ms(db, _A_FOLDER, middle_us)}
    figures |= {how + "_ms": command_line.list_ms(store, how, _ROUNDS) for how in _HOW}
    figures |= _opened(store)
    figures |= _searched(store, size)
    return figures | {"file_mb": store.stat().st_size / 1e6}


def _opened(store: Path) -> Figures:
    """Return what it takes to begin, to list over the protocol, and to load one session."""
    starts: list[float] = []
    for _ in range(_ROUNDS):
        begin = perf_counter()
        with connected("rekindle", store) as connection:
            connection.client.initialize()
            starts.append((perf_counter() - begin) * 1000)
    with connected("rekindle", store, _PATIENCE) as connection:
        client = connection.client
        client.initialize()
        pages: list[float] = []
        for _ in range(_ROUNDS):
            begin = perf_counter()
            client.receive_until_answered("session/list", {})
            pages.append((perf_counter() - begin) * 1000)
        begin = perf_counter()
        growing.replayed(client, FIXED)
        taken = perf_counter() - begin
    return {
        "start_ms": median(starts),
        "list_ms": median(pages),
        "load_s": taken,
        "load_ms": taken * 1000,
    }


def _searched(store: Path, size: int) -> Figures:
    """Bring the index up to date, and look for words."""
    figures: Figures = {"index_s": _up_to_date_s(store)}
    figures["nothing_new_ms"] = median(_up_to_date_s(store) for _ in range(_ROUNDS)) * 1000
    figures["index_mb"] = store.with_name(store.name + ".index").stat().st_size / 1e6
    with SqliteSearchIndex(store) as index:
        for name, typed in QUERIES.items():
            cwd = _A_FOLDER if "folder" in name else None
            wanted = SearchRequest(terms=parse(typed), page=Page(cwd=cwd, limit=20))
            figures[name] = _search_ms(index, wanted)
        rare = SearchRequest(terms=parse(generate.RARE), page=Page(limit=1_000_000))
        if len(index.search(rare)) != min(1000, -(-size // generate.A_RARE)):
            raise WrongResult("not every session with the rare word is found")
    figures["search_ms"] = max(figures[name] for name in QUERIES)
    figures["command_ms"] = (
        median(commands.run(store, "search", generate.RARE).seconds for _ in range(_ROUNDS)) * 1000
    )
    return figures


def _search_ms(index: SqliteSearchIndex, wanted: SearchRequest) -> float:
    times: list[float] = []
    for _ in range(_ROUNDS):
        begin = perf_counter()
        index.search(wanted)
        times.append((perf_counter() - begin) * 1000)
    return median(times)


def _up_to_date_s(store: Path) -> float:
    begin = perf_counter()
    with SqliteStore(store, create=False) as db, SqliteSearchIndex(store) as index:
        for _ in update_index(index, db):
            pass
    return perf_counter() - begin


def _beside(store: Path, *command: str) -> Figures:
    """Run a command while a session is recorded; return what it took, and how long that waited."""
    with connected("paced", store, _PATIENCE) as connection, ThreadPoolExecutor(1) as threads:
        talk = Talk(connection.client)
        talk.open(1)
        is_over = Event()
        streaming = threads.submit(talk.stream, is_over.is_set, _PACE, 1.0)
        try:
            # A large store is not written anew while somebody records, and 1 says so.
            codes = (0, 1) if "--now" in command else (0,)
            ran = commands.run(store, *command, codes=codes)
        finally:
            is_over.set()
            streaming.result()
    talk.check(store)
    return {
        "seconds": ran.seconds,
        "mb": ran.peak_mb,
        "waited_ms": max(talk.taken_us) / 1000,
    }
