"""Run several episodes at once, in workers with a fork server each, until the time is over."""

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
from .fork_server import ForkServer

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

_AT_ONCE = 3
"""The number of episodes for each core. They wait for most of their time."""


@dataclass(frozen=True)
class Order:
    """The episodes to run."""

    seed: int
    seconds: float
    root: Path
    kind: str | None = None


def run(order: Order) -> Iterator[Outcome]:
    """Yield the outcomes of the episodes of a seed, as they end."""
    count = _AT_ONCE * (os.cpu_count() or 1)
    # Spawned, because forked workers would share descriptors.
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
    fork_server = ForkServer()
    deadline = time.monotonic() + order.seconds
    # Run at least one episode of each kind, however short the time.
    always = len(episodes.KINDS) if order.kind is None else 0
    while (number := _next(begun)) < always or time.monotonic() < deadline:
        outcomes.send(episodes.run(order.seed, number, order.root, fork_server, order.kind))
    fork_server.close()


def _next(begun: "Synchronized[int]") -> int:
    """Return the number of the next episode. All workers share the counter."""
    with begun.get_lock():
        begun.value += 1
        return begun.value - 1


__all__ = ["Order", "Outcome", "run"]
