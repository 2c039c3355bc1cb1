"""A session that another process drives, told as it happens."""

import argparse
import time
from collections.abc import Iterator
from typing import Any

from rekindle.cli.formatting import one_line
from rekindle.cli.render.detail import detail_of
from rekindle.cli.render.live import Live
from rekindle.cli.render.permission import asked_pieces, named
from rekindle.cli.render.printer import paper_of
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
from rekindle.transcript.model import TranscriptTurn
from rekindle.transcript.reducer import Transcript

# Nothing tells of what another process writes; to look costs some microseconds.
_TICK = 0.1


def follow(
    arguments: argparse.Namespace,
    store: Store,
    session: Session,
    transcript: Transcript,
    turns: list[TranscriptTurn],
) -> None:
    """Print these turns, and then what happens in the session, until somebody interrupts."""
    paper, detail = paper_of(), detail_of(arguments)
    live = Live(paper, detail, lambda: transcript.terminals)
    for piece in heading(session):
        paper.show(piece)
    for turn in turns:
        if turn is transcript.turns[-1] and turn.ended_us is None:
            live.begin(turn)
        else:
            for piece in turn_pieces(turn, detail, transcript.terminals):
                paper.show(piece)
    follower = Follower(transcript, live)
    for entry in entries_as_they_come(store, session.id, transcript.last_seq):
        follower.take(entry)


def entries_as_they_come(store: Store, session_id: str, after: int) -> Iterator[Entry]:
    """Yield a session's entries after that one, and go on for ever with those to come."""
    while True:
        for entry in store.read(session_id, after=after):
            after = entry.seq
            yield entry
        time.sleep(_TICK)


class Follower:
    """Folds what is recorded, and prints what that changes."""

    def __init__(self, transcript: Transcript, live: Live) -> None:
        self._transcript = transcript
        self._live = live
        self._seam = SurrogateJoiner()

    def take(self, entry: Entry) -> None:
        """Take one more entry."""
        turns = self._transcript.turns
        before = len(turns), self._is_over
        watch = self._watch(entry)
        self._transcript.add(entry)
        if len(turns) > before[0]:
            self._live.begin(turns[-1])
        else:
            self._tell(entry, watch)
        if self._is_over and not before[1]:
            self._live.end(turns[-1])

    @property
    def _is_over(self) -> bool:
        turns = self._transcript.turns
        return not turns or turns[-1].ended_us is not None

    def _watch(self, entry: Entry) -> EventBuilder | None:
        if entry.kind is not Kind.UPDATE:
            return None
        return EventBuilder(self._transcript, as_object(_params(entry).get("update")))

    def _tell(self, entry: Entry, watch: EventBuilder | None) -> None:
        event: Event | None = None
        if watch is not None:
            event = watch.build(entry.seq)
            event = self._seam.join(event) if event is not None else None
        elif entry.kind is Kind.PERMISSION:
            self._ask(entry)
            return
        elif entry.kind in {Kind.HANDOVER, Kind.REMINDER, Kind.GAP}:
            self._live.catch_up(self._transcript.turns[-1].items[-1])
        if event is not None:
            self._live.take(event)

    def _ask(self, entry: Entry) -> None:
        params = _params(entry)
        event = latest_change(self._transcript, entry.seq)
        call = event.tool_call if isinstance(event, ToolCallUpdated) else None
        if event is not None:
            self._live.take(event)
        self._live.ask(call, asked_pieces(params, call))
        about = one_line(named(as_str(params.get("title")) or "", call))
        self._live.show(Piece(kind="note", words=f"(the agent asks for permission: {about})"))


def _params(entry: Entry) -> dict[str, Any]:
    return as_object(as_object(decode_object(entry.line)).get("params"))
