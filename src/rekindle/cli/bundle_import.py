"""Taking in a bundle."""

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

from rekindle.cli.formatting import one_line, print_json, printable
from rekindle.cli.progress import ProgressBar
from rekindle.cli.store_changes import now_us
from rekindle.cli.terminal import columns
from rekindle.errors import BadBundle, SessionInUse, UsageError
from rekindle.model import Entry, LeaseHolder, TitleSource
from rekindle.store.address import locate, open_store
from rekindle.text.widths import cut, width
from rekindle.transfer.bundle_format import SessionLine
from rekindle.transfer.bundle_reader import Spool
from rekindle.transfer.merge import How, Merged, Merger

STDIN = "-"

_SHORTEST_TITLE = 8
_SIGNS = (b"\x1f\x8b", b'{"rekindle"')
NOTES = {
    How.BRANCHED: "both copies went on; the one that came is a fork",
    How.DELETED: "it was deleted here; --undelete brings it back",
}


def is_bundle(path: Path) -> bool:
    """Tell whether a file may be a bundle, by how it begins. Raises OSError."""
    if not S_ISREG(path.stat().st_mode):
        # What comes through a pipe can be read only once, and nothing else comes so.
        return not path.is_dir()
    with path.open("rb") as file:
        return file.read(max(map(len, _SIGNS))).startswith(_SIGNS)


def take_bundle(arguments: argparse.Namespace) -> int:
    """Take in every session of the file, each whole or not at all."""
    with Spool() as spool:
        _fill(spool, arguments.source)
        with open_store(locate(arguments.store)) as store:
            merger = Merger(store, holder(), undelete=arguments.undelete, trust=arguments.trust)
            told, is_all_done = _take_all(spool, merger, is_json=arguments.json)
    if arguments.json:
        print_json({"sessions": told})
    return 0 if is_all_done else 1


def holder() -> LeaseHolder:
    """Return who imports."""
    return LeaseHolder(token=uuid4().hex, pid=os.getpid(), host=socket.gethostname())


def _fill(spool: Spool, source: str) -> None:
    with _opened(source) as file:
        size = os.fstat(file.fileno()).st_size if file.seekable() else None
        with ProgressBar("checking") as bar:
            try:
                for _ in spool.fill(file):
                    bar.update(file.tell() if size else 0, size)
            except BadBundle as error:
                name = "stdin" if source == STDIN else source
                raise BadBundle(f"{one_line(name)}: {error}: nothing was imported") from error


@contextmanager
def _opened(source: str) -> Generator[io.BufferedReader]:
    if source != STDIN:
        with Path(source).open("rb") as file:
            yield file
        return
    # There is no stdin where the caller has closed it.
    if sys.stdin is None or sys.stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison]
        raise UsageError("nothing comes from stdin: name a file")
    # Its own buffer has no `peek` that types know of.
    with open(sys.stdin.fileno(), "rb", closefd=False) as file:
        yield file


def _take_all(spool: Spool, merger: Merger, *, is_json: bool) -> tuple[list[dict[str, Any]], bool]:
    total = sum(line.entries for line in spool.sessions)
    done = 0
    is_all_done = True
    told: list[dict[str, Any]] = []
    with ProgressBar("importing") as bar:
        for number, line in enumerate(spool.sessions):

            def read(after: int, number: int = number, done: int = done) -> Iterator[Entry]:
                for entry in spool.entries(number, after):
                    bar.update(done + entry.seq, total)
                    yield entry

            try:
                merged = merger.take(line.session, read, now_us())
            except SessionInUse as error:
                print(f"rekindle: {printable(str(error))}", file=sys.stderr)
                is_all_done = False
            else:
                told.append(described(merged, _title(line)))
                if not is_json:
                    tell(merged, _title(line))
            done += line.entries
    return told, is_all_done


def _title(line: SessionLine) -> str:
    titles = line.session.titles
    return next((titles[source] for source in reversed(TitleSource) if source in titles), "")


def described(merged: Merged, title: str) -> dict[str, Any]:
    """Return what became of a session, for programs."""
    return {
        "how": merged.how,
        "id": merged.session_id,
        "entries": merged.entries,
        "title": title or None,
    }


def tell(merged: Merged, title: str) -> None:
    """Say what became of a session: in words, or as a row that scripts can read."""
    shown_id, words = one_line(merged.session_id), one_line(title) or "(no title)"
    if not sys.stdout.isatty():
        print("\t".join((merged.how, shown_id, str(merged.entries), words)))
        return
    note = f" ({NOTES[merged.how]})" if merged.how in NOTES else ""
    head = f"{merged.how:9} {shown_id}: "
    room = columns() - width(head) - width(note)
    print(f"{head}{cut(words, max(room, _SHORTEST_TITLE))}{note}")
