"""Show a session: what was said, done and planned, turn by turn.

Thoughts and tool calls are folded to a line; --thoughts and --tools unfold them. Longer than the
screen, it is shown by $PAGER. To a pipe it is plain text, without colours.

example:
  rekindle show 3cc4cc56
  rekindle show 3cc4cc56 --last --tools    # the last turn, with what its tools brought
  rekindle show --last --follow            # the last used session, as it happens
"""

import argparse
import sys
from collections.abc import Iterator

from rekindle.cli.choosing import choose
from rekindle.cli.looks import add_detail, detail_of
from rekindle.cli.pieces import Detail, Piece, heading, plain_lines, turn_pieces
from rekindle.cli.reading import add_store_option, note_if_deleted, open_for_reading, stand
from rekindle.cli.words import print_json, printable
from rekindle.core.items import Turn
from rekindle.core.transcript import Transcript, fold
from rekindle.errors import StoreError, UsageError
from rekindle.export.describing import describe, describe_turn
from rekindle.model import Entry, Session, Side
from rekindle.store.base import Store


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_store_option(parser)
    parser.add_argument(
        "session", nargs="?", metavar="SESSION", help="its id, or the beginning of it"
    )
    parser.add_argument("--title", metavar="TEXT", help="or a text that is in its title")
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
    with open_for_reading(arguments.store) as store:
        session = choose(store, arguments.session, last=wants_last, words=arguments.title)
        note_if_deleted(session)
        if arguments.last and not wants_last and arguments.turn is None:
            arguments.turn = -1
        _show(arguments, store, session)
    return 0


def _show(arguments: argparse.Namespace, store: Store, session: Session) -> None:
    if arguments.raw:
        _print_raw(arguments, store, session)
        return
    transcript = fold(store.read(session.id))
    turns = _chosen(transcript.turns, arguments.turn)
    if arguments.json:
        state = stand(store, [session])[session.id]
        conversation = [describe_turn(turn) for turn in turns]
        print_json(describe(session) | {"state": state, "conversation": conversation})
        return
    if arguments.follow:
        from rekindle.cli.following import follow

        follow(arguments, store, session, transcript, turns)
        return
    detail = detail_of(arguments)
    _print(arguments, _pieces(session, turns, detail, transcript))


def _chosen(turns: list[Turn], number: int | None) -> list[Turn]:
    """Return all turns, or the one with that number. Raises StoreError if there is none."""
    if number is None:
        return turns
    place = number - 1 if number > 0 else len(turns) + number
    if number == 0 or not 0 <= place < len(turns):
        there_are = f"its turns are 1 to {len(turns)}" if turns else "it has none yet"
        raise StoreError(f"no turn {number} in this session: {there_are}")
    return [turns[place]]


def _pieces(
    session: Session, turns: list[Turn], detail: Detail, transcript: Transcript
) -> Iterator[Piece]:
    yield from heading(session)
    for turn in turns:
        yield from turn_pieces(turn, detail, transcript.terminals)


def _print(arguments: argparse.Namespace, pieces: Iterator[Piece]) -> None:
    if not sys.stdout.isatty():
        for piece in pieces:
            if piece.kind == "turn":
                print()
            for line in plain_lines(piece):
                print(line)
        return
    from rekindle.cli.pager import Paged
    from rekindle.cli.pretty import make_console, spaced

    with Paged(sys.stdout, is_wanted=arguments.pager) as page:
        console = make_console(file=page.file)
        for renderable in spaced(pieces):
            # What is wider than the screen is for the terminal to wrap, and not to be cut.
            console.print(renderable, crop=False)


# -- as it was on the wire ------------------------------------------------------------------


def _print_raw(arguments: argparse.Namespace, store: Store, session: Session) -> None:
    """Print the entries' lines: to a pipe byte by byte, to a terminal with who said them."""
    entries = _entries(arguments, store, session)
    if not sys.stdout.isatty():
        for entry in entries:
            sys.stdout.buffer.write(entry.line + b"\n")
            if arguments.follow:
                sys.stdout.buffer.flush()
        return
    for entry in entries:
        arrow = "→" if entry.side is Side.CLIENT else "←"
        words = printable(entry.line.decode("utf-8", "replace"))
        print(f"{entry.seq:6} {arrow} {words}", flush=arguments.follow)


def _entries(arguments: argparse.Namespace, store: Store, session: Session) -> Iterator[Entry]:
    after, until = 0, None
    if arguments.turn is not None:
        after, until = _range_of_turn(store, session, arguments.turn)
    if arguments.follow and until is None:
        from rekindle.cli.following import entries_as_they_come

        return entries_as_they_come(store, session.id, after)
    entries = store.read(session.id, after=after)
    return (entry for entry in entries if until is None or entry.seq < until)


def _range_of_turn(store: Store, session: Session, number: int) -> tuple[int, int | None]:
    """Return after which entry a turn begins, and with which one the next turn does."""
    turns = fold(store.read(session.id)).turns
    (chosen,) = _chosen(turns, number)
    starts = [turn.items[0].seq for turn in turns if turn.items]
    later = [turn.items[0].seq for turn in turns[chosen.number :] if turn.items]
    first = chosen.items[0].seq if chosen.items else starts[-1]
    return first - 1, later[0] if later else None
