"""Importing from other tools: finding their sessions, taking them in, telling what became of it."""

import argparse
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from rekindle.cli.bundle_import import described, holder, tell
from rekindle.cli.formatting import one_line, plural, print_json, printable
from rekindle.cli.progress import ProgressBar
from rekindle.cli.project import folder_spellings
from rekindle.cli.store_changes import now_us
from rekindle.cli.terminal import is_terminal
from rekindle.errors import NothingToImport, UsageError
from rekindle.importers import ALL, tool_named
from rekindle.importers.base import Found, Tool
from rekindle.store.address import is_there, locate, open_store
from rekindle.store.base import Store
from rekindle.store.memory import MemoryStore
from rekindle.transfer.import_apply import Importer
from rekindle.transfer.import_scan import Gatherer, Report, Taken, Wanted
from rekindle.transfer.merge import How, Merged

_TICK = 1.0
_SHARE_OF_TIME = 20
_LONGEST_REST = 60.0
_MOST_SHOWN = 20
_INTERRUPTED = "interrupted: what was imported stays, and the next import goes on"
_COUNTED = {
    How.NEW: "new",
    How.EXTENDED: "updated",
    How.BRANCHED: "kept as a fork, because they went on here",
    How.UNCHANGED: "unchanged",
    How.UNDELETED: "brought back",
    How.DELETED: "deleted here, and left so",
}


class _Source(Struct, frozen=True):
    """A tool, where its sessions are looked for, and what is known of them."""

    tool: Tool
    places: list[Path]
    gatherer: Gatherer

    @property
    def paths(self) -> list[Path]:
        """Where there is something now: a tool may be used for the first time while we watch."""
        return [it for it in self.places if _may_be_there(it)]


class _Look(Struct, frozen=True):
    """What there is, and what of it is to be read."""

    reports: list[Report]
    news: list[tuple[Gatherer, Report, Found]]


def take_tools(arguments: argparse.Namespace, names: tuple[str, ...], path: Path | None) -> int:
    """Import what these tools have, in a place or where they usually do."""
    if arguments.watch and arguments.dry_run:
        raise UsageError("--watch and --dry-run do not go together: nothing would ever change")
    wanted = Wanted(
        folders=folder_spellings(arguments.cwd) if arguments.cwd else (),
        since_us=arguments.since or 0,
    )
    sources = [_source(tool_named(name), path, wanted) for name in names]
    is_one = arguments.source != ALL and not arguments.watch
    if is_one and not sources[0].paths:
        tool = sources[0].tool
        looked = " or ".join(str(it) for it in tool.folders(os.environ, Path.home()))
        raise NothingToImport(f"{tool.title} has no sessions here: there is no folder {looked}")
    with _store(arguments) as store:
        for source in sources:
            source.gatherer.remember(store, undelete=arguments.undelete)
        look = _look(sources)
        try:
            taken = _take(look, store, arguments)
        except KeyboardInterrupt:
            print(f"rekindle: {_INTERRUPTED}", file=sys.stderr)
            raise
    _tell(arguments, look.reports, taken)
    if arguments.watch:
        _watch(sources, arguments, _failed(look))
    return 1 if _failed(look) else 0


def _source(tool: Tool, path: Path | None, wanted: Wanted) -> _Source:
    paths = tool.folders(os.environ, Path.home()) if path is None else [path.absolute()]
    return _Source(tool, paths, Gatherer(tool, wanted))


def _may_be_there(path: Path) -> bool:
    """Tell whether there is something; where nobody may look, who tries is told so."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


@contextmanager
def _store(arguments: argparse.Namespace) -> Generator[Store]:
    path = locate(arguments.store)
    if arguments.dry_run and not is_there(path):
        yield MemoryStore()
        return
    with open_store(path, create=not arguments.dry_run) as store:
        yield store


def _look(sources: list[_Source]) -> _Look:
    look = _Look([], [])
    for source in sources:
        report, paths = Report(tool=source.tool.name), source.paths
        # Of a tool that is not here, nothing has to be said.
        if paths:
            look.reports.append(report)
        for path in paths:
            found = source.gatherer.look(path, report, now_us())
            look.news.extend((source.gatherer, report, it) for it in found)
    return look


def _take(look: _Look, store: Store, arguments: argparse.Namespace) -> list[Taken]:
    importer = Importer(store, holder(), undelete=arguments.undelete, only_looks=arguments.dry_run)
    total = sum(found.size for _, _, found in look.news)
    taken: list[Taken] = []
    done = 0
    with ProgressBar("importing") as bar:
        for gatherer, report, found in look.news:

            def at(read: int, done: int = done) -> None:
                bar.update(done + read, total)

            taken += gatherer.take(found, importer, report, now_us(), at)
            done += found.size
            bar.update(done, total)
    return taken


# -- telling ----------------------------------------------------------------------------------


def _tell(arguments: argparse.Namespace, reports: list[Report], taken: list[Taken]) -> None:
    if arguments.json:
        about = [_described(it) for it in reports]
        news = [described(_merged(it), it.title) for it in taken]
        value = {"dryRun": arguments.dry_run, "tools": about, "sessions": news}
        print_json(value)
        return
    if not is_terminal() or len(taken) <= _MOST_SHOWN:
        for it in taken:
            tell(_merged(it), it.title)
    for report in reports:
        _summarise(report, is_dry=arguments.dry_run)
    if not reports:
        print("rekindle: none of the tools has sessions here", file=sys.stderr)


def _merged(taken: Taken) -> Merged:
    return Merged(taken.how, taken.session_id, taken.entries)


def _summarise(report: Report, *, is_dry: bool) -> None:
    """Say what became of all of a tool's sessions. Scripts have only the sessions on stdout."""
    title = tool_named(report.tool).title
    found = plural(report.found - report.children, "session")
    children = f" and {report.children:,} of sub-agents" if report.children else ""
    counts = [
        f"{report.hows[how]:,} {words}" for how, words in _COUNTED.items() if report.hows[how]
    ]
    became = f": {', '.join(counts)}" if counts else ""
    would = " (nothing was changed)" if is_dry else ""
    print(f"{title}: {found}{children}{became}{would}", file=sys.stderr)
    for reason, count in sorted(report.skipped.items(), key=lambda it: (-it[1], it[0])):
        times = f" ({count:,} times)" if count > 1 else ""
        print(f"  skipped: {one_line(reason)}{times}", file=sys.stderr)
    _tell_failed(report.failed)


def _failed(look: _Look) -> dict[str, str]:
    return {place: why for report in look.reports for place, why in report.failed.items()}


def _tell_failed(failed: dict[str, str]) -> None:
    for place, why in failed.items():
        print(f"rekindle: {one_line(place)}: {printable(why)}", file=sys.stderr)


def _described(report: Report) -> dict[str, Any]:
    return {
        "tool": report.tool,
        "found": report.found,
        "ofSubAgents": report.children,
        "new": report.hows[How.NEW],
        "updated": report.hows[How.EXTENDED],
        "unchanged": report.hows[How.UNCHANGED],
        "branched": report.hows[How.BRANCHED],
        "deleted": report.hows[How.DELETED],
        "undeleted": report.hows[How.UNDELETED],
        "skipped": dict(report.skipped),
        "failed": dict(report.failed),
    }


# -- going on -----------------------------------------------------------------------------------


def _watch(sources: list[_Source], arguments: argparse.Namespace, told: dict[str, str]) -> None:
    """Import what changes, until somebody interrupts. `told` is what has failed before."""
    if not arguments.json:
        print("rekindle: watching; Ctrl-C ends it", file=sys.stderr)
    sys.stdout.flush()
    try:
        while True:
            begun = time.monotonic()
            look = _look(sources)
            if look.news:
                with _store(arguments) as store:
                    taken = _take(look, store, arguments)
                _tell_news(arguments, taken)
            news = dict(_failed(look).items() - told.items())
            _tell_failed(news)
            told |= news
            time.sleep(rest(time.monotonic() - begun))
    except KeyboardInterrupt:
        return


def rest(took: float) -> float:
    """Return for how long nobody looks, after looking and importing took so long.

    To watch is to cost little, however much there is to look at; but whoever has waited for a very
    long session is not to wait many times as long for the next short one.
    """
    return min(max(_TICK, _SHARE_OF_TIME * took), _LONGEST_REST)


def _tell_news(arguments: argparse.Namespace, taken: list[Taken]) -> None:
    if arguments.json and taken:
        print_json({"sessions": [described(_merged(it), it.title) for it in taken]})
    elif not arguments.json:
        for it in taken:
            tell(_merged(it), it.title)
    sys.stdout.flush()
