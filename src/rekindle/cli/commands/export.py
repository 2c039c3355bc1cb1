"""Write a session as a document for people or programs, or as a bundle for another machine.

What looks like a key or a token is masked in markdown, html and json. A bundle, and acp, are the
record itself: mind whom you give them to.

example:
  rekindle export 3f2a --format html -o talk.html
  rekindle export 3f2a --format bundle -o talk.rekindle
"""

import argparse
import gzip
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import IO, TypeVar, cast

from rekindle.cli.output import is_stdout, opened
from rekindle.cli.progress import Bar
from rekindle.cli.store_access import (
    add_store_option,
    every,
    find_left,
    note_if_deleted,
    open_for_reading,
)
from rekindle.cli.terminal import is_terminal
from rekindle.errors import SessionPurged, UsageError
from rekindle.export.redact_transcript import redact_session, redact_terminal, redact_turn
from rekindle.model import Entry, Page, Session
from rekindle.store.base import Store
from rekindle.transcript.model import TranscriptTurn
from rekindle.transcript.reducer import Transcript

FORMATS = ("markdown", "html", "json", "acp", "bundle")
_BYTES_A_WRITE = 128 * 1024


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
    if arguments.protocol is not None and arguments.format != "acp":
        raise UsageError("--protocol is for --format acp")
    if is_bundle and is_stdout(arguments.output) and is_terminal():
        raise UsageError("a bundle is not for a terminal: name a file with -o")
    with open_for_reading(arguments.store) as store:
        ids = _ids_of_all(store) if arguments.all else _ids_of(store, arguments.sessions)
        with opened(arguments.output, force=arguments.force) as file, _bar(arguments) as bar:
            if is_bundle:
                _write_bundle(store, ids, file, bar)
            else:
                _write_document(store, ids[0], file, bar, arguments)
    return 0


def _bar(arguments: argparse.Namespace) -> Bar:
    # Not between the lines of what is printed.
    is_wanted = not (is_stdout(arguments.output) and is_terminal())
    return Bar("exporting", is_wanted=is_wanted)


def _ids_of(store: Store, named: list[str]) -> list[str]:
    found = {session.id: session for session in (find_left(store, it) for it in named)}
    for session in found.values():
        note_if_deleted(session)
    return list(found)


def _ids_of_all(store: Store) -> list[str]:
    return [it.id for it in every(store, Page(with_archived=True, with_unopened=True))]


def _write_bundle(store: Store, ids: list[str], file: IO[bytes], bar: Bar) -> None:
    from rekindle.transfer.bundle_format import BundledSession, bundle_lines

    sessions = [store.session(session_id) for session_id in ids]
    total = sum(session.last_seq for session in sessions)

    def known() -> Iterator[BundledSession]:
        done = 0
        for session in sessions:
            entries = _watched(store.read(session.id), bar, done, total)
            yield session, store.titles(session.id), entries
            done += session.last_seq

    # Without a name and a time in it, the same sessions make the same file.
    with (
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        io.BufferedWriter(cast("io.RawIOBase", packed), _BYTES_A_WRITE) as buffered,
    ):
        buffered.writelines(bundle_lines(known()))


def _write_document(
    store: Store, session_id: str, file: IO[bytes], bar: Bar, arguments: argparse.Namespace
) -> None:
    session = store.session(session_id)
    # Nothing is masked in what a program is to take for the record.
    is_masked = arguments.redact and arguments.format != "acp"
    whole = session.last_seq
    total = (3 if is_masked else 2) * whole
    protocols: Counter[int] = Counter()
    transcript = Transcript()
    for entry in _watched(store.read(session_id), bar, 0, total):
        transcript.add(entry)
        protocols[entry.protocol] += 1
    if transcript.last_seq < whole:
        raise SessionPurged(session_id)
    if is_masked:
        session = redact_session(session)
        things = [*transcript.turns, *transcript.terminals.values()]
        for thing in _watched_parts(things, bar, whole, whole, total):
            redact_turn(thing) if isinstance(thing, TranscriptTurn) else redact_terminal(thing)
    turns = _watched_parts(transcript.turns, bar, total - whole, whole, total)
    usual = max(protocols, key=lambda it: (protocols[it], -it), default=1)
    for piece in _pieces(session, transcript, turns, arguments.protocol or usual, arguments.format):
        # Half of a character cannot be written; no document is to fail for it.
        file.write(piece.encode("utf-8", "replace"))


def _pieces(
    session: Session,
    transcript: Transcript,
    turns: Iterator[TranscriptTurn],
    protocol: int,
    name: str,
) -> Iterator[str]:
    match name:
        case "html":
            from rekindle.export.html import as_html

            return as_html(session, transcript, turns)
        case "json":
            from rekindle.export.json import as_json

            return as_json(session, transcript, turns)
        case "acp":
            from rekindle.export.acp import as_acp

            return as_acp(session, transcript, turns, protocol)
        case _:
            from rekindle.export.markdown import as_markdown

            return as_markdown(session, transcript, turns)


_T = TypeVar("_T")


def _watched_parts(parts: list[_T], bar: Bar, done: int, share: int, total: int) -> Iterator[_T]:
    """Yield the parts of something which all together is that share of the whole."""
    for number, part in enumerate(parts):
        bar.at(done + share * number // len(parts), total)
        yield part


def _watched(entries: Iterable[Entry], bar: Bar, done: int, total: int) -> Iterator[Entry]:
    for entry in entries:
        bar.at(done + entry.seq, total)
        yield entry
