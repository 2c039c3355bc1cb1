"""Show the turns of other clients of a session."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import takewhile

from rekindle.cli.render.live import LiveRenderer
from rekindle.cli.render.transcript import ending_piece, turn_heading
from rekindle.client import (
    AgentRefused,
    ClientError,
    ClientSession,
    Event,
    PermissionRequest,
    PermissionRequested,
    TurnEnded,
    TurnStarted,
    UserMessageChunk,
)
from rekindle.export.labels import failure, stopped
from rekindle.transcript.model import Role, TranscriptItem, TranscriptMessage, TranscriptTurn


class FollowedTurns:
    """Prints the events that `ClientSession.follow` yields.

    `turns_shown` is the number of turns of the session's transcript that are printed already. Set
    it after a turn of this client. Without `has_headings`, only the prompt begins a turn.
    """

    def __init__(
        self,
        session: ClientSession,
        live: LiveRenderer,
        *,
        turns_shown: int,
        has_headings: bool = True,
    ) -> None:
        self._session = session
        self._live = live
        self.turns_shown = turns_shown
        self._has_headings = has_headings
        self._has_new_prompt = False
        """Whether a prompt has come that is not printed yet: more of it may follow."""

    def show(self, event: Event) -> None:
        """Print an event."""
        if isinstance(event, UserMessageChunk):
            self._has_new_prompt = True
            return
        self._show_prompt()
        match event:
            case TurnStarted():
                pass
            case TurnEnded():
                self._end_turn(event)
            case _:
                self._live.handle(event)

    def _show_prompt(self) -> None:
        """Print a prompt that has come. It begins the next turn of the transcript."""
        turns = self._session.transcript.turns
        if not self._has_new_prompt or len(turns) <= self.turns_shown:
            return
        self._has_new_prompt = False
        turn = turns[self.turns_shown]
        self.turns_shown += 1
        if self._has_headings:
            self._live.show(turn_heading(turn))
        # The events of the other items follow.
        for item in takewhile(_is_of_user, turn.items):
            self._live.show_item(item)

    def _end_turn(self, event: TurnEnded) -> None:
        self._live.settle()
        end = stopped(event.stop_reason)
        if event.error is not None:
            error = event.error
            end = failure(error.reason if isinstance(error, AgentRefused) else str(error))
        if end is not None:
            self._live.show(ending_piece(end))


def _is_of_user(item: TranscriptItem) -> bool:
    return isinstance(item, TranscriptMessage) and item.role is Role.USER


class OtherWindows:
    """The turns of other clients in a chat: wait for the next one, and show it."""

    def __init__(self, session: ClientSession, live: LiveRenderer, *, turns_shown: int) -> None:
        self.session = session
        self._followed = FollowedTurns(session, live, turns_shown=turns_shown, has_headings=False)
        self._events = session.follow()
        self._first: Event | None = None
        """The event with which the turn has begun that is not shown yet."""

    def own_turn_ended(self, own: TranscriptTurn) -> None:
        """Note that a turn of the chat itself is printed. The next one may have begun already."""
        turns = self.session.transcript.turns
        is_recorded = any(it is own for it in turns)
        self._followed.turns_shown = own.number if is_recorded else len(turns)

    async def wait_for_turn(self) -> None:
        """Return when another client has started a turn, or when the agent asks for permission."""
        while self._first is None:
            event = await self._next()
            if event is None:
                # The session is closed, which its next use reports.
                await asyncio.Event().wait()
            elif isinstance(event, UserMessageChunk | TurnStarted | PermissionRequested):
                self._first = event

    async def show_turn(self, ask: Callable[[PermissionRequest], Awaitable[None]]) -> None:
        """Print a turn until its end. `ask` answers a permission request, or leaves it open."""
        event, self._first = self._first, None
        event = event or await self._next()
        while event is not None:
            self._followed.show(event)
            if isinstance(event, PermissionRequested) and event.needs_answer:
                await ask(event.request)
            if isinstance(event, TurnEnded) or self.session.state == "idle":
                return
            event = await self._next()

    async def _next(self) -> Event | None:
        """Return the next event; None if there will be none."""
        try:
            return await anext(self._events)
        except (StopAsyncIteration, ClientError):
            return None
