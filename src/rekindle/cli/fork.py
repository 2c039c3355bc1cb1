"""Make a session that begins with another's record, and print its id.

The other one stays as it is, and may be in use meanwhile. Open the fork in an editor: the agent
is told the record with the first prompt.

example:
  rekindle fork 3f2a
  rekindle fork 3f2a --until 4
"""

import argparse

from rekindle.cli.changing import apply, find_there, now_us, open_for_changing
from rekindle.cli.reading import add_session, add_store_option
from rekindle.cli.words import one_line, several
from rekindle.errors import UsageError
from rekindle.model import Opened, Session
from rekindle.store.base import Store


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    add_store_option(parser)
    parser.add_argument(
        "--until", type=int, metavar="TURN", help="begin with the record up to this turn's end"
    )
    add_session(parser)


def main(arguments: argparse.Namespace) -> int:
    """Make the fork."""
    with open_for_changing(arguments.store) as store:
        fork_id = fork(store, arguments.session, arguments.until)
    print(fork_id)
    return 0


def fork(store: Store, named: str, turn: int | None = None) -> str:
    """Make a fork of a session up to a turn, or of all of it; return its id. Raises UsageError."""
    from uuid import uuid4

    from rekindle.core.forking import forked
    from rekindle.core.transcript import Transcript, fold

    (session,) = find_there(store, [named])
    transcript: Transcript = fold(store.read(session.id))
    starts = [turn.items[0].seq for turn in transcript.turns if turn.items]
    # Folded and copied alike, even if the session goes on meanwhile.
    until = _end_of(session, turn, starts, transcript.last_seq)
    fork_id, at_us = str(uuid4()), now_us()
    folders = Opened(session_id=fork_id, at_us=at_us, directories=session.directories)
    apply(store, [*forked(fork_id, at_us, session, transcript, until), folders])
    return fork_id


def _end_of(session: Session, turn: int | None, starts: list[int], last_seq: int) -> int:
    """Return the last entry of a turn, where that is asked for. Raises UsageError."""
    if turn is None:
        return last_seq
    if not 1 <= turn <= len(starts):
        has = several(len(starts), "turn")
        raise UsageError(f"session {one_line(session.id)} has {has}: there is no turn {turn}")
    return starts[turn] - 1 if turn < len(starts) else last_seq
