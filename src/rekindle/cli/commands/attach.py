"""Follow a session in use, and answer its permission requests.

The turns are shown as they happen. q, Ctrl-D or Ctrl-C leaves it, and its turn
continues. Without SESSION, it is the one session whose turn is running.

To send prompts, use `rekindle resume`, which shares the session, too.

example:
  rekindle attach
  rekindle attach @1
"""

import argparse
import asyncio
from typing import TYPE_CHECKING

from rekindle.cli.formatting import one_line, title_label
from rekindle.cli.messages import print_note
from rekindle.cli.render.detail import add_detail, detail_of
from rekindle.cli.session_choice import find_existing
from rekindle.cli.store_access import (
    SESSION_HELP,
    add_store_option,
    address_for_reading,
    open_for_reading,
)
from rekindle.errors import HostError, StoreError, UsageError
from rekindle.model import LeaseHolder, Session
from rekindle.store.base import Store

if TYPE_CHECKING:
    from rekindle.transcript.model import TranscriptTurn

_TURNS_SHOWN = 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_store_option(parser)
    parser.add_argument("session", nargs="?", metavar="SESSION", help=SESSION_HELP)
    parser.add_argument(
        "--history",
        type=int,
        default=_TURNS_SHOWN,
        metavar="N",
        help="show the last N turns first (default: %(default)d)",
    )
    add_detail(parser)
    parser.set_defaults(redact=True)


def main(arguments: argparse.Namespace) -> int:
    """Follow the session until the user leaves, or until no process has it."""
    with open_for_reading(arguments.store) as store:
        session = _chosen(arguments, store)
        holder = store.lease_holder(session.id)
        if holder is None:
            return _show_end(arguments, store, session)
        if not holder.socket:
            raise HostError(
                f"process {holder.pid} on {holder.machine} has the session, and cannot share it,"
                " because it runs an earlier version of Rekindle"
            )
        if session.cwd is None:
            raise UsageError(f"the folder of session {one_line(session.id)} is unknown")
        # These imports are slow, so they come after all checks.
        from rekindle.cli.chat.attached import AttachedView
        from rekindle.transcript.reducer import fold

        def find_host() -> LeaseHolder | None:
            return store.lease_holder(session.id)

        def read_turns() -> "list[TranscriptTurn]":
            return fold(store.read(session.id)).turns

        async def follow() -> int:
            view = AttachedView(session, find_host, read_turns, detail_of(arguments))
            return await view.run(holder, max(0, arguments.history))

        return asyncio.run(follow())


def _chosen(arguments: argparse.Namespace, store: Store) -> Session:
    """Return the session that the user names, or the one with a running turn."""
    if arguments.session is not None:
        return find_existing(store, arguments.session, any_project=True)
    from rekindle.runtime.host_requests import turn_states

    address = address_for_reading(arguments.store)
    states = turn_states(address) if address is not None else {}
    # Sessions with a running turn come before sessions that are only open.
    busy = [it for it, state in states.items() if state != "idle"] or list(states)
    if not busy and store.leased_ids():
        raise HostError("the processes that have sessions now do not answer; see `rekindle hosts`")
    if not busy:
        raise StoreError("no process has a session now; `rekindle resume` continues one")
    if len(busy) > 1:
        shown = (f"{one_line(it)} ({title_label(store.session(it))})" for it in sorted(busy))
        raise StoreError(f"{len(busy)} sessions are in use: name one of {', '.join(shown)}")
    return store.session(busy[0])


def _show_end(arguments: argparse.Namespace, store: Store, session: Session) -> int:
    """Show the last turns of a session that no process has any more."""
    from rekindle.cli.render.printer import printer_for
    from rekindle.cli.render.transcript import heading, turn_pieces
    from rekindle.transcript.reducer import fold

    printer, transcript = printer_for(), fold(store.read(session.id))
    for piece in heading(session):
        printer.show(piece)
    shown = max(0, arguments.history)
    for turn in transcript.turns[len(transcript.turns) - shown :] if shown else ():
        for piece in turn_pieces(turn, detail_of(arguments), transcript.terminals):
            printer.show(piece)
    own_id = one_line(session.id)
    print_note(f"no process has the session now; `rekindle resume {own_id}` continues it")
    return 0
