"""Write a session as a document, or as a bundle for another machine.

The suffix of FILE decides on the format: .md, .html, .json, .jsonl (ACP) or
.rekindle (bundle). Keys, tokens and passwords are masked in Markdown, HTML and
JSON. A bundle and ACP contain everything: check who receives them.

example:
  rekindle export @1 -o session.html
  rekindle export "fix parser" -o session.rekindle
  rekindle export --all -o everything.rekindle
"""

import argparse
import gzip
import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TypeVar, cast

from rekindle.cli.formatting import one_line
from rekindle.cli.messages import print_note
from rekindle.cli.output import is_stdout, open_output
from rekindle.cli.progress import ProgressBar
from rekindle.cli.session_choice import find_existing
from rekindle.cli.store_access import (
    SESSION_HELP,
    add_store_option,
    every,
    note_if_deleted,
    open_for_reading,
)
from rekindle.cli.subagents import attach_subagents
from rekindle.cli.terminal import is_terminal
from rekindle.errors import SessionPurged, UsageError
from rekindle.export.redact_transcript import redact_session, redact_terminal, redact_turn
from rekindle.model import Entry, Page, Session
from rekindle.store.base import Store
from rekindle.transcript.model import TranscriptTurn
from rekindle.transcript.reducer import Transcript

_LABELS = {
    "markdown": "Markdown",
    "html": "HTML",
    "json": "JSON",
    "acp": "ACP messages",
    "bundle": "a bundle",
}
FORMATS = tuple(_LABELS)
_FORMATS_BY_SUFFIX = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "markdown",
    ".html": "html",
    ".htm": "html",
    ".json": "json",
    ".jsonl": "acp",
    ".ndjson": "acp",
    ".rekindle": "bundle",
}
_UNSUPPORTED = frozenset(
    {".csv", ".db", ".doc", ".docx", ".epub", ".gz", ".odt", ".pdf", ".rst", ".rtf", ".sqlite"}
    | {".svg", ".tex", ".toml", ".tsv", ".xhtml", ".xml", ".yaml", ".yml", ".zip"}
)
"""Suffixes of other formats. A document with such a name would have the wrong contents."""
_WRITE_SIZE = 128 * 1024


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_store_option(parser)
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="the format (default: by the suffix of FILE, otherwise markdown)",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write to this file instead of stdout"
    )
    parser.add_argument("-f", "--force", action="store_true", help="overwrite FILE if it exists")
    parser.add_argument(
        "--no-redact",
        dest="redact",
        action="store_false",
        help="write keys, tokens and passwords, too",
    )
    parser.add_argument(
        "--protocol",
        type=int,
        choices=(1, 2),
        help="the version of ACP for --format acp (default: the recorded one)",
    )
    parser.add_argument("--all", action="store_true", help="export all sessions into one bundle")
    parser.add_argument(
        "sessions",
        nargs="*",
        metavar="SESSION",
        help=f"{SESSION_HELP}; a bundle can have several",
    )


def main(arguments: argparse.Namespace) -> int:
    """Write the sessions to the output."""
    arguments.format = arguments.format or _format_for(arguments)
    is_bundle = arguments.format == "bundle"
    if arguments.sessions and arguments.all:
        raise UsageError("--all exports every session; leave the sessions out, or --all")
    if not (arguments.sessions or arguments.all):
        raise UsageError("no session given; name one or more, or use --all")
    if not is_bundle and (arguments.all or len(arguments.sessions) > 1):
        raise UsageError(
            f"the format {arguments.format} is for one session; use --format bundle for several"
        )
    if arguments.protocol is not None and arguments.format != "acp":
        raise UsageError("--protocol needs --format acp")
    if is_bundle and is_stdout(arguments.output) and is_terminal():
        raise UsageError("a bundle cannot be printed on a terminal; name a file with -o")
    with open_for_reading(arguments.store) as store:
        ids = _all_ids(store) if arguments.all else _find_ids(store, arguments.sessions)
        if is_bundle and not arguments.all:
            ids = list(dict.fromkeys([*ids, *(it.id for it in store.subagents(*ids))]))
        output = open_output(arguments.output, force=arguments.force)
        with output as file, _progress_bar(arguments) as bar:
            if is_bundle:
                _write_bundle(store, ids, file, bar)
            else:
                _write_document(store, ids[0], file, bar, arguments)
    # A script needs no note.
    if not is_stdout(arguments.output) and is_terminal(sys.stderr):
        print_note(f"wrote {one_line(arguments.output)} ({_LABELS[arguments.format]})")
    return 0


def _format_for(arguments: argparse.Namespace) -> str:
    """Return the format that the name of the output file, or --all, implies."""
    suffix = "" if is_stdout(arguments.output) else Path(arguments.output).suffix.lower()
    if suffix in _UNSUPPORTED:
        raise UsageError(
            f"there is no export as {suffix}; use .md, .html, .json, .jsonl or .rekindle, or name"
            " a format with --format"
        )
    default = "bundle" if arguments.all else "markdown"
    return _FORMATS_BY_SUFFIX.get(suffix, default)


def _progress_bar(arguments: argparse.Namespace) -> ProgressBar:
    # A document that is printed on the terminal must not have a bar between its lines.
    is_wanted = not (is_stdout(arguments.output) and is_terminal())
    return ProgressBar("exporting", is_wanted=is_wanted)


def _find_ids(store: Store, named: list[str]) -> list[str]:
    found = {session.id: session for session in _each(store, named)}
    for session in found.values():
        note_if_deleted(session)
    return list(found)


def _each(store: Store, named: list[str]) -> Iterator[Session]:
    return (find_existing(store, name, any_project=True) for name in named)


def _all_ids(store: Store) -> list[str]:
    page = Page(with_archived=True, with_unopened=True)
    return [session.id for session in every(store, page)]


def _write_bundle(store: Store, ids: list[str], file: IO[bytes], bar: ProgressBar) -> None:
    from rekindle.transfer.bundle_format import BundledSession, bundle_lines

    sessions = [store.session(session_id) for session_id in ids]
    total = sum(session.last_seq for session in sessions)

    def known() -> Iterator[BundledSession]:
        done = 0
        for session in sessions:
            entries = _tracked_entries(store.read(session.id), bar, done, total)
            yield session, store.titles(session.id), entries
            done += session.last_seq

    # Without a name and a time in the header, the same sessions make the same file.
    with (
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        io.BufferedWriter(cast("io.RawIOBase", packed), _WRITE_SIZE) as buffered,
    ):
        buffered.writelines(bundle_lines(known()))


def _write_document(
    store: Store, session_id: str, file: IO[bytes], bar: ProgressBar, arguments: argparse.Namespace
) -> None:
    session = store.session(session_id)
    # The acp format is the record itself, for programs. It is never masked.
    is_masked = arguments.redact and arguments.format != "acp"
    whole = session.last_seq
    total = (3 if is_masked else 2) * whole
    protocols: Counter[int] = Counter()
    transcript = Transcript()
    for entry in _tracked_entries(store.read(session_id), bar, 0, total):
        transcript.add(entry)
        protocols[entry.protocol] += 1
    if transcript.last_seq < whole:
        raise SessionPurged(session_id)
    attach_subagents(store, transcript, session_id)
    if is_masked:
        session = redact_session(session)
        parts = [*transcript.turns, *transcript.terminals.values()]
        for part in _tracked(parts, bar, whole, whole, total):
            redact_turn(part) if isinstance(part, TranscriptTurn) else redact_terminal(part)
    turns = _tracked(transcript.turns, bar, total - whole, whole, total)
    # The version of most entries; the lower one of two.
    recorded = max(protocols, key=lambda version: (protocols[version], -version), default=1)
    protocol = arguments.protocol or recorded
    for text in _document(session, transcript, turns, protocol, arguments.format):
        # A lone surrogate cannot be encoded. It must not fail the export.
        file.write(text.encode("utf-8", "replace"))


def _document(
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


def _tracked(parts: list[_T], bar: ProgressBar, done: int, share: int, total: int) -> Iterator[_T]:
    """Yield the parts, and update the bar from `done` to `done + share`."""
    for number, part in enumerate(parts):
        bar.update(done + share * number // len(parts), total)
        yield part


def _tracked_entries(
    entries: Iterable[Entry], bar: ProgressBar, done: int, total: int
) -> Iterator[Entry]:
    for entry in entries:
        bar.update(done + entry.seq, total)
        yield entry
