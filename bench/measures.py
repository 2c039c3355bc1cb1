"""Measures of the proxy. Each starts a set-up, streams, checks the store, and returns figures."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from time import perf_counter

import lines
from client import Arrivals, Client, WrongResult
from cores import first_and_last, staying_on
from process_info import held_mb
from rekindle.model import Kind
from rekindle.store.sqlite.store import SqliteStore
from setups import connected

Figures = dict[str, float]

_MB = 1_000_000


def start(setup: str, store: Path) -> Figures:
    """Return the time from starting the processes to the answer to `initialize`."""
    begin = perf_counter()
    with connected(setup, store) as connection:
        connection.client.initialize()
        return {"ms": (perf_counter() - begin) * 1000}


def stream(setup: str, store: Path, what: str, count: int, *, is_flushed: bool = False) -> Figures:
    """Return the rate of updates and of their text, after a warm-up."""
    warm_up = count // 10
    with connected(setup, store) as connection:
        client = ready(connection.client, setup)
        client.stream(what, warm_up, is_flushed=is_flushed)
        arrivals = client.stream(what, count, is_flushed=is_flushed)
    if setup == "rekindle":
        _check_count(warm_up + count, count_stream(store, client.session_id, what), what)
    rate = _rate(arrivals, 0, count)
    return {"rate": rate, "mb": rate * lines.TEXT_SIZE[what] / _MB}


def round_trips(setup: str, store: Path, what: str, count: int, cores: int) -> Figures:
    """Return the median and the 99th percentile in µs, after a warm-up.

    With one core, all processes share it. With two, client and agent have one each, and
    the processes between them run on either.
    """
    warm_up = count // 10
    first, last = first_and_last()
    with ExitStack() as stack:
        if cores == 1:
            stack.enter_context(staying_on(first))
        client = ready(stack.enter_context(connected(setup, store)).client, setup)
        stack.enter_context(staying_on(first))
        agent_core = first if cores == 1 else last
        client.ask(what, warm_up, agent_core)
        p50, p99 = client.ask(what, count, agent_core)
    if setup == "rekindle":
        recorded = warm_up + count if what == "permission" else 0
        _check_count(recorded, count_asks(store, client.session_id), what)
    return {"p50": p50, "p99": p99}


def long_session(setup: str, store: Path, count: int) -> Figures:
    """Return the rates of the second and the last tenth, and the memory at the end.

    The first tenth is not representative, because the WAL is still empty.
    """
    with connected(setup, store) as connection:
        client = ready(connection.client)
        warm_up, tenth = count // 100, count // 10
        client.stream("chunks", warm_up)
        arrivals = client.stream("chunks", count)
        held = held_mb(connection.pid)
    _check_count(warm_up + count, count_stream(store, client.session_id, "chunks"), "chunks")
    return held | {
        "early": _rate(arrivals, tenth, 2 * tenth),
        "last": _rate(arrivals, count - tenth, count),
    }


def writers(number: int, store: Path, count: int) -> Figures:
    """Record into one store from several processes, `count` chunks in all; return the losses."""
    each = count // number
    with ExitStack() as stack:
        connections = [stack.enter_context(connected("rekindle", store)) for _ in range(number)]
        clients = [ready(connection.client) for connection in connections]
        with ThreadPoolExecutor(number) as threads:
            begin = perf_counter()
            list(threads.map(lambda client: client.stream("chunks", each), clients))
            taken = perf_counter() - begin
    found = sum(count_stream(store, client.session_id, "chunks") for client in clients)
    return {"rate": count / taken, "lost": count - found}


def ready(client: Client, setup: str = "rekindle") -> Client:
    """Open a session, and run a first turn."""
    client.initialize()
    client.new_session()
    client.begin(is_named=setup == "rekindle")
    return client


def _rate(arrivals: Arrivals, begin: int, end: int) -> float:
    """Return the lines per second between two counts of lines."""
    first_at, first = next(arrival for arrival in arrivals if arrival[1] >= begin)
    last_at, last = next(arrival for arrival in arrivals if arrival[1] >= end)
    return (last - first) / (last_at - first_at)


def _check_count(expected: int, found: int, what: str) -> None:
    """Raise WrongResult if the store lacks updates, or has too many."""
    if found != expected:
        raise WrongResult(f"the store has {found} of {expected}: {what}")


# -- reading the store ----------------------------------------------------------------------


def count_stream(store: Path, session_id: str, what: str) -> int:
    """Return the number of recorded updates. Raises WrongResult if one is not as it was sent."""
    count = 0
    expected = cycle(lines.stream(what, session_id))
    with SqliteStore(store, create=False) as db:
        for entry in db.read(session_id):
            if entry.kind is Kind.UPDATE and b"session_info_update" not in entry.line:
                if entry.line != next(expected)[:-1]:
                    raise WrongResult(f"entry {entry.seq} of {session_id} is not what was sent")
                count += 1
    return count


def count_asks(store: Path, session_id: str) -> int:
    """Return the number of recorded permission requests. Raises WrongResult without outcomes."""
    with SqliteStore(store, create=False) as db:
        kinds = [entry.kind for entry in db.read(session_id)]
    asked, answered = kinds.count(Kind.PERMISSION), kinds.count(Kind.OUTCOME)
    if asked != answered:
        raise WrongResult(f"the store has {asked} permission requests and {answered} outcomes")
    return asked
