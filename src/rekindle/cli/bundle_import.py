"""Import a bundle, and print the result of an import."""

import argparse
import io
import os
import socket
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import Any
from uuid import uuid4

from rekindle.cli.formatting import one_line, print_json, title_text
from rekindle.cli.messages import print_error
from rekindle.cli.progress import ProgressBar
from rekindle.cli.store_changes import now_us
from rekindle.cli.terminal import columns
from rekindle.composition import open_store
from rekindle.errors import BadBundle, SessionInUse, UsageError
from rekindle.model import Entry, LeaseHolder
from rekindle.store.address import locate
from rekindle.text.widths import cut, width
from rekindle.transfer.branches import shown_title
from rekindle.transfer.bundle_reader import BundleReader
from rekindle.transfer.merge import MergeOutcome, Merger, MergeResult, RecordedCopy

STDIN = "-"

_MIN_TITLE_WIDTH = 8
_BUNDLE_PREFIXES = (b"\x1f\x8b", b'{"rekindle"')
_NOTES = {
    MergeOutcome.BRANCHED: "both copies have new turns; the imported one is a fork",
    MergeOutcome.DELETED: "it was deleted here; --undelete restores it",
}


def is_bundle(path: Path) -> bool:
    """Return whether a file may be a bundle, by its first bytes. Raises OSError."""
    if not S_ISREG(path.stat().st_mode):
        # A pipe can be read only once. Only bundles are read from pipes.
        return not path.is_dir()
    with path.open("rb") as file:
        return file.read(max(map(len, _BUNDLE_PREFIXES))).startswith(_BUNDLE_PREFIXES)


def import_bundle(arguments: argparse.Namespace) -> int:
    """Import every session of a bundle, each whole or not at all.

    Return the exit code: 1 if a session is in use. Raises BadBundle before anything is imported.
    """
    with BundleReader() as reader:
        _read_bundle(reader, arguments.source)
        with open_store(locate(arguments.store), create=True) as store:
            merger = Merger(
                store, lease_holder(), undelete=arguments.undelete, trust=arguments.trust
            )
            results, is_complete = _merge_all(reader, merger, is_json=arguments.json)
    if arguments.json:
        print_json({"sessions": results})
    return 0 if is_complete else 1


def lease_holder() -> LeaseHolder:
    """Return this process as a holder of leases."""
    return LeaseHolder(token=uuid4().hex, pid=os.getpid(), machine=socket.gethostname())


def _read_bundle(reader: BundleReader, source: str) -> None:
    with _open_source(source) as file:
        size = os.fstat(file.fileno()).st_size if file.seekable() else None
        with ProgressBar("checking") as bar:
            try:
                for _ in reader.read_all(file):
                    bar.update(file.tell() if size else 0, size)
            except BadBundle as error:
                name = "stdin" if source == STDIN else source
                raise BadBundle(f"{one_line(name)}: {error}; nothing was imported") from error


@contextmanager
def _open_source(source: str) -> Generator[io.BufferedReader]:
    if source != STDIN:
        with Path(source).open("rb") as file:
            yield file
        return
    # A caller may have closed stdin. Then `sys.stdin` is None.
    if sys.stdin is None or sys.stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison]
        raise UsageError("stdin has no bundle; name a file")
    # `sys.stdin.buffer` has a `peek` that its type lacks.
    with open(sys.stdin.fileno(), "rb", closefd=False) as file:
        yield file


def _merge_all(
    reader: BundleReader, merger: Merger, *, is_json: bool
) -> tuple[list[dict[str, Any]], bool]:
    """Merge all sessions; return the results as JSON, and whether none was in use."""
    total = sum(line.entries for line in reader.sessions)
    done = 0
    is_complete = True
    results: list[dict[str, Any]] = []
    with ProgressBar("importing") as bar:
        for number, line in enumerate(reader.sessions):

            def read(after: int, number: int = number, done: int = done) -> Iterator[Entry]:
                for entry in reader.entries(number, after):
                    bar.update(done + entry.seq, total)
                    yield entry

            try:
                result = merger.merge(RecordedCopy(line.session, read), now_us())
            except SessionInUse as error:
                print_error(str(error))
                is_complete = False
            else:
                title = shown_title(line.session)
                results.append(result_json(result, title))
                if not is_json:
                    print_result(result, title)
            done += line.entries
    return results, is_complete


def result_json(result: MergeResult, title: str) -> dict[str, Any]:
    """Return the result of a merge as JSON."""
    return {
        "how": result.outcome,
        "id": result.session_id,
        "entries": result.entries,
        "title": title or None,
    }


def print_result(result: MergeResult, title: str) -> None:
    """Print the result of a merge: as text on a terminal, otherwise as a row for scripts."""
    shown_id, shown_title = one_line(result.session_id), title_text(title)
    outcome = result.outcome
    if not sys.stdout.isatty():
        print("\t".join((outcome, shown_id, str(result.entries), shown_title)))
        return
    note = f" ({_NOTES[outcome]})" if outcome in _NOTES else ""
    head = f"{outcome:9} {shown_id}: "
    room = columns() - width(head) - width(note)
    print(f"{head}{cut(shown_title, max(room, _MIN_TITLE_WIDTH))}{note}")
