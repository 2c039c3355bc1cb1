"""A turn as it happens: iterate over it, or wait for its end. Knows nothing of the protocol.

What happens is kept until somebody takes it. So a reader may be slow, stop, and go on, and
never holds up the connection; what it has to catch up is no more than the transcript has.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, Generic, TypeVar

from rekindle.client.events import Asked, Event, joined
from rekindle.client.questions import Question
from rekindle.client.values import Item, as_items
from rekindle.core import items
from rekindle.core.items import Role

Json = dict[str, Any]
T = TypeVar("T")


class _Feed(Generic[T]):
    """Things in the order in which they came, for one reader, until the end."""

    def __init__(self, join: Callable[[T, T], T | None] | None = None) -> None:
        self.waiting: deque[T] = deque()
        self._join = join
        self._news = asyncio.Event()
        self._has_ended = False
        self._error: BaseException | None = None

    def put(self, item: T) -> None:
        both = self._join(self.waiting[-1], item) if self._join and self.waiting else None
        if both is None:
            self.waiting.append(item)
        else:
            self.waiting[-1] = both
        self._news.set()

    def end(self, error: BaseException | None) -> None:
        self._has_ended, self._error = True, error
        self._news.set()

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        while not self.waiting:
            if self._error is not None:
                raise self._error
            if self._has_ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self.waiting.popleft()


class Turn:
    """A prompt being answered.

    `async for event in turn` tells what happens; `async for update in turn.updates()` tells it
    as the agent does; `await turn` waits for the end and returns the stop reason. All of them
    raise what ended the turn, if that was an error. If nobody iterates over a turn that somebody
    awaits, or of which somebody takes the updates, questions for permission that are left to its
    reader are rejected.
    """

    def __init__(self, folded: items.Turn, cancel: Callable[[], None]) -> None:
        self.stop_reason: str | None = None
        """Why it ended, once it has: `end_turn`, `cancelled`, `refusal` and so on."""
        self._folded = folded
        self._cancel = cancel
        self._events: _Feed[Event] = _Feed(joined)
        self._raw: list[_Feed[Json]] = []
        self._is_over = asyncio.Event()
        self._error: BaseException | None = None
        self.is_cancelled = False
        self._reader: asyncio.Task[object] | None = None
        """Who iterates over it."""
        self._questions: list[Question] = []
        """Those that the reader is to answer."""
        self._is_awaited = False

    # -- for whoever prompted -----------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._is_over.is_set()

    @property
    def items(self) -> list[Item]:
        """The prompt, and what has come of it so far."""
        return list(as_items([self._folded]))

    @property
    def text(self) -> str:
        """What the agent has said so far: its messages, without thoughts."""
        said = (item for item in self._folded.items if isinstance(item, items.Message))
        # Rekindle tells the user in a message of its own that it helped out.
        own = (it for it in said if it.role is Role.AGENT and "rekindle" not in it.meta)
        return "\n\n".join(message.text for message in own)

    def cancel(self) -> None:
        """Ask the agent to stop. It still tells how that ends: `await` it for that."""
        if not self.is_over:
            self.is_cancelled = True
            self._cancel()

    def updates(self) -> AsyncIterator[Json]:
        """Return the updates from now on, as the agent sends them in its version."""
        feed: _Feed[Json] = _Feed()
        if self.is_over:
            feed.end(self._error)
        self._raw.append(feed)
        return feed

    def __aiter__(self) -> AsyncIterator[Event]:
        self._reader = asyncio.current_task()
        return self._events

    def __await__(self) -> Generator[Any, None, str]:
        return self._end().__await__()

    async def _end(self) -> str:
        self._is_awaited = True
        if self._reader is asyncio.current_task():
            # Whoever waits has left the loop.
            self._reader = None
        if self._is_unread:
            self._drop()
        await self._is_over.wait()
        if self._error is not None:
            raise self._error
        return self.stop_reason or ""

    # -- for the session ----------------------------------------------------------------

    def tell(self, event: Event) -> None:
        """Tell what happens."""
        self._events.put(event)
        if isinstance(event, Asked) and event.is_yours:
            self._questions.append(event.question)
        if self._is_unread:
            self._drop()

    def tell_raw(self, update: Json) -> None:
        """Tell what the agent says."""
        for feed in self._raw:
            feed.put(update)

    def blame(self, error: BaseException) -> None:
        """Let the turn end with this error, whenever it ends."""
        self._error = self._error or error

    def end(self, stop_reason: str | None, error: BaseException | None = None) -> None:
        """Let the turn be over."""
        self.stop_reason = stop_reason
        self._error = self._error or error
        for feed in (self._events, *self._raw):
            feed.end(self._error)
        self._is_over.set()

    @property
    def _is_unread(self) -> bool:
        has_reader = self._reader is not None and not self._reader.done()
        return not has_reader and bool(self._is_awaited or self._raw)

    def _drop(self) -> None:
        self._events.waiting.clear()
        questions, self._questions = self._questions, []
        for question in questions:
            question.reject()
