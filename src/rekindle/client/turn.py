"""A turn as it happens: iterate over it, or wait for its end. Knows nothing of the protocol.

What happens is kept until somebody takes it. So a reader may be slow, stop, and go on, and
never holds up the connection; what it has to catch up is no more than the transcript has.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, Generic, TypeVar

from rekindle.client.events import Asked, Event, joined
from rekindle.client.models import Item, as_items
from rekindle.client.permissions import Question
from rekindle.transcript import model
from rekindle.transcript.model import Role

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


class Course:
    """The course that a turn takes: what happens in it, kept for its readers, and its end."""

    def __init__(self, folded: model.TranscriptTurn) -> None:
        self.folded = folded
        self.stop_reason: str | None = None
        self.error: BaseException | None = None
        self.is_cancelled = False
        self.is_over = asyncio.Event()
        self.events: _Feed[Event] = _Feed(joined)
        self._raw: list[_Feed[Json]] = []
        self._questions: list[Question] = []
        """Those that the reader is to answer."""
        self._reader: asyncio.Task[object] | None = None
        self._is_awaited = False

    # -- what happens -------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        """Tell what happens."""
        self.events.put(event)
        if isinstance(event, Asked) and event.is_yours:
            self._questions.append(event.question)
        self._drop_if_unread()

    def tell_raw(self, update: Json) -> None:
        """Tell what the agent says."""
        for feed in self._raw:
            feed.put(update)

    def blame(self, error: BaseException) -> None:
        """Let the turn end with this error, whenever it ends."""
        self.error = self.error or error

    def end(self, stop_reason: str | None, error: BaseException | None = None) -> None:
        """Let the turn be over."""
        self.stop_reason = stop_reason
        self.error = self.error or error
        for feed in (self.events, *self._raw):
            feed.end(self.error)
        self.is_over.set()

    # -- who cares ----------------------------------------------------------------------

    def read(self) -> AsyncIterator[Event]:
        """Return the events, for the one who asks."""
        self._reader = asyncio.current_task()
        return self.events

    def read_raw(self) -> AsyncIterator[Json]:
        """Return the updates from now on."""
        feed: _Feed[Json] = _Feed()
        if self.is_over.is_set():
            feed.end(self.error)
        self._raw.append(feed)
        return feed

    async def wait(self) -> str:
        """Return the stop reason, once it is over. Raises what ended the turn."""
        self._is_awaited = True
        if self._reader is asyncio.current_task():
            # Whoever waits has left the loop.
            self._reader = None
        self._drop_if_unread()
        await self.is_over.wait()
        if self.error is not None:
            raise self.error
        return self.stop_reason or ""

    def _drop_if_unread(self) -> None:
        """Keep nothing, and let no question wait, if whoever is there does not read."""
        has_reader = self._reader is not None and not self._reader.done()
        if has_reader or not (self._is_awaited or self._raw):
            return
        self.events.waiting.clear()
        questions, self._questions = self._questions, []
        for question in questions:
            question.reject()


class Turn:
    """A prompt being answered.

    `async for event in turn` tells what happens; `async for update in turn.updates()` tells it
    as the agent does; `await turn` waits for the end and returns the stop reason. All of them
    raise what ended the turn, if that was an error. If nobody iterates over a turn that somebody
    awaits, or of which somebody takes the updates, questions for permission that are left to its
    reader are rejected.
    """

    def __init__(self, course: Course, cancel: Callable[[], None]) -> None:
        self._course = course
        self._cancel = cancel

    @property
    def stop_reason(self) -> str | None:
        """Why it ended, once it has: `end_turn`, `cancelled`, `refusal` and so on."""
        return self._course.stop_reason

    @property
    def is_over(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._course.is_over.is_set()

    @property
    def items(self) -> list[Item]:
        """The prompt, and what has come of it so far."""
        return list(as_items([self._course.folded]))

    @property
    def text(self) -> str:
        """What the agent has said so far: its messages, without thoughts."""
        said = (
            item for item in self._course.folded.items if isinstance(item, model.TranscriptMessage)
        )
        # Rekindle tells the user in a message of its own that it helped out.
        own = (it for it in said if it.role is Role.AGENT and "rekindle" not in it.meta)
        return "\n\n".join(message.text for message in own)

    def cancel(self) -> None:
        """Ask the agent to stop, once. It still tells how that ends: `await` it for that."""
        if not self.is_over and not self._course.is_cancelled:
            self._course.is_cancelled = True
            self._cancel()

    def updates(self) -> AsyncIterator[Json]:
        """Return the updates from now on, as the agent sends them in its version."""
        return self._course.read_raw()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._course.read()

    def __await__(self) -> Generator[Any, None, str]:
        return self._course.wait().__await__()
