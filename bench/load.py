"""Measure Rekindle under load: many sessions at once, long sessions, large stores, slow readers.

Writes the second part of bench/RESULTS.md, and the curves in bench/plots. The exit code is 1 if a
bar is not met or a result is wrong. It takes an hour and some GB of disk.
"""

import argparse
import compileall
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import concurrent_sessions
import imports
import rekindle
import report
import session_growth
import slow_peers
import store_growth
from client import WrongResult
from plot import Chart, Points, draw
from report import number

_BASE = 10
_MB = 1_000_000
_BYTES_PER_SESSION = 100_000


@dataclass(frozen=True)
class Extent:
    """The amounts to measure."""

    seconds: float = 600
    sessions: int = 50
    pace: int = 100
    entries: int = 10_000_000
    stored: int = 1_000_000
    padding: int = 0
    unread: int = 1_000_000
    unread_seconds: int = 60
    imported_mb: int = 1_000
    imported: int = 3_000


_QUICK = Extent(
    seconds=10, sessions=16, pace=50, entries=100_000, stored=10_000, unread=100_000,
    unread_seconds=6, imported_mb=50, imported=300,
)  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A measured value, with its maximum or minimum if there is a bar."""

    what: str
    found: float
    unit: str
    most: float | None = None
    least: float | None = None

    @property
    def is_met(self) -> bool:
        """Whether the bar is met."""
        is_too_much = self.most is not None and self.found > self.most
        return not is_too_much and (self.least is None or self.found >= self.least)

    def row(self) -> str:
        """Return the row of the table."""
        bar = "" if self.most is None else f"at most {number(self.most)} {self.unit}"
        bar = bar if self.least is None else f"at least {number(self.least)} {self.unit}"
        verdict = "" if not bar else "pass" if self.is_met else "**fail**"
        found = f"{number(self.found)} {self.unit}"
        return f"| {self.what} | {found.strip()} | {bar.strip()} | {verdict} |"


@dataclass(frozen=True)
class Part:
    """A part of the report, with its curves."""

    title: str
    text: str
    figures: list[Figure]
    plots: dict[str, str]


def main() -> int:
    """Measure, print the report, and write it to the file."""
    options = _options()
    extent = _chosen(options)
    compileall.compile_dir(str(Path(rekindle.__file__).parent), quiet=1)
    parts: list[Part] = []
    for name in options.parts or _PARTS:
        print(f"{name} …", file=sys.stderr, flush=True)
        try:
            with TemporaryDirectory(prefix="rekindle-load-", dir=options.folder) as folder:
                parts.append(_PARTS[name](extent, Path(folder) / "store.db"))
        except WrongResult as error:
            print(f"wrong result: {error}", file=sys.stderr)
            return 1
        print(_section(parts[-1]), flush=True)
    if options.write or not options.quick:
        _write(parts)
    return 0 if all(figure.is_met for part in parts for figure in part.figures) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *_PARTS], help="only these; none: all")
    parser.add_argument("--quick", action="store_true", help="small counts; writes no results")
    parser.add_argument("--write", action="store_true", help="write the results of --quick too")
    parser.add_argument("--seconds", type=float, help="how long sessions stream")
    parser.add_argument("--entries", type=int, help="how long a session gets")
    parser.add_argument("--stored", type=int, help="how many sessions a store gets")
    parser.add_argument("--padding", type=int, help="bytes of a tool's output in each of them")
    parser.add_argument("--folder", help="where stores are made (default: for temporary files)")
    return parser.parse_args()


def _chosen(options: argparse.Namespace) -> Extent:
    given = {name: getattr(options, name) for name in ("seconds", "entries", "stored", "padding")}
    default = _QUICK if options.quick else Extent()
    return replace(default, **{name: value for name, value in given.items() if value is not None})


def _streams(extent: Extent, store: Path) -> Part:
    found = concurrent_sessions.stream(store, extent.sessions, extent.pace, extent.seconds)
    held = found["mb_end"] - found["mb_begin"]
    return Part(
        "Many at once",
        f"{extent.sessions} sessions streamed at once, with {extent.pace} flushed chunks per "
        f"second each, from {concurrent_sessions.PROCESSES} processes into one store, for "
        f"{extent.seconds:.0f} seconds of consecutive turns: {found['chunks']:,.0f} chunks. The "
        "store had each received chunk once and in order. The latency of a chunk is from the "
        "agent to the client, and includes the commit. Memory and files are those of the process "
        f"with most of them. While a reader holds one snapshot for {found['reading']:.0f} "
        "seconds, SQLite cannot restart its WAL.",
        [
            Figure("chunks in all", found["rate"], "1/s"),
            Figure("latency of a chunk, median", found["p50"], "ms"),
            Figure("the same, 99th percentile", found["p99"], "ms"),
            Figure("the longest", found["longest"], "ms"),
            Figure("memory at the beginning", found["mb_begin"], "MB"),
            Figure("memory at the end", found["mb_end"], "MB", 45),
            Figure("growth of memory", held, "MB", 5),
            Figure("open files at the beginning", found["files_begin"], ""),
            Figure("open files at the end", found["files_end"], "", found["files_begin"]),
            Figure("largest WAL", found["log"], "MB", 64),
            Figure("while a snapshot is read", found["log_read"], "MB"),
            Figure("at the end", found["log_after"], "MB", 64),
        ],
        {},
    )


def _session(extent: Extent, store: Path) -> Part:
    lengths = [extent.entries // _BASE**power for power in range(3, -1, -1)]
    lengths = [length for length in lengths if length >= session_growth.SHORTEST]
    found = dict(session_growth.grow(store, lengths))
    first, last = found[lengths[0]], found[lengths[-1]]
    return Part(
        "A long session",
        "One session grows. Its turns have 2,000 entries each, written in the same way as by "
        "recording. The loading agent does not know the session, and the client compares all of "
        "it. The memory of a load is that of the replayed text and its lines.",
        [
            Figure(f"entries appended at {lengths[0]:,}", first["append"], "1/s"),
            Figure(f"entries appended at {lengths[-1]:,}", last["append"], "1/s"),
            Figure("quotient of the two", first["append"] / last["append"], "", 1.5),
            Figure(f"`session/load` of {lengths[-1]:,}", last["load_s"], "s"),
            Figure("the same for each 50,000 of them", last["load_per"] / 2, "s", 0.5),
            Figure("memory above idle meanwhile", last["load_mb"], "MB"),
            Figure("`rekindle show --last`", last["last_s"], "s"),
            Figure("its memory", last["last_mb"], "MB"),
            Figure("`rekindle export`", last["export_s"], "s"),
            Figure("its memory", last["export_mb"], "MB"),
            Figure("the store", last["file_mb"], "MB"),
        ],
        _length_curves(found),
    )


def _store(extent: Extent, store: Path) -> Part:
    sizes = [extent.stored // _BASE**power for power in range(3, -1, -1)]
    sizes = [size for size in sizes if size >= store_growth.MIN_SESSIONS]
    found = dict(store_growth.fill(store, sizes, extent.padding))
    size, last = sizes[-1], found[sizes[-1]]
    parts = {f"`prune` of {size // _BASE:,}": size // _BASE, "`prune --now` of 100": 100}
    maintenance = dict(store_growth.run_maintenance(store, size, parts))
    waits = {"`prune --now` of 100": None}
    figures = [
        Figure(f"{size:,} sessions", last["file_mb"], "MB"),
        Figure("their index", last["index_mb"], "MB"),
        Figure("index built, from a tenth of them on", last["index_s"], "s"),
        Figure("index brought up to date with nothing new", last["nothing_new_ms"], "ms"),
        Figure("a page of the store", last["page_ms"], "ms", 5),
        Figure("`session/list`, a page", last["list_ms"], "ms", 5),
        Figure("`rekindle list` on a terminal", last["terminal_ms"], "ms", 150),
        Figure("`rekindle list` to a pipe", last["pipe_ms"], "ms", 150),
        Figure("start to the answer to `initialize`", last["start_ms"], "ms"),
        Figure(
            f"`session/load` of one of {store_growth.LOADED_ENTRIES:,} entries",
            last["load_s"],
            "s",
            0.5,
        ),
        *(Figure(f"search for {name}", last[name], "ms", 100) for name in store_growth.QUERIES),
        Figure("`rekindle search`, the whole command", last["command_ms"], "ms"),
    ]
    for name, cost in maintenance.items():
        figures += [
            Figure(name, cost["seconds"], "s"),
            Figure("its memory", cost["mb"], "MB"),
            Figure("longest latency of a chunk", cost["waited_ms"], "ms", waits.get(name)),
        ]
    return Part(
        "A large store",
        "One store grows with sessions of one turn each. Commands that read the whole store or "
        "delete a part of it run while a session is recorded with 100 chunks per second.",
        figures,
        _size_curves(found),
    )


def _slow(extent: Extent, store: Path) -> Part:
    unread = slow_peers.slow_client(store, extent.unread, extent.unread_seconds)
    unheard = slow_peers.slow_agent(store.with_name("other.db"), extent.unread_seconds)
    return Part(
        "Slow readers",
        f"A client reads nothing for {extent.unread_seconds} seconds while an agent has "
        f"{unread['sent_mb']:.0f} MB to send, and then reads everything. An agent reads nothing "
        "for the same time while a client writes prompts. Nothing was lost.",
        [
            Figure("taken from the agent meanwhile", unread["taken_mb"], "MB", 5),
            Figure("memory above idle then", unread["above_mb"], "MB", 20),
            Figure("and when all was read", unread["after_mb"], "MB", 20),
            Figure("taken from the client meanwhile", unheard["taken_mb"], "MB", 5),
            Figure("memory above idle then", unheard["above_mb"], "MB", 20),
        ],
        {},
    )


def _imports(extent: Extent, store: Path) -> Part:
    long = imports.one_long(store, extent.imported_mb * _MB)
    many = imports.very_many(store.with_name("many.db"), extent.imported, _BYTES_PER_SESSION)
    return Part(
        "Importing",
        f"One session of Claude Code with {long['mb']:,.0f} MB, which become "
        f"{long['entries']:,.0f} entries; then {extent.imported:,} sessions of "
        f"{_BYTES_PER_SESSION // 1000} kB each; and both again without changes.",
        [
            Figure("one long session", long["rate"], "MB/s", least=40),
            Figure("memory meanwhile", long["memory"], "MB", 200),
            Figure("once more", long["again_s"], "s"),
            Figure("the store", long["store_mb"], "MB"),
            Figure("many sessions", many["rate"], "MB/s"),
            Figure("memory meanwhile", many["memory"], "MB", 200),
            Figure("once more", many["again_s"], "s", 5),
        ],
        {},
    )


# -- curves ---------------------------------------------------------------------------------

FiguresBySize = Mapping[int, Mapping[str, float]]
"""The figures for each size."""


def _length_curves(found: FiguresBySize) -> dict[str, str]:
    """Return the named curves of the cost of a growing session."""
    seconds = {"load_s": "session/load", "last_s": "show --last", "export_s": "export"}
    rates = {"append": "appended", "loaded": "loaded"}
    mb = {"load_mb": "session/load", "last_mb": "show --last", "export_mb": "export"}
    across = "entries in the session"
    charts = {
        "length-time": Chart("Time against length", across, "seconds", _lines(found, seconds)),
        "length-rate": Chart("Rates against length", across, "entries/s", _lines(found, rates)),
        "length-memory": Chart("Memory against length", across, "MB", _lines(found, mb)),
    }
    return {name: draw(chart) for name, chart in charts.items()}


def _size_curves(found: FiguresBySize) -> dict[str, str]:
    """Return the named curves of the cost of a growing store."""
    listing = {"terminal_ms": "rekindle list", "list_ms": "session/list", "page_ms": "its page"}
    search = {
        "command_ms": "rekindle search",
        "search_ms": "slowest search",
        "nothing_new_ms": "nothing new",
    }
    opening = {"load_ms": "session/load", "start_ms": "initialize"}
    across = "sessions in the store"
    charts = {
        "size-list": Chart("Listing against size", across, "ms", _lines(found, listing), 150),
        "size-search": Chart("Searching against size", across, "ms", _lines(found, search), 100),
        "size-open": Chart("Opening against size", across, "ms", _lines(found, opening), 500),
    }
    return {name: draw(chart) for name, chart in charts.items()}


def _lines(found: FiguresBySize, names: dict[str, str]) -> dict[str, Points]:
    return {
        name: [(size, figures[figure]) for size, figures in found.items()]
        for figure, name in names.items()
    }


# -- the report -----------------------------------------------------------------------------

_PARTS: dict[str, Callable[[Extent, Path], Part]] = {
    "streams": _streams,
    "session": _session,
    "store": _store,
    "slow": _slow,
    "imports": _imports,
}


def _section(part: Part) -> str:
    rows = "\n".join(figure.row() for figure in part.figures)
    pictures = "\n".join(f"![{name}](plots/{name}.svg)" for name in part.plots)
    table = f"|  |  | bar |  |\n| --- | --- | --- | --- |\n{rows}"
    text = f"{time.strftime('%Y-%m-%d')}. {part.text}"
    return "\n\n".join(filter(None, (f"## {part.title}", text, table, pictures)))


def _write(parts: list[Part]) -> None:
    for part in parts:
        for name, picture in part.plots.items():
            path = report.FOLDER / "plots" / f"{name}.svg"
            path.parent.mkdir(exist_ok=True)
            path.write_text(picture, encoding="utf-8")
    head = "# Rekindle under load\n\nWritten by `make load`, with the curves."
    report.write_load(head, {part.title: _section(part) for part in parts})


if __name__ == "__main__":
    sys.exit(main())
