"""Several episodes at once: a few workers, each with a nursery of its own, until time is over."""

import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING

from . import episodes
from .episodes import Outcome
from .nursery import Nursery

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

_AT_ONCE = 3
"""How many episodes a core can have at once: much of their time they wait."""


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
    begun = context.Value("i", 0)
    ends: list[Connection] = []
    workers = []
    for _ in range(count):
        ours, theirs = context.Pipe(duplex=False)
        workers.append(context.Process(target=_work, args=(order, begun, theirs)))
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


def _work(order: Order, begun: "Synchronized[int]", outcomes: Connection) -> None:
    nursery = Nursery()
    deadline = time.monotonic() + order.seconds
    # However short the time, there is one of each kind: what was not run has not passed.
    always = len(episodes.KINDS) if order.kind is None else 0
    while (number := _next(begun)) < always or time.monotonic() < deadline:
        outcomes.send(episodes.run(order.seed, number, order.root, nursery, order.kind))
    nursery.close()


def _next(begun: "Synchronized[int]") -> int:
    """Return the number of the next episode, whoever runs it: one that takes long holds up none."""
    with begun.get_lock():
        begun.value += 1
        return begun.value - 1


__all__ = ["Order", "Outcome", "run"]
