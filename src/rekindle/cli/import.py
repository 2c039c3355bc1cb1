"""Take in sessions that `rekindle export --format bundle` has written, also on another machine.

They keep their ids. Importing twice changes nothing; a session that grew is extended; where both
copies went on, the one that comes is kept as a fork. FILE may be - for stdin.

example:
  rekindle import talk.rekindle
"""

# ruff: noqa: N999 - a module is called as its command
import argparse
import io
import os
import socket
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from rekindle.cli.changing import now_us
from rekindle.cli.progress import Bar
from rekindle.cli.reading import add_store_option
from rekindle.cli.words import one_line, printable
from rekindle.errors import BadBundle, SessionInUse, UsageError
from rekindle.export.bundle import SessionLine
from rekindle.model import Entry, Holder, TitleSource
from rekindle.store.location import locate, open_store
from rekindle.store.merging import How, Merged, Merger
from rekindle.store.spool import Spool

_STDIN = "-"
_NOTES = {
    How.BRANCHED: "both copies went on; the one that came is a fork",
    How.DELETED: "it was deleted here; --undelete brings it back",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_store_option(parser)
    parser.add_argument(
        "--undelete", action="store_true", help="bring back what was deleted here, too"
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="take over how agents were started: only if you know who made the file",
    )
    parser.add_argument("source", metavar="FILE", help="a bundle, or - for stdin")


def main(arguments: argparse.Namespace) -> int:
    """Take in every session of the file, each whole or not at all."""
    with Spool() as spool:
        _fill(spool, arguments.source)
        holder = Holder(token=uuid4().hex, pid=os.getpid(), host=socket.gethostname())
        with open_store(locate(arguments.store)) as store:
            merger = Merger(store, holder, undelete=arguments.undelete, trust=arguments.trust)
            is_all_done = _take_all(spool, merger)
    return 0 if is_all_done else 1


def _fill(spool: Spool, source: str) -> None:
    with _opened(source) as file:
        size = os.fstat(file.fileno()).st_size if file.seekable() else None
        with Bar("checking") as bar:
            try:
                for _ in spool.fill(file):
                    bar.at(file.tell() if size else 0, size)
            except BadBundle as error:
                name = "stdin" if source == _STDIN else source
                raise BadBundle(f"{one_line(name)}: {error}: nothing was imported") from error


@contextmanager
def _opened(source: str) -> Generator[io.BufferedReader]:
    if source != _STDIN:
        with Path(source).open("rb") as file:
            yield file
        return
    # There is no stdin where the caller has closed it.
    if sys.stdin is None or sys.stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison]
        raise UsageError("nothing comes from stdin: name a file")
    # Its own buffer has no `peek` that types know of.
    with open(sys.stdin.fileno(), "rb", closefd=False) as file:
        yield file


def _take_all(spool: Spool, merger: Merger) -> bool:
    total = sum(line.entries for line in spool.sessions)
    done = 0
    is_all_done = True
    with Bar("importing") as bar:
        for number, line in enumerate(spool.sessions):

            def read(after: int, number: int = number, done: int = done) -> Iterator[Entry]:
                for entry in spool.entries(number, after):
                    bar.at(done + entry.seq, total)
                    yield entry

            try:
                _tell(line, merger.take(line.session, read, now_us()))
            except SessionInUse as error:
                print(f"rekindle: {printable(str(error))}", file=sys.stderr)
                is_all_done = False
            done += line.entries
    return is_all_done


def _tell(line: SessionLine, merged: Merged) -> None:
    """Say what became of a session: in words, or as a row that scripts can read."""
    titles = line.session.titles
    title = next((titles[source] for source in reversed(TitleSource) if source in titles), "")
    shown_id, words = one_line(merged.session_id), one_line(title) or "(no title)"
    if not sys.stdout.isatty():
        print("\t".join((merged.how, shown_id, str(merged.entries), words)))
        return
    note = _NOTES.get(merged.how)
    print(f"{merged.how:9} {shown_id}: {words}{f' ({note})' if note else ''}")
