"""Follow a session that another process uses, and print its events as they happen."""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

from rekindle.cli.formatting import one_line
from rekindle.cli.render.detail import detail_of
from rekindle.cli.render.live import LiveRenderer
from rekindle.cli.render.permission import permission_pieces, permission_title
from rekindle.cli.render.printer import printer_for
from rekindle.cli.render.transcript import Piece, heading, turn_pieces
from rekindle.client.events import (
    Event,
    EventBuilder,
    SurrogateJoiner,
    ToolCallUpdated,
    latest_change,
)
from rekindle.jsonvalue import as_object, as_str, decode_object
from rekindle.model import Entry, Kind, Session
from rekindle.store.base import Store
from rekindle.transcript.model import (
    PlanItem,
    ToolCallItem,
    TranscriptItem,
    TranscriptMessage,
    TranscriptTurn,
)
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.subagents import SubagentItem

# No event reports the writes of another process. One poll takes some microseconds.
_POLL_SECONDS = 0.1
_POLLS_OF_A_PAUSE = 3
_ITEMS_WITH_EVENTS = (TranscriptMessage, ToolCallItem, PlanItem, SubagentItem)
"""Items whose changes are events. All others are printed when they are added."""


def follow(
    arguments: argparse.Namespace,
    store: Store,
    session: Session,
    transcript: Transcript,
    turns: list[TranscriptTurn],
) -> None:
    """Print these turns, and then the events of the session, until the user interrupts."""
    printer, detail = printer_for(), detail_of(arguments)
    on_pause: Callable[[], object] = _do_nothing
    if arguments.redact:
        from rekindle.cli.render.masking import MaskingPrinter

        printer = MaskingPrinter(printer)
        on_pause = printer.release
    live = LiveRenderer(printer, detail, lambda: transcript.terminals)
    for piece in heading(session, redact=arguments.redact):
        printer.show(piece)
    for turn in turns:
        if turn is transcript.turns[-1] and turn.ended_us is None:
            live.begin_turn(turn)
        else:
            for piece in turn_pieces(turn, detail, transcript.terminals):
                printer.show(piece)
    follower = Follower(transcript, live)
    for entry in poll_entries(store, session.id, transcript.last_seq, on_pause):
        follower.add(entry)


def poll_entries(
    store: Store,
    session_id: str,
    after: int,
    on_pause: Callable[[], object],
    *,
    goes_on: Callable[[], bool] = lambda: True,
) -> Iterator[Entry]:
    """Yield the entries of a session after a seq, and then new ones, as long as `goes_on` is true.

    `on_pause` is called when no entry has come for some polls.
    """
    empty_polls = 0
    while goes_on():
        empty_polls += 1
        for entry in store.read(session_id, after=after):
            after = entry.seq
            empty_polls = 0
            yield entry
        if empty_polls == _POLLS_OF_A_PAUSE:
            on_pause()
        time.sleep(_POLL_SECONDS)


def _do_nothing() -> None:
    pass


class Follower:
    """Folds new entries and prints the changes."""

    def __init__(self, transcript: Transcript, live: LiveRenderer) -> None:
        self._transcript = transcript
        self._live = live
        self._seam = SurrogateJoiner()

    def add(self, entry: Entry) -> None:
        """Fold one more entry and print the change."""
        turns = self._transcript.turns
        before = len(turns), self._is_over
        watch = self._watch(entry)
        self._transcript.add(entry)
        if self._transcript.truncations.last_seq == entry.seq:
            count = "1 turn remains" if len(turns) == 1 else f"{len(turns)} turns remain"
            self._live.show(Piece(kind="note", text=f"(the session was rewound; {count})"))
        elif len(turns) > before[0]:
            self._live.begin_turn(turns[-1])
        else:
            self._print_change(entry, watch)
        if turns and self._is_over and not before[1]:
            self._live.end_turn(turns[-1])

    @property
    def _is_over(self) -> bool:
        turns = self._transcript.turns
        return not turns or turns[-1].ended_us is not None

    def _watch(self, entry: Entry) -> EventBuilder | None:
        if entry.kind is not Kind.UPDATE:
            return None
        return EventBuilder(self._transcript, as_object(_params(entry).get("update")))

    def _print_change(self, entry: Entry, watch: EventBuilder | None) -> None:
        if entry.kind is Kind.PERMISSION:
            self._print_permission(entry)
            return
        event: Event | None = watch.build(entry.seq) if watch is not None else None
        event = self._seam.join(event) if event is not None else None
        if event is not None:
            self._live.handle(event)
        item = self._added_item(entry)
        if item is not None and not isinstance(item, _ITEMS_WITH_EVENTS):
            self._live.show_item(item)

    def _added_item(self, entry: Entry) -> TranscriptItem | None:
        items = self._transcript.turns[-1].items if self._transcript.turns else []
        return items[-1] if items and items[-1].seq == entry.seq else None

    def _print_permission(self, entry: Entry) -> None:
        params = _params(entry)
        event = latest_change(self._transcript, entry.seq)
        call = event.tool_call if isinstance(event, ToolCallUpdated) else None
        if event is not None:
            self._live.handle(event)
        self._live.show_permission(call, permission_pieces(params, call))
        about = one_line(permission_title(as_str(params.get("title")) or "", call))
        self._live.show(Piece(kind="note", text=f"(the agent asks for permission: {about})"))


def _params(entry: Entry) -> dict[str, Any]:
    return as_object(as_object(decode_object(entry.line)).get("params"))
