"""Follow a session that another process has, and answer its permission requests in the terminal.

The session is not occupied: a key leaves it, and the turn continues. If the process ends, the view
follows the process that has taken the session over.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, nullcontext, suppress

from rekindle.cli.chat.ask_permission import choose_answer
from rekindle.cli.chat.followed import FollowedTurns
from rekindle.cli.chat.interrupts import Interrupts
from rekindle.cli.chat.keyboard import Keyboard
from rekindle.cli.formatting import one_line
from rekindle.cli.messages import print_note
from rekindle.cli.render.detail import Detail
from rekindle.cli.render.live import LiveRenderer
from rekindle.cli.render.printer import printer_for
from rekindle.cli.render.screen import screen_for
from rekindle.cli.render.transcript import Piece, heading, turn_pieces
from rekindle.cli.terminal import is_terminal
from rekindle.client import (
    AgentGone,
    AgentRefused,
    ClientError,
    ClientSession,
    Event,
    HostError,
    PermissionRequested,
    SessionChanged,
    connect_to_host,
)
from rekindle.model import LeaseHolder, Session
from rekindle.transcript.model import TranscriptTurn

_LEAVE_KEYS = "q\x04"
"""q and Ctrl-D."""
_WAITING = "(the agent waits for an answer)"
_NEXT_HOST_TIMEOUT = 2.0
"""Another client of the session takes it over within this time, if there is one."""
_POLL_SECONDS = 0.1

FindHost = Callable[[], LeaseHolder | None]
"""Returns the process that has the session now, if any."""
ReadTurns = Callable[[], list[TranscriptTurn]]
"""Returns the turns of the session as they are recorded."""


class AttachedView:
    """The view of one session, from its first connection to the last."""

    def __init__(
        self, session: Session, find_host: FindHost, read_turns: ReadTurns, detail: Detail
    ) -> None:
        self._recorded = session
        self._find_host = find_host
        self._read_turns = read_turns
        self._detail = detail
        self._keyboard = Keyboard() if is_terminal(sys.stdin) and is_terminal() else None
        self._screen = screen_for() if self._keyboard is not None else None
        self._session: ClientSession | None = None
        self._live = LiveRenderer(
            self._screen or printer_for(),
            detail,
            lambda: self._session.transcript.terminals if self._session is not None else {},
            pin_plan=self._screen.pin_plan if self._screen is not None else None,
        )
        self._turns_shown = 0
        """The number of turns that are printed."""
        self._keys = asyncio.Lock()
        """Held by the reader of the keyboard."""
        self._is_asking = False

    async def run(self, holder: LeaseHolder, turns_shown: int) -> int:
        """Show the last turns, then follow until the user leaves or no process has the session.

        Return the exit code. Raises HostError, ClientError.
        """
        quiet = self._keyboard.quiet() if self._keyboard is not None else nullcontext()
        interrupts = Interrupts(lambda: None)
        with quiet, interrupts.handled():
            try:
                for piece in heading(self._recorded):
                    self._live.show(piece)
                await self._follow_hosts(holder, turns_shown)
            except asyncio.CancelledError:
                self._report_left()
            finally:
                self._live.settle()
        return 0

    async def _follow_hosts(self, holder: LeaseHolder, turns_shown: int) -> None:
        """Follow the session at its host, and then at the next one."""
        hint = "q or Ctrl-C leaves; the session continues without you"
        while True:
            try:
                async with AsyncExitStack() as stack:
                    session = await self._open(stack, holder)
                    events = session.follow()
                    self._show_history(session, turns_shown)
                    if self._keyboard is None and session.state == "requires_action":
                        self._show_note(_WAITING)
                    if hint and self._keyboard is not None:
                        self._show_note(hint)
                        # Once: after a change of the host, it would split the agent's text.
                        hint = ""
                    await self._follow(session, events)
            except AgentGone:
                self._live.settle()
            else:
                self._report_left()
                return
            following = await self._next_host(holder)
            if following is None:
                self._report_end(holder)
                return
            text = f"process {holder.pid} has ended; process {following.pid} has the session now"
            self._show_note(text)
            holder, turns_shown = following, 0

    async def _open(self, stack: AsyncExitStack, holder: LeaseHolder) -> ClientSession:
        connecting = connect_to_host(holder.socket)
        agent = await stack.enter_async_context(connecting)
        role = "approver" if self._keyboard is not None else "observer"
        try:
            session = await agent.load(self._recorded.id, str(self._recorded.cwd), role=role)
        except AgentRefused as error:
            raise ClientError(error.reason) from error
        self._session = session
        return session

    async def _next_host(self, former: LeaseHolder) -> LeaseHolder | None:
        """Return the process that takes the session over, if one does soon."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_NEXT_HOST_TIMEOUT):
                # No event reports a change of the lease.
                while (holder := self._find_host()) is None or holder.token == former.token:  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_SECONDS)
                return holder
        return None

    # -- what is shown ------------------------------------------------------------------

    def _show_history(self, session: ClientSession, count: int) -> None:
        turns = session.transcript.turns
        # A replay has no times.
        for turn, recorded in zip(turns, self._read_turns(), strict=False):
            turn.at_us = recorded.at_us
            turn.ended_us = recorded.ended_us if turn.ended_us is not None else None
        # After a change of the host, the turns before are on the screen already.
        first = self._turns_shown or max(0, len(turns) - count)
        for turn in turns[first:]:
            if turn is turns[-1] and session.state != "idle":
                self._live.begin_turn(turn)
            else:
                for piece in turn_pieces(turn, self._detail, session.transcript.terminals):
                    self._live.show(piece)
        self._turns_shown = len(turns)

    def _show_note(self, text: str) -> None:
        self._live.show(Piece(kind="note", text=text))

    # -- events -------------------------------------------------------------------------

    async def _follow(self, session: ClientSession, events: AsyncIterator[Event]) -> None:
        """Show the events until the user leaves. Raises AgentGone when the host has ended."""
        following = asyncio.ensure_future(self._show_events(session, events))
        tasks: set[asyncio.Future[None]] = {following}
        if self._keyboard is not None:
            tasks.add(asyncio.ensure_future(self._wait_for_leave_key(self._keyboard)))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait_for_leave_key(self, keyboard: Keyboard) -> None:
        while True:
            async with self._keys:
                pressed = await keyboard.read_key(
                    _LEAVE_KEYS, lambda: self._is_asking, at_once=True
                )
            if pressed is not None or not self._is_asking:
                # A key, or the end of input.
                return
            # The question takes the lock first.
            await asyncio.sleep(0)

    async def _show_events(self, session: ClientSession, events: AsyncIterator[Event]) -> None:
        followed = FollowedTurns(session, self._live, turns_shown=self._turns_shown)
        async for event in events:
            followed.show(event)
            self._turns_shown = followed.turns_shown
            match event:
                case PermissionRequested(needs_answer=True) if self._keyboard is not None:
                    if not await self._ask(self._keyboard, event):
                        return
                case SessionChanged("state") if self._keyboard is None:
                    if session.state == "requires_action":
                        self._show_note(_WAITING)
                case _:
                    pass

    async def _ask(self, keyboard: Keyboard, event: PermissionRequested) -> bool:
        """Ask the user; return whether to continue. A user who leaves answers nothing."""
        request = event.request
        self._is_asking = True
        keyboard.stop_waiting()
        hidden = self._screen.without_pins() if self._screen is not None else nullcontext()
        try:
            async with self._keys:
                with hidden:
                    choice = await choose_answer(
                        request, self._live, keyboard, leave_keys=_LEAVE_KEYS
                    )
        finally:
            self._is_asking = False
        if choice is not None:
            request.choose(choice)
        elif request.is_answered:
            self._show_note("(answered elsewhere, or not needed any more)")
        return choice is not None or request.is_answered

    # -- the end ------------------------------------------------------------------------

    def _report_left(self) -> None:
        session = self._session
        is_running = session is not None and session.state != "idle"
        if is_running:
            self._live.settle()
            print_note("the turn continues; `rekindle attach` shows it again")

    def _report_end(self, holder: LeaseHolder) -> None:
        session_id = one_line(self._recorded.id)
        remedy = f"`rekindle resume {session_id}` continues the session"
        if self._session is not None and self._session.state != "idle":
            text = f"process {holder.pid} has ended in the middle of the turn; {remedy}"
            raise HostError(text)
        print_note(f"process {holder.pid} has ended; {remedy}")
