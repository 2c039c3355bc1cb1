"""One prompt to a session without a chat: print the answer, return the exit code."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from rekindle.cli.chat.ask_permission import ask_permission, short_description
from rekindle.cli.chat.interrupts import EXIT_CODE, Interrupts
from rekindle.cli.chat.keyboard import Keyboard
from rekindle.cli.chat.target import ChatTarget
from rekindle.cli.formatting import one_line, print_json, printable
from rekindle.cli.messages import print_note, print_warning
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
from rekindle.export.labels import stopped
from rekindle.runtime.host_requests import host_with
from rekindle.transcript import model
from rekindle.transcript.model import handover_remark, read_handover_reason

if TYPE_CHECKING:
    from rekindle.cli.render.screen import ScreenPrinter

_EXIT_CODES = {"end_turn": 0, "max_tokens": 3, "max_turn_requests": 4, "refusal": 5, "cancelled": 6}
_OTHER_EXIT_CODE = 7


def exit_code_of(stop_reason: str | None) -> int:
    """Return the exit code for the stop reason of a turn."""
    return _EXIT_CODES.get(stop_reason or "", _OTHER_EXIT_CODE)


class AnswerPrinter(Protocol):
    """Prints an answer, while it streams or at its end."""

    def take(self, event: Event) -> None:
        """Handle an event of the turn."""
        ...

    def working(self) -> AbstractContextManager[None]:
        """Show that the agent works."""
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Leave the terminal to a question or a notice."""
        ...

    def end(self, session: ClientSession, turn: model.TranscriptTurn) -> None:
        """Handle the end of the turn."""
        ...


class PromptRun:
    """Sends one prompt, and answers the permission requests of its turn."""

    def __init__(self, target: ChatTarget, printer: AnswerPrinter, *, allows_all: bool) -> None:
        self._target = target
        self._printer = printer
        self._allows_all = allows_all
        self._keyboard: Keyboard | None = None
        self._interrupts = Interrupts(self._stop_waiting)

    async def run(self, prompt: str) -> int:
        """Send the prompt; return the exit code. Raises ClientError."""
        with self._interrupts.handled(), self._printer.working():
            try:
                async with self._target.connect(self._report_notice) as agent:
                    session = await self._target.open(agent)
                    if self._target.session is None:
                        self._report(print_note, f"new session {one_line(session.id)}")
                    self._report_wait(session)
                    return await self._run_turn(session, prompt)
            except asyncio.CancelledError:
                return EXIT_CODE

    async def start(self, prompt: str) -> int:
        """Send the prompt, and leave the turn to its host; return the exit code.

        Print the id of the session. Raises ClientError.
        """
        with self._interrupts.handled(), self._printer.working():
            try:
                async with self._target.connect(self._report_notice, detach=True) as agent:
                    session = await self._target.open(agent)
                    self._report_wait(session)
                    turn = session.prompt(prompt)
                    with self._interrupts.cancelling(turn):
                        await turn.accepted()
                    if not self._interrupts.count:
                        self._report_host(session)
            except AgentRefused as error:
                raise ClientError(f"the prompt failed: {error.reason}") from error
            except asyncio.CancelledError:
                return EXIT_CODE
        if self._interrupts.count:
            return EXIT_CODE
        print(one_line(session.id))
        return 0

    def _report_wait(self, session: ClientSession) -> None:
        """Inform the user that the prompt waits."""
        if session.state != "idle":
            self._report(print_note, "the prompt waits for the end of the running turn")

    def _report_host(self, session: ClientSession) -> None:
        """Warn the user if the turn ends together with the window that has the session."""
        if not self._target.is_shared:
            return
        host = host_with(self._target.store, session.id)
        if host is not None and not (host.status or {}).get("outlivesClient"):
            text = f"process {host.pid} runs the turn, and cancels it when its window is closed"
            self._report(print_note, text)

    async def _run_turn(self, session: ClientSession, prompt: str) -> int:
        turn = session.prompt(prompt)
        try:
            with self._interrupts.cancelling(turn):
                await self._read_events(turn)
        except AgentRefused as error:
            raise ClientError(f"the prompt failed: {error.reason}") from error
        finally:
            self._printer.end(session, turn.transcript)
            await self._target.close(session)
        if self._interrupts.count:
            return EXIT_CODE
        return exit_code_of(turn.stop_reason)

    async def _read_events(self, turn: Turn) -> None:
        async for event in turn:
            if isinstance(event, PermissionRequested):
                await self._answer(event.request)
            else:
                self._printer.take(event)

    async def _answer(self, question: PermissionRequest) -> None:
        if question.is_answered:
            return
        if self._allows_all and question.can_be_allowed:
            question.allow()
        elif self._allows_all:
            self._refuse(question, "no choice allows it")
        elif is_terminal(sys.stdin) and is_terminal(sys.stderr):
            await self._ask(question)
        else:
            self._refuse(question, "--yes was not given")

    def _refuse(self, question: PermissionRequest, reason: str) -> None:
        question.reject()
        self._report(print_warning, f"refused, because {reason}: {short_description(question)}")

    async def _ask(self, question: PermissionRequest) -> None:
        self._keyboard = self._keyboard or Keyboard()
        live = LiveRenderer(printer_for(sys.stderr), FOLDED, dict)
        with self._keyboard.quiet(), self._printer.paused():
            await ask_permission(question, live, self._keyboard)

    def _report_notice(self, notice: str) -> None:
        """Print a notice of `rekindle run`, which may begin with its kind."""
        self._report(print_warning, notice.removeprefix("warning: "))

    def _report(self, print_message: Callable[[str], None], text: str) -> None:
        with self._printer.paused():
            print_message(text)

    def _stop_waiting(self) -> None:
        if self._keyboard is not None:
            self._keyboard.stop_waiting()


# -- printing the answer --------------------------------------------------------------------


def answer_printer(arguments: argparse.Namespace) -> AnswerPrinter:
    """Return the printer: JSON, all events on a terminal, or only the text of messages."""
    if arguments.json:
        return _JsonPrinter()
    if not is_terminal():
        return _TextPrinter()
    from rekindle.cli.render.screen import screen_for

    return _ScreenPrinter(screen_for())


class _StillPrinter:
    """Shows nothing while the agent works."""

    @staticmethod
    def working() -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    @staticmethod
    def paused() -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()


class _TextPrinter(_StillPrinter):
    """Prints the text of the agent's messages only."""

    def __init__(self) -> None:
        self._message: tuple[str | None] | None = None
        """The id of the current message, which may be None."""
        self._is_interrupted = False

    def take(self, event: Event) -> None:
        """Print a chunk. Chunks without ids belong to one message until another event comes."""
        if not isinstance(event, MessageChunk):
            self._is_interrupted = True
            return
        if "rekindle" in event.meta:
            print_note(handover_remark(read_handover_reason(event.meta)))
            return
        is_next = self._message not in {None, (event.message_id,)}
        is_next = is_next or (self._is_interrupted and event.message_id is None)
        if self._message is not None and is_next:
            sys.stdout.write("\n\n")
        self._message, self._is_interrupted = (event.message_id,), False
        sys.stdout.write(printable(event.text))
        sys.stdout.flush()

    def end(self, session: ClientSession, turn: model.TranscriptTurn) -> None:
        """Print the end of the last line."""
        del session, turn
        if self._message is not None:
            print(flush=True)


class _JsonPrinter(_StillPrinter):
    """Prints the whole turn at its end."""

    def take(self, event: Event) -> None:
        """Do nothing: the transcript has the event."""

    def end(self, session: ClientSession, turn: model.TranscriptTurn) -> None:
        """Print the turn."""
        described: dict[str, Any] = {"sessionId": session.id, **describe_turn(turn)}
        # The transcript has only this turn, so its number would be wrong.
        del described["turn"]
        print_json(described)


class _ScreenPrinter:
    """Prints all events, like the chat."""

    def __init__(self, screen: "ScreenPrinter") -> None:
        # `answer_printer` has imported the module already.
        from rekindle.cli.chat.working_sign import WorkingSign

        self._screen = screen
        self._live = LiveRenderer(screen, FOLDED, dict, pin_plan=screen.pin_plan)
        self._sign = WorkingSign(screen)

    @contextmanager
    def working(self) -> Generator[None]:
        """Show a moving sign. The loop must run."""
        self._sign.show("working", "(Ctrl-C cancels)")
        try:
            yield
        finally:
            self._sign.remove()

    def take(self, event: Event) -> None:
        """Print an event."""
        self._live.handle(event)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Hide the sign and the plan, because questions and notices are printed on stderr."""
        # The line of a tool call is not the last one any more, and must not be replaced.
        self._live.pause()
        with self._screen.without_pins():
            yield

    def end(self, session: ClientSession, turn: model.TranscriptTurn) -> None:
        """Print the stop reason, unless the turn ended normally."""
        del session
        self._sign.remove()
        self._live.settle()
        if end := stopped(turn.stop_reason):
            self._live.show(ending_piece(end))
