"""Import from other tools: find their sessions, import them, print the results, and watch."""

import argparse
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from rekindle.cli.bundle_import import lease_holder, print_result, result_json
from rekindle.cli.formatting import one_line, plural, print_json
from rekindle.cli.messages import print_error, print_note
from rekindle.cli.progress import ProgressBar
from rekindle.cli.project import folder_spellings
from rekindle.cli.store_changes import now_us
from rekindle.cli.terminal import is_terminal
from rekindle.composition import open_store
from rekindle.errors import NothingToImport, UsageError
from rekindle.importers.base import FoundSession, ToolImporter
from rekindle.importers.registry import ALL, load_importer
from rekindle.store.address import locate, store_exists
from rekindle.store.base import Store
from rekindle.store.memory import MemoryStore
from rekindle.transfer.import_apply import SessionImporter
from rekindle.transfer.import_scan import ImportFilter, ImportReport, ImportResult, ToolScanner
from rekindle.transfer.merge import MergeOutcome

_MIN_PAUSE = 1.0
_MAX_PAUSE = 60.0
_PAUSE_FACTOR = 20
_MAX_RESULTS_SHOWN = 20
_INTERRUPTED = "interrupted; the imported sessions stay, and the next import continues"
_NO_TOOL = "none of the known tools has sessions on this machine"
_COUNT_LABELS = {
    MergeOutcome.NEW: "new",
    MergeOutcome.EXTENDED: "updated",
    MergeOutcome.BRANCHED: "kept as a fork, because both copies have new turns",
    MergeOutcome.UNCHANGED: "unchanged",
    MergeOutcome.UNDELETED: "restored",
    MergeOutcome.DELETED: "deleted here, and not restored",
}


class _ToolSource(Struct, frozen=True):
    """A tool, the places where its sessions may be, and its scanner."""

    tool: ToolImporter
    places: list[Path]
    scanner: ToolScanner

    @property
    def paths(self) -> list[Path]:
        """The places that exist now. A tool may be used for the first time during a watch."""
        return [place for place in self.places if _may_exist(place)]


class _Scan(Struct, frozen=True):
    """The reports of one scan, and the sessions to import."""

    reports: list[ImportReport]
    changed: list[tuple[ToolScanner, ImportReport, FoundSession]]

    @property
    def failed(self) -> dict[str, str]:
        """The reasons of all failures, by place."""
        return {place: reason for report in self.reports for place, reason in report.failed.items()}


def import_tools(arguments: argparse.Namespace, names: tuple[str, ...], path: Path | None) -> int:
    """Import the sessions of these tools from a path, or from where each tool keeps them.

    Return the exit code: 1 if a session could not be imported.
    """
    if arguments.watch and arguments.dry_run:
        raise UsageError("--watch and --dry-run exclude each other; leave one of them out")
    import_filter = ImportFilter(
        folders=folder_spellings(arguments.cwd) if arguments.cwd else (),
        since_us=arguments.since or 0,
    )
    sources = [_tool_source(load_importer(name), path, import_filter) for name in names]
    is_one_tool = arguments.source != ALL and not arguments.watch
    if is_one_tool and not sources[0].paths:
        tool = sources[0].tool
        looked = " or ".join(str(it) for it in tool.folders(os.environ, Path.home()))
        raise NothingToImport(
            f"{tool.title} has no sessions on this machine: there is no folder {looked};"
            " if they are elsewhere, name their file or folder"
        )
    with _open_store(arguments) as store:
        for source in sources:
            source.scanner.load_known(store, undelete=arguments.undelete)
        scan = _scan(sources)
        try:
            results = _import_changed(scan, store, arguments)
        except KeyboardInterrupt:
            print_note(_INTERRUPTED)
            raise
    _print_results(arguments, scan.reports, results)
    if arguments.watch:
        _watch(sources, arguments, scan.failed)
    return 1 if scan.failed else 0


def _tool_source(tool: ToolImporter, path: Path | None, import_filter: ImportFilter) -> _ToolSource:
    places = tool.folders(os.environ, Path.home()) if path is None else [path.absolute()]
    return _ToolSource(tool, places, ToolScanner(tool, import_filter))


def _may_exist(path: Path) -> bool:
    """Return whether a path exists, or cannot be examined: the scan reports the reason."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


@contextmanager
def _open_store(arguments: argparse.Namespace) -> Generator[Store]:
    address = locate(arguments.store)
    if arguments.dry_run and not store_exists(address):
        yield MemoryStore()
        return
    with open_store(address, create=not arguments.dry_run) as store:
        yield store


def _scan(sources: list[_ToolSource]) -> _Scan:
    scan = _Scan([], [])
    for source in sources:
        report, paths = ImportReport(tool=source.tool.name), source.paths
        # A tool that is not installed is not reported.
        if paths:
            scan.reports.append(report)
        for path in paths:
            changed = source.scanner.find_changed(path, report, now_us())
            scan.changed.extend((source.scanner, report, found) for found in changed)
    return scan


def _import_changed(scan: _Scan, store: Store, arguments: argparse.Namespace) -> list[ImportResult]:
    importer = SessionImporter(
        store, lease_holder(), undelete=arguments.undelete, dry_run=arguments.dry_run
    )
    total = sum(found.size for _, _, found in scan.changed)
    results: list[ImportResult] = []
    done = 0
    with ProgressBar("importing") as bar:
        for scanner, report, found in scan.changed:

            def on_progress(read: int, done: int = done) -> None:
                bar.update(done + read, total)

            results += scanner.import_found(found, importer, report, now_us(), on_progress)
            done += found.size
            bar.update(done, total)
    return results


# -- output -----------------------------------------------------------------------------------


def _print_results(
    arguments: argparse.Namespace, reports: list[ImportReport], results: list[ImportResult]
) -> None:
    if arguments.json:
        tools = [_report_json(report) for report in reports]
        sessions = [result_json(result, result.title) for result in results]
        print_json({"dryRun": arguments.dry_run, "tools": tools, "sessions": sessions})
        return
    if not is_terminal() or len(results) <= _MAX_RESULTS_SHOWN:
        for result in results:
            print_result(result, result.title)
    for report in reports:
        _print_summary(report, is_dry_run=arguments.dry_run)
    if not reports:
        print_note(_NO_TOOL)


def _print_summary(report: ImportReport, *, is_dry_run: bool) -> None:
    """Print the counts of a tool to stderr. stdout has only the sessions, for scripts."""
    title = load_importer(report.tool).title
    found = plural(report.found - report.children, "session")
    children = f" and {report.children:,} of sub-agents" if report.children else ""
    counts = [
        f"{report.outcomes[outcome]:,} {label}"
        for outcome, label in _COUNT_LABELS.items()
        if report.outcomes[outcome]
    ]
    became = f": {', '.join(counts)}" if counts else ""
    would = " (nothing was changed)" if is_dry_run else ""
    print(f"{title}: {found}{children}{became}{would}", file=sys.stderr)
    for reason, count in sorted(report.skipped.items(), key=lambda it: (-it[1], it[0])):
        place = one_line(report.places.get(reason, ""))
        where = f"{count:,} times, first in {place}" if count > 1 else f"in {place}"
        print(f"  skipped: {one_line(reason)} ({where})", file=sys.stderr)
    _print_failures(report.failed)


def _print_failures(failed: dict[str, str]) -> None:
    for place, reason in failed.items():
        print_error(f"{one_line(place)}: {reason}")


def _report_json(report: ImportReport) -> dict[str, Any]:
    return {
        "tool": report.tool,
        "found": report.found,
        "ofSubAgents": report.children,
        "new": report.outcomes[MergeOutcome.NEW],
        "updated": report.outcomes[MergeOutcome.EXTENDED],
        "unchanged": report.outcomes[MergeOutcome.UNCHANGED],
        "branched": report.outcomes[MergeOutcome.BRANCHED],
        "deleted": report.outcomes[MergeOutcome.DELETED],
        "undeleted": report.outcomes[MergeOutcome.UNDELETED],
        "skipped": dict(report.skipped),
        "failed": dict(report.failed),
    }


# -- watching -----------------------------------------------------------------------------------


def _watch(
    sources: list[_ToolSource], arguments: argparse.Namespace, reported: dict[str, str]
) -> None:
    """Import changed sessions until Ctrl-C. `reported` has the failures that were printed."""
    if not arguments.json:
        print_note("watching for changes; Ctrl-C ends it")
    sys.stdout.flush()
    try:
        while True:
            started = time.monotonic()
            scan = _scan(sources)
            if scan.changed:
                with _open_store(arguments) as store:
                    results = _import_changed(scan, store, arguments)
                _print_watched(arguments, results)
            failed = dict(scan.failed.items() - reported.items())
            _print_failures(failed)
            reported |= failed
            time.sleep(pause_after(time.monotonic() - started))
    except KeyboardInterrupt:
        return


def pause_after(seconds: float) -> float:
    """Return the pause before the next scan, after a scan and import that took `seconds`.

    A watch is to use little processor time, however many files there are. But a session must not
    wait long because a very long one was imported before it.
    """
    return min(max(_MIN_PAUSE, _PAUSE_FACTOR * seconds), _MAX_PAUSE)


def _print_watched(arguments: argparse.Namespace, results: list[ImportResult]) -> None:
    if arguments.json and results:
        print_json({"sessions": [result_json(result, result.title) for result in results]})
    elif not arguments.json:
        for result in results:
            print_result(result, result.title)
    sys.stdout.flush()
