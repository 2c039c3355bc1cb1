"""Show a session: what was said, done and planned, turn by turn.

Thoughts and tool calls are folded to a line, below which are the changes of files; --thoughts and
--tools unfold them. What is longer than the screen goes to $PAGER. In a pipe it is plain text,
without colours.

example:
  rekindle show 3cc4cc56
  rekindle show 3cc4cc56 --last --tools    # the last turn, with the output of its tools
  rekindle show --last --follow            # the last used session, as it happens
"""

import argparse
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rekindle.cli.arguments import nonempty_text
from rekindle.cli.formatting import print_json, printable
from rekindle.cli.progress import ProgressBar
from rekindle.cli.render.detail import Detail, add_detail, detail_of
from rekindle.cli.render.printer import PlainPrinter
from rekindle.cli.render.transcript import Piece, heading, turn_pieces
from rekindle.cli.session_choice import check_session_choice, choose_session
from rekindle.cli.store_access import (
    add_store_option,
    note_if_deleted,
    open_for_reading,
    statuses_of,
)
from rekindle.cli.terminal import is_terminal
from rekindle.errors import StoreError, UsageError
from rekindle.export.description import describe
from rekindle.export.json import describe_turn
from rekindle.model import Entry, Session, Side
from rekindle.store.base import Store
from rekindle.transcript.model import TranscriptTurn
from rekindle.transcript.reducer import Transcript

if TYPE_CHECKING:
    from rekindle.cli.pager import PagedOutput


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_store_option(parser)
    parser.add_argument(
        "session", nargs="?", metavar="SESSION", help="its id, or the beginning of it"
    )
    parser.add_argument(
        "--title", type=nonempty_text, metavar="TEXT", help="or a text that is in its title"
    )
    parser.add_argument(
        "--turn", type=int, metavar="N", help="only turn N; -1 is the last, -2 the one before"
    )
    parser.add_argument(
        "--last", action="store_true", help="only the last turn; without SESSION: the last session"
    )
    add_detail(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--raw", action="store_true", help="the entries as they were on the wire")
    how.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--follow", action="store_true", help="go on with what happens, until ^C")
    parser.add_argument("--no-pager", dest="pager", action="store_false", help="never page")


def main(arguments: argparse.Namespace) -> int:
    """Print the session."""
    if arguments.follow and arguments.json:
        raise UsageError("--follow tells things one by one: leave --json out, or take --raw")
    wants_last = arguments.last and arguments.session is None and arguments.title is None
    check_session_choice(arguments.session, last=wants_last, title=arguments.title)
    with open_for_reading(arguments.store) as store:
        session = choose_session(store, arguments.session, last=wants_last, title=arguments.title)
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
    detail = detail_of(arguments)
    _print(arguments, _pieces(session, turns, detail, transcript))


def _read(store: Store, session: Session) -> Transcript:
    transcript = Transcript()
    with ProgressBar("reading") as bar:
        for entry in store.read(session.id):
            bar.update(entry.seq, session.last_seq)
            transcript.add(entry)
    transcript.settle()
    return transcript


def _select_turns(turns: list[TranscriptTurn], number: int | None) -> list[TranscriptTurn]:
    """Return all turns, or the one with a number. Raises StoreError if there is no such turn."""
    if number is None:
        return turns
    index = number - 1 if number > 0 else len(turns) + number
    if number == 0 or not 0 <= index < len(turns):
        available = f"its turns are 1 to {len(turns)}" if turns else "it has none yet"
        raise StoreError(f"no turn {number} in this session: {available}")
    return [turns[index]]


def _pieces(
    session: Session, turns: list[TranscriptTurn], detail: Detail, transcript: Transcript
) -> Iterator[Piece]:
    yield from heading(session)
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
    """Print the lines of the entries: unchanged to a pipe, with seq and sender to a terminal."""
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
            text = printable(entry.line.decode("utf-8", "replace"))
            output.write(f"{entry.seq:6} {arrow} {text}\n")
            if arguments.follow:
                sys.stdout.flush()


def _entries(arguments: argparse.Namespace, store: Store, session: Session) -> Iterator[Entry]:
    after, until = 0, None
    if arguments.turn is not None:
        after, until = _range_of_turn(store, session, arguments.turn)
    if arguments.follow and until is None:
        from rekindle.cli.follow import poll_entries

        return poll_entries(store, session.id, after)
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
