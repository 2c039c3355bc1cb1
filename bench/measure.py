"""Measure the cost of `rekindle run`, compared with a direct connection and with `cat`.

Writes bench/RESULTS.md. The exit code is 1 if a bar is not met or a result is wrong.
"""

import argparse
import compileall
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import lifecycle
import measures
import rekindle
import search_measures
import sharing
import translation
from client import WrongResult
from report import SETUPS, Bar, Row, Samples, compose, number, ratio, spread, write_costs


@dataclass(frozen=True)
class Extent:
    """The amounts to measure. A tenth of a stream must be a multiple of its period."""

    rounds: int = 7
    chunks: int = 500_000
    flushed: int = 200_000
    results: int = 3_000
    asks: int = 2_000
    starts: int = 15
    long_rounds: int = 5
    long: int = 1_000_000
    shared: int = 400_000
    loaded: int = 50_000
    sessions: int = 100_000
    searched: int = 1_000_000
    clients: int = 50
    crowded: int = 20_000

    def __str__(self) -> str:
        return (
            f"{self.rounds} rounds of {self.chunks:,} chunks, {self.flushed:,} flushed ones, "
            f"{self.results:,} tool results and {self.asks:,} round trips; {self.starts} rounds "
            f"of starts; {self.long_rounds} rounds of {self.long:,} chunks, and of "
            f"{self.shared:,} chunks by one writer and by eight; loads of {self.loaded:,} and "
            f"{self.long:,} chunks; searches among {self.searched:,} messages; a host with "
            f"{self.clients} clients and turns of {self.crowded:,} chunks."
        )


_QUICK = Extent(
    rounds=3, chunks=50_000, flushed=20_000, results=500, asks=300, starts=5,
    long_rounds=1, long=200_000, shared=40_000, loaded=50_000, sessions=20_000,
    searched=20_000, crowded=2_000,
)  # fmt: skip


def main() -> int:
    """Measure, print the report, and write it to the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small counts; writes no results")
    parser.add_argument("--write", action="store_true", help="write the results of --quick too")
    options = parser.parse_args()
    extent = _QUICK if options.quick else Extent()
    # An installed package is compiled. Otherwise the first start would compile it.
    compileall.compile_dir(str(Path(rekindle.__file__).parent), quiet=1)
    try:
        rows = list(_rows(extent))
    except WrongResult as error:
        print(f"wrong result: {error}", file=sys.stderr)
        return 1
    text = compose(rows, str(extent))
    print(text)
    if options.write or not options.quick:
        write_costs(text)
    return 0 if all(row.bar.is_met for row in rows if row.bar) else 1


def _rows(extent: Extent) -> Iterator[Row]:
    yield from _streaming(extent)
    yield from _round_trips(extent)
    yield from _starts(extent)
    yield from _long_sessions(extent)
    yield from _writers(extent)
    yield from _lifecycle(extent)
    yield from _translation(extent)
    yield from _sharing(extent)
    yield from _searching(extent)


def _streaming(extent: Extent) -> Iterator[Row]:
    least = 0.15
    flushed = partial(measures.stream, is_flushed=True)
    rates = _sample(extent.rounds, flushed, "chunks", extent.flushed)["rate"]
    part = ratio(rates, "rekindle")
    bar = Bar(f"at least {least} of direct", number(part), part >= least)
    yield Row("streamed chunks, 1/s", rates, bar)
    rates = _sample(extent.rounds, measures.stream, "chunks", extent.chunks)["rate"]
    yield Row("the same as fast as a pipe goes, 1/s", rates)
    rates = _sample(extent.rounds, measures.stream, "results", extent.results)["mb"]
    yield Row("tool results of 20 kB, MB/s", rates)


def _round_trips(extent: Extent) -> Iterator[Row]:
    most = 3
    times = _sample(extent.rounds, measures.round_trips, "file", extent.asks, 2)
    part = ratio(times["p50"], "rekindle")
    bar = Bar(f"at most {most} times direct", number(part), part <= most)
    yield Row("round trip, median, µs", times["p50"], bar)
    yield Row("round trip, 99th percentile, µs", times["p99"])
    times = _sample(extent.rounds, measures.round_trips, "permission", extent.asks, 2)
    yield Row("recorded round trip, median, µs", times["p50"])
    yield Row("recorded round trip, 99th percentile, µs", times["p99"])
    for what, kind in (("", "file"), ("recorded ", "permission")):
        times = _sample(extent.rounds, measures.round_trips, kind, extent.asks, 1)
        yield Row(f"{what}round trip on one core, median, µs", times["p50"])


def _starts(extent: Extent) -> Iterator[Row]:
    most_ms = 150
    times = _sample(extent.starts, measures.start)["ms"]
    rounds = [
        mine - direct for mine, direct in zip(times["rekindle"], times["direct"], strict=True)
    ]
    added = median(times["rekindle"]) - median(times["direct"])
    bar = Bar(f"adds at most {most_ms} ms", f"adds {spread(added, rounds)} ms", added <= most_ms)
    yield Row("start to the answer to `initialize`, ms", times, bar)


def _long_sessions(extent: Extent) -> Iterator[Row]:
    most_mb, least = 45, 0.8
    figures = _sample(extent.long_rounds, measures.long_session, extent.long, setups=("rekindle",))
    held = figures["resident"]["rekindle"]
    bar = Bar(f"at most {most_mb} MB", spread(median(held), held), max(held) <= most_mb)
    yield Row(f"resident after {extent.long:,} chunks, MB", figures["resident"], bar)
    if "peak" in figures:
        yield Row("the same at its peak, MB", figures["peak"])
    early, last = figures["early"]["rekindle"], figures["last"]["rekindle"]
    rounds = [end / begin for end, begin in zip(last, early, strict=True)]
    part = median(last) / median(early)
    bar = Bar(f"at least {least} of the second", spread(part, rounds), part >= least)
    of_all = f"{extent.long // 10:,} of {extent.long:,} chunks, 1/s"
    yield Row(f"the second {of_all}", figures["early"])
    yield Row(f"the last {of_all}", figures["last"], bar)


def _writers(extent: Extent) -> Iterator[Row]:
    one, eight = "one", "eight"
    figures = _sample(
        extent.long_rounds,
        lambda name, store: measures.writers({one: 1, eight: 8}[name], store, extent.shared),
        setups=(one, eight),
    )
    rates = figures["rate"]
    yield Row("one writer, chunks, 1/s", {"rekindle": rates[one]})
    lost = [*figures["lost"][one], *figures["lost"][eight]]
    part = median(rates[eight]) / median(rates[one])
    rounds = [many / single for many, single in zip(rates[eight], rates[one], strict=True)]
    bar = Bar(
        "nothing lost",
        f"{sum(lost):,.0f} chunks lost; the rate is {spread(part, rounds)} of one writer's",
        not any(lost),
    )
    what = "eight writers of one store, chunks in all, 1/s"
    yield Row(what, {"rekindle": rates[eight]}, bar)


def _lifecycle(extent: Extent) -> Iterator[Row]:
    most_s, most_updates, most_mb, most_ms, most_list_ms = 0.5, 60, 150, 5, 150
    rekindle = ("rekindle",)
    figures = _sample(extent.rounds, lifecycle.load, extent.loaded, setups=rekindle)
    taken, updates = figures["seconds"]["rekindle"], max(figures["updates"]["rekindle"])
    bar = Bar(
        f"at most {most_s} s and {most_updates} updates",
        f"{spread(median(taken), taken)} s, {updates:.0f} updates",
        median(taken) <= most_s and updates <= most_updates,
    )
    yield Row(f"`session/load` of {extent.loaded:,} chunks, s", figures["seconds"], bar)
    figures = _sample(extent.long_rounds, lifecycle.load, extent.long, setups=rekindle)
    above = figures["above"]["rekindle"]
    bar = Bar(
        f"at most {most_mb} MB above idle", f"{spread(median(above), above)}", max(above) <= most_mb
    )
    yield Row(f"`session/load` of {extent.long:,} chunks, s", figures["seconds"])
    yield Row("memory above idle meanwhile, MB", figures["above"], bar)
    figures = _sample(1, lifecycle.list_pages, extent.sessions, setups=rekindle)
    slowest = figures["ms"]["rekindle"][0]
    bar = Bar(f"at most {most_ms} ms", number(slowest), slowest <= most_ms)
    yield Row(f"a page of `session/list` among {extent.sessions:,}, ms", figures["ms"], bar)
    for how in ("terminal", "pipe"):
        taken = figures[how]["rekindle"][0]
        bar = Bar(f"at most {most_list_ms} ms", number(taken), taken <= most_list_ms)
        what = f"`rekindle list` among {extent.sessions:,}, {how}, ms"
        yield Row(what, figures[how], bar)


def _translation(extent: Extent) -> Iterator[Row]:
    most = 2
    for agent, what, count, other in (
        ("rekindle", "chunks", extent.chunks, 2),
        ("rekindle", "results", extent.results, 2),
        ("version 2", "named", extent.chunks, 1),
        ("version 2", "terminal", extent.chunks, 1),
    ):
        same = 3 - other
        figures = _sample(
            extent.rounds,
            lambda name, store, *rest: translation.stream(rest[0], store, int(name), *rest[1:]),
            agent, what, count,
            setups=(str(same), str(other)),
        )["rate"]  # fmt: skip
        passed, translated = figures[str(same)], figures[str(other)]
        rounds = [one / two for one, two in zip(passed, translated, strict=True)]
        cost = median(passed) / median(translated)
        bar = Bar(f"at most {most} times passing on", f"{spread(cost, rounds)}", cost <= most)
        name = {"named": "chunks", "results": "tool results"}.get(what, what)
        yield Row(f"{name} of a version {same} agent passed on, 1/s", {"rekindle": passed})
        to = f"{name} translated for a version {other} client, 1/s"
        yield Row(to, {"rekindle": translated}, bar)


def _sharing(extent: Extent) -> Iterator[Row]:
    most, most_mb, several, sessions = 0.25, 80, 5, 10
    figures = _sample(
        extent.rounds,
        lambda name, store: sharing.shared_stream(store, int(name), extent.chunks),
        setups=("1", str(several)),
    )["us"]
    one, all_of_them = figures["1"], figures[str(several)]
    rounds = [
        (many / first - 1) / (several - 1) for many, first in zip(all_of_them, one, strict=True)
    ]
    part = (median(all_of_them) / median(one) - 1) / (several - 1)
    bar = Bar(f"each at most {most} of the first", spread(part, rounds), part <= most)
    yield Row("processor time of a host with one client, ns a chunk", _in_ns(one))
    what = f"with {several - 1} attached clients as well, ns a chunk"
    yield Row(what, _in_ns(all_of_them), bar)
    held = _sample(
        extent.long_rounds,
        lambda _, store: sharing.crowded_host(store, sessions, extent.clients, extent.crowded),
        setups=("rekindle",),
    )["mb"]
    largest = max(held["rekindle"])
    bar = Bar(f"less than {most_mb} MB", number(largest), largest < most_mb)
    yield Row(f"host with {extent.clients} clients and {sessions} sessions, MB", held, bar)


def _in_ns(figures: list[float]) -> Samples:
    return {"rekindle": [us * 1000 for us in figures]}


def _searching(extent: Extent) -> Iterator[Row]:
    most_ms = 100
    figures = _sample(1, search_measures.measure_search, extent.searched, setups=("rekindle",))
    for name in search_measures.QUERIES:
        (taken,) = figures[name]["rekindle"]
        bar = Bar(f"at most {most_ms} ms", number(taken), taken <= most_ms)
        yield Row(f"search for {name} among {extent.searched:,} messages, ms", figures[name], bar)
    yield Row("index of them, built at once, s", figures["build"])
    yield Row("its size, MB", figures["mb"])
    yield Row("size of the store, MB", figures["store_mb"])
    yield Row("index brought up to date after a turn, ms", figures["a_turn"])
    yield Row("the same when there is nothing new, ms", figures["nothing_new"])


def _sample(
    rounds: int,
    measure: Callable[..., measures.Figures],
    *arguments: object,
    setups: tuple[str, ...] = SETUPS,
) -> dict[str, Samples]:
    """Measure each set-up once per round with a new store; return all figures."""
    figures: dict[str, Samples] = {}
    for _ in range(rounds):
        for setup in setups:
            with TemporaryDirectory(prefix="rekindle-bench-") as folder:
                measured = measure(setup, Path(folder) / "store.db", *arguments)
            for figure, value in measured.items():
                figures.setdefault(figure, {}).setdefault(setup, []).append(value)
    return figures


if __name__ == "__main__":
    sys.exit(main())
