"""Measures what `rekindle run` costs, against nothing in between and against `cat`.

Writes bench/RESULTS.md. Ends with 1 when a bar is not met, or a result is wrong.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import measures
from client import WrongResult
from report import SETUPS, Bar, Row, Samples, compose, number, ratio, spread

_RESULTS = Path(__file__).with_name("RESULTS.md")
_ONE_AND_EIGHT = (1, 8)


@dataclass(frozen=True)
class Extent:
    """How much is measured. A tenth of each stream must be a multiple of its period."""

    rounds: int = 7
    chunks: int = 200_000
    results: int = 3_000
    asks: int = 2_000
    starts: int = 15
    long_rounds: int = 3
    long: int = 1_000_000
    shared: int = 400_000

    def __str__(self) -> str:
        return (
            f"{self.rounds} rounds of {self.chunks:,} chunks, {self.asks:,} round trips and"
            f" {self.results:,} tool results, {self.starts} of starts, {self.long_rounds} of"
            f" {self.long:,} chunks and of {self.shared:,} by one and by eight writers."
        )


_QUICK = Extent(
    rounds=3, chunks=20_000, results=500, asks=300, starts=5, long_rounds=1, long=200_000,
    shared=40_000,
)  # fmt: skip


def take_turns[T](
    rounds: int, setups: Iterable[T], measure: Callable[[T, Path], measures.Figures]
) -> dict[str, dict[T, list[float]]]:
    """Measure each set-up once a round, with a fresh store; return samples by figure and set-up."""
    samples: dict[str, dict[T, list[float]]] = {}
    for _ in range(rounds):
        for setup in setups:
            with TemporaryDirectory(prefix="rekindle-bench-") as folder:
                for figure, value in measure(setup, Path(folder) / "store.db").items():
                    samples.setdefault(figure, {}).setdefault(setup, []).append(value)
    return samples
