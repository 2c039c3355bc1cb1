"""The turns of other clients: their state, and their events for a reader.

A client that shares a session receives the turns that other clients prompt. It learns their state
from `state_update`, or, in version 1, from the field `turn` that Rekindle adds to an update.
"""

from collections.abc import AsyncIterator
from typing import Literal, Protocol

from rekindle.acp import methods
from rekindle.acp.update_kinds import SESSION_INFO_UPDATE, STATE_UPDATE
from rekindle.client.events import (
    Event,
    SessionChanged,
    SurrogateJoiner,
    TurnEnded,
    TurnStarted,
    join_chunks,
)
from rekindle.client.rpc import read_error
from rekindle.client.turn import Feed
from rekindle.jsonvalue import Json, as_object, as_str

TurnState = Literal["idle", "running", "requires_action"]

_STATES: dict[str | None, TurnState] = {"idle": "idle", "requires_action": "requires_action"}


class EventSink(Protocol):
    """Receives the events of a turn: of this client's own one, or of those of other clients."""

    is_cancelled: bool
    """Whether this client has cancelled the turn."""

    def add_event(self, event: Event) -> None:
        """Add an event for the reader."""
        ...

    def fail_at_end(self, error: BaseException) -> None:
        """Make the reader raise this error at the end."""
        ...


def reported_state(update: Json) -> Json | None:
    """Return the state of the turn that an update reports, if it does, as version 2 has it."""
    kind = update.get("sessionUpdate")
    if kind == STATE_UPDATE:
        return update
    if kind == SESSION_INFO_UPDATE:
        return turn_in(update)
    return None


def turn_in(value: Json) -> Json | None:
    """Return the state of a turn in the `_meta` of a result or an update of version 1."""
    turn = as_object(as_object(value.get("_meta")).get("rekindle")).get("turn")
    return as_object(turn) or None


class OtherTurns:
    """The turns of other clients in one session. Events are collected from `follow` on."""

    is_cancelled = False

    def __init__(self) -> None:
        self.state: TurnState = "idle"
        self._feed: Feed[Event] | None = None
        self._joiner = SurrogateJoiner()

    @property
    def is_followed(self) -> bool:
        """Whether events are collected."""
        return self._feed is not None

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running."""
        return self.state != "idle"

    def follow(self) -> AsyncIterator[Event]:
        """Return the events. Those of a turn that is running already begin with `TurnStarted`."""
        if self._feed is None:
            self._feed = Feed(join_chunks)
            if self.is_busy:
                self._feed.put(TurnStarted())
        return self._feed

    def note_state(self, report: Json, *, is_own: bool = False) -> bool:
        """Note a reported state; return whether it ends a turn.

        With `is_own`, it is the state of a turn of this client, which has a reader of its own.
        """
        before, self.state = self.state, _STATES.get(as_str(report.get("state")), "running")
        if is_own or before == self.state:
            return False
        if before == "idle":
            self.add_event(TurnStarted())
        if self.state == "idle":
            self._end_turn(report)
        elif before != "idle" or self.state == "requires_action":
            self.add_event(SessionChanged("state"))
        return self.state == "idle"

    def _end_turn(self, report: Json) -> None:
        reason = as_str(report.get("stopReason"))
        error = as_object(report.get("error"))
        raised = read_error(methods.PROMPT, error) if reason == "error" else None
        usage = as_object(report.get("usage")) or None
        self.add_event(TurnEnded(stop_reason=reason, usage=usage, error=raised))

    def add_event(self, event: Event) -> None:
        """Add an event for the reader, if there is one."""
        if self._feed is not None:
            joined = self._joiner.join(event)
            if joined is not None:
                self._feed.put(joined)

    def fail_at_end(self, error: BaseException) -> None:
        """End the events with an error."""
        self.end(error)

    def end(self, error: BaseException | None) -> None:
        """End the events: the session is closed, or its agent is gone."""
        if self._feed is not None:
            self._feed.end(error)
