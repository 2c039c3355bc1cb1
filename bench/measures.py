"""The measures: each starts a set-up, has the fakes talk, checks the store, returns figures."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

import lines
from client import Came, Client, WrongResult
from cores import first_and_last, staying_on
from memory import held_mb
from setups import connected
from stored import count_asks, count_stream

Figures = dict[str, float]

_MB = 1_000_000


def start(setup: str, store: Path) -> Figures:
    """Take the time from starting the processes to the answer to `initialize`."""
    begin = perf_counter()
    with connected(setup, store) as connection:
        connection.client.initialize()
        return {"ms": (perf_counter() - begin) * 1000}


def stream(setup: str, store: Path, what: str, count: int, *, is_flushed: bool = False) -> Figures:
    """Return how many updates, and how much text, come through in a second, once all is warm."""
    warm_up = count // 10
    with connected(setup, store) as connection:
        client = ready(connection.client, setup)
        client.stream(what, warm_up, is_flushed=is_flushed)
        came = client.stream(what, count, is_flushed=is_flushed)
    if setup == "rekindle":
        _demand(warm_up + count, count_stream(store, client.session_id, what), what)
    rate = _rate(came, 0, count)
    return {"rate": rate, "mb": rate * lines.TEXT_SIZE[what] / _MB}


def round_trips(setup: str, store: Path, what: str, count: int, cores: int) -> Figures:
    """Return the median and the 99th percentile in µs, once all is warm.

    With one core, everything shares it. With two, client and agent have one each, and
    what is between them runs where it likes.
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
        _demand(recorded, count_asks(store, client.session_id), what)
    return {"p50": p50, "p99": p99}


def long_session(setup: str, store: Path, count: int) -> Figures:
    """Return the rates of an early and the last tenth, and the memory held at the end.

    The second tenth, not the first, which the store begins with an empty log.
    """
    with connected(setup, store) as connection:
        client = ready(connection.client)
        warm_up, tenth = count // 100, count // 10
        client.stream("chunks", warm_up)
        came = client.stream("chunks", count)
        held = held_mb(connection.pid)
    _demand(warm_up + count, count_stream(store, client.session_id, "chunks"), "chunks")
    return held | {
        "early": _rate(came, tenth, 2 * tenth),
        "last": _rate(came, count - tenth, count),
    }


def writers(number: int, store: Path, count: int) -> Figures:
    """Have several record into one store at once, `count` chunks in all; tell how many it has."""
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
    """Open a session, and have a first turn."""
    client.initialize()
    client.new_session()
    client.begin(is_named=setup == "rekindle")
    return client


def _rate(came: Came, begin: int, end: int) -> float:
    """Return how many a second came, from the `begin`th to the `end`th."""
    first_at, first = next(mark for mark in came if mark[1] >= begin)
    last_at, last = next(mark for mark in came if mark[1] >= end)
    return (last - first) / (last_at - first_at)


def _demand(expected: int, found: int, what: str) -> None:
    if found != expected:
        raise WrongResult(f"the store has {found} of {expected}: {what}")
