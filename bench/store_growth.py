"""The cost of a growing store: list, open, load, search, and delete parts of it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from threading import Event
from time import perf_counter

import commands
import generate
import session_growth
from client import WrongResult
from lifecycle import slowest_page_ms
from paced_client import PacedClient
from rekindle.model import Page
from rekindle.store.search import SearchRequest
from rekindle.store.sqlite.search_index import SqliteSearchIndex
from rekindle.store.sqlite.store import SqliteStore
from rekindle.text.search_syntax import parse
from search_measures import median_ms, update_index_s
from setups import connected

MIN_SESSIONS = 1_000
"""With fewer sessions there are no full pages."""
LOADED_ENTRIES = 50_000
"""The number of entries of the loaded session, for every size of the store."""
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
_TIMEOUT = 3600.0

Figures = dict[str, float]


def fill(store: Path, sizes: list[int], padding: int) -> Iterator[tuple[int, Figures]]:
    """Fill one store to each size; yield the size and its figures."""
    with SqliteStore(store) as db:
        generate.open_long(db)
        generate.lengthen(db, 0, LOADED_ENTRIES)
    begin = 0
    for size in sizes:
        with SqliteStore(store) as db:
            generate.add_sessions(db, begin, size, padding)
        yield size, _measure(store, size)
        begin = size


def run_maintenance(store: Path, size: int, parts: dict[str, int]) -> Iterator[tuple[str, Figures]]:
    """Yield the cost of commands that read the whole store or delete a part of it.

    A session is recorded meanwhile, and the figures include the longest latency of its chunks.
    """
    yield "`stats`", _run_while_recording(store, "stats")
    yield "`doctor`", _run_while_recording(store, "doctor")
    for name, part in parts.items():
        how = ("--now",) if "--now" in name else ()
        size -= part
        yield name, _run_while_recording(store, "prune", "--keep", str(size), "--yes", *how)
    yield "`compact`", _run_while_recording(store, "compact")


def _measure(store: Path, size: int) -> Figures:
    middle_us = generate.started_us(size // 2)
    with SqliteStore(store, create=False) as db:
        figures: Figures = {"page_ms": slowest_page_ms(db, _A_FOLDER, middle_us)}
    figures |= {how + "_ms": commands.list_ms(store, how, _ROUNDS) for how in _HOW}
    figures |= _measure_open(store)
    figures |= _measure_search(store, size)
    return figures | {"file_mb": store.stat().st_size / 1e6}


def _measure_open(store: Path) -> Figures:
    """Return the times to start, to list over the protocol, and to load one session."""
    starts: list[float] = []
    for _ in range(_ROUNDS):
        begin = perf_counter()
        with connected("rekindle", store) as connection:
            connection.client.initialize()
            starts.append((perf_counter() - begin) * 1000)
    with connected("rekindle", store, _TIMEOUT) as connection:
        client = connection.client
        client.initialize()
        pages: list[float] = []
        for _ in range(_ROUNDS):
            begin = perf_counter()
            client.receive_until_answered("session/list", {})
            pages.append((perf_counter() - begin) * 1000)
        begin = perf_counter()
        session_growth.load_and_check(client, LOADED_ENTRIES)
        taken = perf_counter() - begin
    return {
        "start_ms": median(starts),
        "list_ms": median(pages),
        "load_s": taken,
        "load_ms": taken * 1000,
    }


def _measure_search(store: Path, size: int) -> Figures:
    """Update the index, and search."""
    figures: Figures = {"index_s": update_index_s(store)}
    figures["nothing_new_ms"] = median(update_index_s(store) for _ in range(_ROUNDS)) * 1000
    figures["index_mb"] = store.with_name(store.name + ".index").stat().st_size / 1e6
    with SqliteSearchIndex(store) as index:
        for name, typed in QUERIES.items():
            cwd = _A_FOLDER if "folder" in name else None
            wanted = SearchRequest(terms=parse(typed), page=Page(cwd=cwd, limit=20))
            figures[name] = median_ms(lambda wanted=wanted: index.search(wanted), _ROUNDS)
        rare = SearchRequest(terms=parse(generate.RARE), page=Page(limit=1_000_000))
        if len(index.search(rare)) != min(1000, -(-size // generate.RARE_INTERVAL)):
            raise WrongResult("not every session with the rare word is found")
    figures["search_ms"] = max(figures[name] for name in QUERIES)
    figures["command_ms"] = (
        median(commands.run(store, "search", generate.RARE).seconds for _ in range(_ROUNDS)) * 1000
    )
    return figures


def _run_while_recording(store: Path, *command: str) -> Figures:
    """Run a command while a session is recorded; return its cost and the longest latency."""
    with connected("paced", store, _TIMEOUT) as connection, ThreadPoolExecutor(1) as threads:
        client = PacedClient(connection.client)
        client.open(1)
        is_over = Event()
        streaming = threads.submit(client.stream, is_over.is_set, _PACE, 1.0)
        try:
            # A large store is not rewritten during a recording. The exit code is then 1.
            codes = (0, 1) if "--now" in command else (0,)
            ran = commands.run(store, *command, codes=codes)
        finally:
            is_over.set()
            streaming.result()
    client.check(store)
    return {
        "seconds": ran.seconds,
        "mb": ran.peak_mb,
        "waited_ms": max(client.latencies_us) / 1000,
    }
