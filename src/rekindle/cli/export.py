"""Write a session as a document for people or programs, or as a bundle for another machine.

What looks like a key or a token is masked in markdown, html and json. A bundle, and acp, are the
record itself: look whom you give them to.

example:
  rekindle export 3f2a --format html -o talk.html
  rekindle export 3f2a --format bundle -o talk.rekindle
"""

import argparse
import gzip
import sys
from collections.abc import Iterable, Iterator
from typing import IO

from rekindle.cli.output import is_stdout, opened
from rekindle.cli.progress import Bar
from rekindle.cli.reading import add_store_option, open_for_reading
from rekindle.errors import UsageError
from rekindle.model import Entry, Page
from rekindle.store.base import Store

FORMATS = ("markdown", "html", "json", "acp", "bundle")
_SESSIONS_A_PAGE = 500


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_store_option(parser)
    parser.add_argument(
        "--format", choices=FORMATS, default="markdown", help="what to write (default: markdown)"
    )
    parser.add_argument("-o", dest="output", metavar="FILE", help="where to, instead of stdout")
    parser.add_argument("--force", action="store_true", help="overwrite FILE if it is there")
    parser.add_argument(
        "--no-redact",
        dest="redact",
        action="store_false",
        help="show what looks like keys and tokens, too",
    )
    parser.add_argument(
        "--protocol",
        type=int,
        choices=(1, 2),
        help="with --format acp: in which version (default: the one it was recorded in)",
    )
    parser.add_argument("--all", action="store_true", help="all sessions, into one bundle")
    parser.add_argument(
        "sessions",
        nargs="*",
        metavar="SESSION",
        help="its id, or the beginning of it; several only for a bundle",
    )


def main(arguments: argparse.Namespace) -> int:
    """Write the session."""
    is_bundle = arguments.format == "bundle"
    if bool(arguments.sessions) is arguments.all:
        raise UsageError("which session? give the beginning of its id, or --all for a bundle")
    if not is_bundle and (arguments.all or len(arguments.sessions) > 1):
        raise UsageError(f"{arguments.format} has room for one session: --format bundle for more")
    if is_bundle and is_stdout(arguments.output) and sys.stdout and sys.stdout.isatty():
        raise UsageError("a bundle is not for a terminal: name a file with -o")
    with open_for_reading(arguments.store) as store:
        found = (store.find(it).id for it in arguments.sessions)
        ids = _ids_of_all(store) if arguments.all else list(dict.fromkeys(found))
        with opened(arguments.output, force=arguments.force) as file, _bar(arguments) as bar:
            if is_bundle:
                _write_bundle(store, ids, file, bar)
    return 0


def _bar(arguments: argparse.Namespace) -> Bar:
    # Not between the lines of what is printed.
    is_wanted = not (is_stdout(arguments.output) and sys.stdout and sys.stdout.isatty())
    return Bar("exporting", is_wanted=is_wanted)


def _ids_of_all(store: Store) -> list[str]:
    ids: list[str] = []
    before: tuple[int, str] | None = None
    while page := store.sessions(
        Page(limit=_SESSIONS_A_PAGE, before=before, with_archived=True, with_strays=True)
    ):
        ids += [session.id for session in page]
        before = (page[-1].updated_us, page[-1].id)
    return ids


def _write_bundle(store: Store, ids: list[str], file: IO[bytes], bar: Bar) -> None:
    from rekindle.export.bundle import Known, bundle

    sessions = [store.session(session_id) for session_id in ids]
    total = sum(session.last_seq for session in sessions)

    def known() -> Iterator[Known]:
        done = 0
        for session in sessions:
            entries = _watched(store.read(session.id), bar, done, total)
            yield session, store.titles(session.id), entries
            done += session.last_seq

    # Without a name and a time in it, the same sessions make the same file.
    with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        for line in bundle(known()):
            packed.write(line)


def _watched(entries: Iterable[Entry], bar: Bar, done: int, total: int) -> Iterator[Entry]:
    for entry in entries:
        bar.at(done + entry.seq, total)
        yield entry
