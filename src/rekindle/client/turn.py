"""A turn while it runs: its events for readers, and its end. Knows nothing of the protocol.

Events are kept until a reader takes them. A reader may be slow, stop and continue, and never
delays the connection. The events that wait are no larger than the transcript.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, Generic, TypeVar

from rekindle.client.events import (
    Event,
    PermissionRequested,
    SurrogateJoiner,
    TurnEnded,
    join_chunks,
)
from rekindle.client.models import Item, PermissionRequest, as_items
from rekindle.jsonvalue import Json
from rekindle.transcript import model
from rekindle.transcript.model import Role

T = TypeVar("T")


class Feed(Generic[T]):
    """An asynchronous queue for one reader, which ends or raises after its last item."""

    def __init__(self, join: Callable[[T, T], T | None] | None = None) -> None:
        """Create a feed. `join` combines a new item with the last unread one if it can."""
        self.unread: deque[T] = deque()
        self._join = join
        self._changed = asyncio.Event()
        self._has_ended = False
        self._error: BaseException | None = None

    def put(self, item: T) -> None:
        """Add an item, or join it with the last one."""
        joined = self._join(self.unread[-1], item) if self._join and self.unread else None
        if joined is None:
            self.unread.append(item)
        else:
            self.unread[-1] = joined
        self._changed.set()

    def end(self, error: BaseException | None) -> None:
        """End the iteration after the last item, with an error if one is given."""
        self._has_ended, self._error = True, error
        self._changed.set()

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        while not self.unread:
            if self._error is not None:
                raise self._error
            if self._has_ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self.unread.popleft()


class TurnStream:
    """The events, updates and end of a turn. The session writes it, and a `Turn` reads it."""

    def __init__(self, transcript_turn: model.TranscriptTurn) -> None:
        self.transcript_turn = transcript_turn
        self.stop_reason: str | None = None
        self.error: BaseException | None = None
        self.is_cancelled = False
        self.accepted = asyncio.Event()
        self.ended = asyncio.Event()
        self.events: Feed[Event] = Feed(join_chunks)
        self._updates: list[Feed[Json]] = []
        self._requests: list[PermissionRequest] = []
        """The permission requests that the reader has to answer."""
        self._reader: asyncio.Task[object] | None = None
        self._is_awaited = False
        self._joiner = SurrogateJoiner()

    # -- for the session ----------------------------------------------------------------

    def add_event(self, event: Event) -> None:
        """Add an event for the reader."""
        joined = self._joiner.join(event)
        if joined is not None:
            self.events.put(joined)
        if isinstance(event, PermissionRequested) and event.needs_answer:
            self._requests.append(event.request)
        self._discard_if_unread()

    def add_update(self, update: Json) -> None:
        """Add an update, as the agent sent it, for the readers of updates."""
        self.accepted.set()
        for feed in self._updates:
            feed.put(update)

    def fail_at_end(self, error: BaseException) -> None:
        """Make the turn end with this error. The first error counts."""
        self.error = self.error or error

    def end(
        self,
        stop_reason: str | None,
        error: BaseException | None = None,
        usage: Json | None = None,
    ) -> None:
        """End the turn: add `TurnEnded`, and finish all readers."""
        self.stop_reason = stop_reason
        self.error = self.error or error
        self.events.put(TurnEnded(stop_reason=stop_reason, usage=usage, error=self.error))
        for feed in (self.events, *self._updates):
            feed.end(self.error)
        self.accepted.set()
        self.ended.set()

    # -- for the turn -------------------------------------------------------------------

    def read_events(self) -> AsyncIterator[Event]:
        """Return the events. The current task becomes their reader."""
        self._reader = asyncio.current_task()
        return self.events

    def read_updates(self) -> AsyncIterator[Json]:
        """Return the updates from now on."""
        feed: Feed[Json] = Feed()
        if self.ended.is_set():
            feed.end(self.error)
        self._updates.append(feed)
        return feed

    async def wait(self) -> str:
        """Wait for the end, and return the stop reason. Raises the error of the turn, if any."""
        self._is_awaited = True
        if self._reader is asyncio.current_task():
            # A task that waits has left its loop over the events.
            self._reader = None
        self._discard_if_unread()
        await self.ended.wait()
        if self.error is not None:
            raise self.error
        return self.stop_reason or ""

    def _discard_if_unread(self) -> None:
        """Discard the events, and reject the open requests, if no task reads the events.

        That is known only when a task awaits the turn or reads the updates. Until then a reader
        may still come.
        """
        has_reader = self._reader is not None and not self._reader.done()
        if has_reader or not (self._is_awaited or self._updates):
            return
        self.events.unread.clear()
        requests, self._requests = self._requests, []
        for request in requests:
            request.reject()


class Turn:
    """The agent's work on one prompt. `ClientSession.prompt` returns one.

    `async for event in turn` yields events; the last one is `TurnEnded`. `async for update in
    turn.updates()` yields the updates as the agent sends them. `await turn` waits for the end and
    returns the stop reason. All three raise the error that ended the turn, if any.

    If a task awaits the turn or reads its updates, and no task iterates over the events, the
    permission requests that are left to the reader are rejected.
    """

    def __init__(self, stream: TurnStream, cancel: Callable[[], None]) -> None:
        self._stream = stream
        self._cancel = cancel

    @property
    def stop_reason(self) -> str | None:
        """The reason for the end: `end_turn`, `cancelled`, `refusal` and so on. None before."""
        return self._stream.stop_reason

    @property
    def is_over(self) -> bool:
        """Whether the turn has ended, for any reason."""
        return self._stream.ended.is_set()

    @property
    def transcript(self) -> model.TranscriptTurn:
        """The turn as a part of the session's transcript."""
        return self._stream.transcript_turn

    @property
    def items(self) -> list[Item]:
        """The prompt and everything that followed so far."""
        return list(as_items([self._stream.transcript_turn]))

    @property
    def text(self) -> str:
        """The agent's messages so far, without thoughts."""
        messages = (
            item
            for item in self._stream.transcript_turn.items
            if isinstance(item, model.TranscriptMessage) and item.role is Role.AGENT
        )
        # Rekindle reports a handover in a message of its own.
        return "\n\n".join(it.text for it in messages if "rekindle" not in it.meta)

    def cancel(self) -> None:
        """Ask the agent to stop. The turn runs until the agent ends it; await it for its end."""
        if not self.is_over and not self._stream.is_cancelled:
            self._stream.is_cancelled = True
            self._cancel()

    async def accepted(self) -> None:
        """Wait until the agent has accepted the prompt.

        In version 2 the agent reports this; in version 1 its first update shows it. Raises the
        error of the turn, if any.
        """
        await self._stream.accepted.wait()
        if self._stream.error is not None:
            raise self._stream.error

    def updates(self) -> AsyncIterator[Json]:
        """Return the updates from now on, as the agent sends them in its version."""
        return self._stream.read_updates()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._stream.read_events()

    def __await__(self) -> Generator[Any, None, str]:
        return self._stream.wait().__await__()
