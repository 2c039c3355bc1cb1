"""One prompt to a session, without a chat: the answer is printed, and how it ended returned."""

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Any, Protocol

from rekindle.cli.chat.interrupts import EXIT_CODE, Interrupts
from rekindle.cli.chat.keyboard import Keyboard
from rekindle.cli.chat.permissions import about, ask
from rekindle.cli.chat.target import Place
from rekindle.cli.formatting import print_json, printable
from rekindle.cli.render.detail import FOLDED
from rekindle.cli.render.live import LiveRenderer
from rekindle.cli.render.printer import printer_for
from rekindle.cli.render.transcript import ending_piece
from rekindle.cli.terminal import is_terminal
from rekindle.client import (
    AgentRefused,
    ClientError,
    ClientSession,
    Event,
    MessageChunk,
    PermissionRequest,
    PermissionRequested,
    Turn,
)
from rekindle.export.json import describe_turn
from rekindle.export.labels import HANDOVER, stopped
from rekindle.transcript import model

if TYPE_CHECKING:
    from rekindle.cli.render.screen import ScreenPrinter

_STOPS = {"end_turn": 0, "max_tokens": 3, "max_turn_requests": 4, "refusal": 5, "cancelled": 6}
_OTHER_STOP = 7


class Print(Protocol):
    """Prints an answer, as it comes or at its end."""

    def take(self, event: Event) -> None:
        """See what happens."""
        ...

    def end(self, session: ClientSession, turn: model.TranscriptTurn) -> None:
        """See how it ended."""
        ...


class Errand:
    """Sends one prompt, and sees it through."""

    def __init__(self, place: Place, out: Print, *, is_allowed: bool) -> None:
        self._place = place
        self._out = out
        self._is_allowed = is_allowed
        self._keyboard: Keyboard | None = None
        self._interrupts = Interrupts(self._give_up)

    async def run(self, prompt: str) -> int:
        """Send it; return the exit code. Raises ClientError."""
        with self._interrupts.heeded():
            try:
                async with self._place.connect(_complain) as agent:
                    session = await self._place.open(agent)
                    return await self._see_through(session, prompt)
            except asyncio.CancelledError:
                return EXIT_CODE

    async def _see_through(self, session: ClientSession, prompt: str) -> int:
        turn = session.prompt(prompt)
        try:
            with self._interrupts.cancelling(turn):
                await self._hear(turn)
        except AgentRefused as error:
            raise ClientError(f"the prompt failed: {error.reason}") from error
        finally:
            self._out.end(session, session.transcript.turns[-1])
            await self._place.close(session)
        if self._interrupts.count:
            return EXIT_CODE
        return _STOPS.get(turn.stop_reason or "", _OTHER_STOP)

    async def _hear(self, turn: Turn) -> None:
        async for event in turn:
            if isinstance(event, PermissionRequested):
                await self._answer(event.request)
            else:
                self._out.take(event)

    async def _answer(self, question: PermissionRequest) -> None:
        if question.is_answered:
            return
        if self._is_allowed and question.can_be_allowed:
            question.allow()
        elif self._is_allowed:
            question.reject()
            _complain(f"refused, because no choice allows it: {about(question)}")
        elif is_terminal(sys.stdin) and is_terminal(sys.stderr):
            await self._ask(question)
        else:
            question.reject()
            _complain(f"refused, because nobody said --yes: {about(question)}")

    async def _ask(self, question: PermissionRequest) -> None:
        self._keyboard = self._keyboard or Keyboard()
        live = LiveRenderer(printer_for(sys.stderr), FOLDED, dict)
        with self._keyboard.quiet():
            await ask(question, live, self._keyboard)

    def _give_up(self) -> None:
        if self._keyboard is not None:
            self._keyboard.give_up()


def _complain(words: str) -> None:
    print(f"rekindle: {words}", file=sys.stderr, flush=True)


# -- how the answer is printed --------------------------------------------------------------


def print_of(arguments: argparse.Namespace) -> Print:
    """Return what prints the answer: as JSON, on a terminal with all that happens, or its text."""
    if arguments.json:
        return _Json()
    if not is_terminal():
        return _Text()
    from rekindle.cli.render.screen import screen_for

    return _Pretty(screen_for())


class _Text:
    """The agent's words and nothing else, message by message."""

    def __init__(self) -> None:
        self._message: tuple[str | None] | None = None
        self._is_broken = False

    def take(self, event: Event) -> None:
        """Print what is said. What comes between two messages without ids, parts them."""
        if not isinstance(event, MessageChunk):
            self._is_broken = True
            return
        if "rekindle" in event.meta:
            _complain(HANDOVER)
            return
        is_next = self._message not in {None, (event.message_id,)}
        is_next = is_next or (self._is_broken and event.message_id is None)
        if self._message is not None and is_next:
            sys.stdout.write("\n\n")
        self._message, self._is_broken = (event.message_id,), False
        sys.stdout.write(printable(event.text))
        sys.stdout.flush()

    def end(self, session: ClientSession, turn: model.TranscriptTurn) -> None:
        """End the last line."""
        del session, turn
        if self._message is not None:
            print(flush=True)


class _Json:
    """The whole turn, once it is over."""

    def take(self, event: Event) -> None:
        """Wait for the end."""

    def end(self, session: ClientSession, turn: model.TranscriptTurn) -> None:
        """Print the turn."""
        whole: dict[str, Any] = {"sessionId": session.id, **describe_turn(turn)}
        # Only what happens here is known here, and not how many turns there were before.
        del whole["turn"]
        print_json(whole)


class _Pretty:
    """All that happens, as in the chat."""

    def __init__(self, screen: "ScreenPrinter") -> None:
        self._screen = screen
        self._live = LiveRenderer(screen, FOLDED, dict)
        screen.hint("… (Ctrl-C cancels)")

    def take(self, event: Event) -> None:
        """Print it."""
        self._live.handle(event)

    def end(self, session: ClientSession, turn: model.TranscriptTurn) -> None:
        """Print how it ended, if not as it should."""
        del session
        self._screen.unhint()
        self._live.settle()
        if end := stopped(turn.stop_reason):
            self._live.show(ending_piece(end))
