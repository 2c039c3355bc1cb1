"""Several episodes at once: a few workers, each with a nursery of its own, until time is over."""

import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

from . import episodes
from .episodes import Outcome
from .nursery import Nursery

_AT_ONCE = 3
"""How many episodes a core can have at once: much of their time they wait."""
_NO_END = 10**9


@dataclass(frozen=True)
class Order:
    """What is to be run."""

    seed: int
    seconds: float
    root: Path
    kind: str | None = None


def run(order: Order) -> Iterator[Outcome]:
    """Yield what comes of the episodes of a seed, as they end."""
    count = _AT_ONCE * (os.cpu_count() or 1)
    # Spawned, because what is forked shares descriptors.
    context = multiprocessing.get_context("spawn")
    ends: list[Connection] = []
    workers = []
    for first in range(count):
        ours, theirs = context.Pipe(duplex=False)
        numbers = range(first, _NO_END, count)
        workers.append(context.Process(target=_work, args=(order, numbers, theirs)))
        workers[-1].start()
        theirs.close()
        ends.append(ours)
    while ends:
        for end in wait(ends):
            assert isinstance(end, Connection)
            try:
                yield end.recv()
            except EOFError:
                ends.remove(end)
    for worker in workers:
        worker.join()
        if worker.exitcode:
            raise RuntimeError(f"a worker of the harness ended with {worker.exitcode}")


def _work(order: Order, numbers: range, outcomes: Connection) -> None:
    nursery = Nursery()
    deadline = time.monotonic() + order.seconds
    for number in numbers:
        if time.monotonic() > deadline:
            break
        outcomes.send(episodes.run(order.seed, number, order.root, nursery, order.kind))
    nursery.close()


__all__ = ["Order", "Outcome", "run"]
