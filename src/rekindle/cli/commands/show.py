"""Show a session turn by turn: prompts, answers, tool calls and plans.

A thought or a tool call is shown as one line; --thoughts and --tools show the
whole text. Changes of files are always shown. Keys, tokens and passwords are
masked. Long output goes to $PAGER; in a pipe it is plain text.

example:
  rekindle show @1                            # the first of `rekindle list`
  rekindle show "fix parser" --last --tools   # the last turn, with tool output
  rekindle show - --follow                    # the last used one here, live
"""

import argparse
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rekindle.cli.arguments import nonempty_text
from rekindle.cli.formatting import print_json, printable
from rekindle.cli.progress import ProgressBar
from rekindle.cli.render.detail import add_detail, detail_of
from rekindle.cli.render.printer import PlainPrinter
from rekindle.cli.render.transcript import Piece, heading, turn_pieces
from rekindle.cli.session_choice import check_session_choice, choose_session
from rekindle.cli.store_access import (
    SESSION_HELP,
    add_store_option,
    note_if_deleted,
    open_for_reading,
    statuses_of,
)
from rekindle.cli.subagents import attach_subagents
from rekindle.cli.terminal import is_terminal
from rekindle.errors import StoreError, UsageError
from rekindle.export.description import describe
from rekindle.export.json import describe_turn
from rekindle.model import Entry, Session, Side
from rekindle.store.base import Store
from rekindle.text.redact.prefilter import mask_short
from rekindle.transcript.model import TranscriptTurn
from rekindle.transcript.reducer import Transcript

if TYPE_CHECKING:
    from rekindle.cli.pager import PagedOutput


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_store_option(parser)
    parser.add_argument("session", nargs="?", metavar="SESSION", help=SESSION_HELP)
    parser.add_argument(
        "--title",
        type=nonempty_text,
        metavar="TEXT",
        help="the session whose title contains these words",
    )
    parser.add_argument(
        "--turn", type=int, metavar="N", help="show only turn N; -1 is the last turn"
    )
    parser.add_argument(
        "--last",
        action="store_true",
        help="show only the last turn; without SESSION, the session used last in this project",
    )
    add_detail(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--raw", action="store_true", help="print the recorded messages")
    how.add_argument("--json", action="store_true", help="print JSON, without masking")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="continue with new events, until Ctrl-C"
    )
    parser.add_argument("--no-pager", dest="pager", action="store_false", help="use no pager")
    parser.add_argument(
        "--no-redact",
        dest="redact",
        action="store_false",
        help="show keys, tokens and passwords, too",
    )


def main(arguments: argparse.Namespace) -> int:
    """Print the session."""
    if arguments.follow and arguments.json:
        raise UsageError("--follow cannot print JSON; leave --json out, or use --raw")
    wants_last = arguments.last and arguments.session is None and arguments.title is None
    check_session_choice(arguments.session, last=wants_last, title=arguments.title)
    with open_for_reading(arguments.store) as store:
        session = choose_session(
            store, arguments.session, last=wants_last, title=arguments.title, any_project=True
        )
        note_if_deleted(session)
        if arguments.last and not wants_last and arguments.turn is None:
            arguments.turn = -1
        with _own_line_after_interrupt(arguments):
            _show(arguments, store, session)
    return 0


@contextmanager
def _own_line_after_interrupt(arguments: argparse.Namespace) -> Generator[None]:
    """End the current line if Ctrl-C ends `--follow`, so that the shell prompt starts a line."""
    try:
        yield
    except KeyboardInterrupt:
        if arguments.follow and is_terminal():
            print()
        raise


def _show(arguments: argparse.Namespace, store: Store, session: Session) -> None:
    if arguments.raw:
        _print_raw(arguments, store, session)
        return
    transcript = _read(store, session)
    turns = _select_turns(transcript.turns, arguments.turn)
    if arguments.json:
        state = statuses_of(store, [session])[session.id]
        conversation = [describe_turn(turn) for turn in turns]
        print_json(describe(session) | {"state": state, "conversation": conversation})
        return
    if arguments.follow:
        from rekindle.cli.follow import follow

        follow(arguments, store, session, transcript, turns)
        return
    if arguments.redact:
        _redact(transcript, turns)
    _print(arguments, _pieces(arguments, session, turns, transcript))


def _read(store: Store, session: Session) -> Transcript:
    transcript = Transcript()
    with ProgressBar("reading") as bar:
        for entry in store.read(session.id):
            bar.update(entry.seq, session.last_seq)
            transcript.add(entry)
    transcript.settle()
    attach_subagents(store, transcript, session.id)
    return transcript


def _select_turns(turns: list[TranscriptTurn], number: int | None) -> list[TranscriptTurn]:
    """Return all turns, or the one with a number. Raises StoreError if there is no such turn."""
    if number is None:
        return turns
    index = number - 1 if number > 0 else len(turns) + number
    if number == 0 or not 0 <= index < len(turns):
        available = f"its turns are 1 to {len(turns)}" if turns else "it has no turns yet"
        raise StoreError(f"the session has no turn {number}; {available}")
    return [turns[index]]


def _redact(transcript: Transcript, turns: list[TranscriptTurn]) -> None:
    """Mask the secrets in turns, and in the terminals that they may show."""
    from rekindle.export.redact_transcript import redact_terminal, redact_turn

    for turn in turns:
        redact_turn(turn)
    for terminal in transcript.terminals.values():
        redact_terminal(terminal)


def _pieces(
    arguments: argparse.Namespace,
    session: Session,
    turns: list[TranscriptTurn],
    transcript: Transcript,
) -> Iterator[Piece]:
    detail = detail_of(arguments)
    yield from heading(session, redact=arguments.redact)
    for turn in turns:
        yield from turn_pieces(turn, detail, transcript.terminals)


def _print(arguments: argparse.Namespace, pieces: Iterator[Piece]) -> None:
    if not is_terminal():
        paper = PlainPrinter()
        for piece in pieces:
            paper.show(piece)
        return
    from rekindle.cli.render.rich_text import make_console, render_pieces

    with _paged_output(arguments) as output:
        console = make_console(file=output.file)
        for renderable in render_pieces(pieces):
            # The terminal wraps lines that are too wide; rich would cut them.
            console.print(renderable, crop=False)


def _paged_output(arguments: argparse.Namespace) -> "PagedOutput":
    from rekindle.cli.pager import PagedOutput

    return PagedOutput(sys.stdout, is_wanted=arguments.pager and not arguments.follow)


# -- raw entries ----------------------------------------------------------------------------


def _print_raw(arguments: argparse.Namespace, store: Store, session: Session) -> None:
    """Print the lines of the entries: unchanged to a pipe, masked and numbered to a terminal."""
    entries = _entries(arguments, store, session)
    if not is_terminal():
        for entry in entries:
            sys.stdout.buffer.write(entry.line + b"\n")
            if arguments.follow:
                sys.stdout.buffer.flush()
        return
    with _paged_output(arguments) as output:
        for entry in entries:
            arrow = "→" if entry.side is Side.CLIENT else "←"
            text = entry.line.decode("utf-8", "replace")
            text = printable(mask_short(text) if arguments.redact else text)
            output.write(f"{entry.seq:6} {arrow} {text}\n")
            if arguments.follow:
                sys.stdout.flush()


def _entries(arguments: argparse.Namespace, store: Store, session: Session) -> Iterator[Entry]:
    after, until = 0, None
    if arguments.turn is not None:
        after, until = _range_of_turn(store, session, arguments.turn)
    if arguments.follow and until is None:
        from rekindle.cli.follow import poll_entries

        return poll_entries(store, session.id, after, lambda: None)
    entries = store.read(session.id, after=after)
    return (entry for entry in entries if until is None or entry.seq < until)


def _range_of_turn(store: Store, session: Session, number: int) -> tuple[int, int | None]:
    """Return the seq before a turn's first entry, and the seq of the next turn's first entry."""
    turns = _read(store, session).turns
    (selected,) = _select_turns(turns, number)
    starts = [turn.items[0].seq for turn in turns if turn.items]
    later = [turn.items[0].seq for turn in turns[selected.number :] if turn.items]
    first = selected.items[0].seq if selected.items else starts[-1]
    return first - 1, later[0] if later else None
