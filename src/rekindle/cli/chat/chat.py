"""A chat in the terminal: prompts are typed, answers stream in, questions are asked.

Ctrl-C while the agent is at work cancels the turn, a second one leaves. At the prompt it clears
what was typed; on an empty line, two of them leave, and so do Ctrl-D and /quit.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from rekindle.cli.chat.interrupts import EXIT_CODE, Interrupts
from rekindle.cli.chat.keyboard import Keyboard
from rekindle.cli.chat.permissions import ask
from rekindle.cli.chat.target import Place
from rekindle.cli.formatting import one_line, short_path
from rekindle.cli.render.detail import Detail
from rekindle.cli.render.live import LiveRenderer
from rekindle.cli.render.screen import ScreenPrinter
from rekindle.cli.render.transcript import (
    Piece,
    ending_piece,
    heading,
    turn_pieces,
)
from rekindle.client import (
    Agent,
    AgentGone,
    AgentRefused,
    ClientSession,
    PermissionRequested,
    SlashCommand,
)
from rekindle.client.session_record import commands_in
from rekindle.export.labels import failure, stopped
from rekindle.transcript.model import Role, Terminals
from rekindle.transcript.reducer import Transcript

if TYPE_CHECKING:
    from rekindle.cli.chat.input_line import Line

_OWN_COMMANDS = (
    SlashCommand(name="help", description="what can be typed here"),
    SlashCommand(name="quit", description="leave; `rekindle resume` goes on later"),
)
_HELP = """\
Enter sends; Alt-Enter, or \\ before Enter, begins a new line; ↑ brings earlier prompts back.
Ctrl-C cancels the turn, and once more leaves. Ctrl-D or /quit leaves."""


class Chat:
    """One chat, from the start of the agent to its end."""

    def __init__(
        self, place: Place, paper: ScreenPrinter, detail: Detail, record: Transcript
    ) -> None:
        self._place = place
        self._paper = paper
        self._detail = detail
        self._record = record
        """What was said before."""
        self._keyboard = Keyboard()
        self._live = LiveRenderer(paper, detail, self._terminals)
        self._session: ClientSession | None = None
        self._interrupts = Interrupts(self._tell_of_cancel)
        self._presses = 0
        """How often Ctrl-C was pressed where nothing was typed."""
        self._is_typing = False
        self._notes: list[str] = []
        """What is to be told once nobody types."""

    async def run(self, history: int) -> int:
        """Chat, after showing that many of the last turns; return the exit code."""
        # Quiet from beginning to end: what is typed while the mode changes would be lost.
        with self._keyboard.quiet(), self._interrupts.heeded():
            try:
                async with AsyncExitStack() as stack:
                    connecting = self._place.connect(self._tell)
                    starting = asyncio.ensure_future(stack.enter_async_context(connecting))
                    # While the agent starts there is time to read.
                    await asyncio.sleep(0)
                    self._introduce(history)
                    self._paper.hint("starting the agent …")
                    return await self._converse(await starting)
            except asyncio.CancelledError:
                return EXIT_CODE
            finally:
                self._paper.unhint()

    # -- before the first prompt --------------------------------------------------------

    def _introduce(self, history: int) -> None:
        for piece in self._introduction(history):
            self._paper.show(piece)

    def _introduction(self, history: int) -> Iterator[Piece]:
        if self._place.session is None:
            program = one_line(" ".join(self._place.command))
            yield Piece(kind="note", text=f"{program} · {short_path(self._place.cwd)}")
            return
        yield from heading(self._place.session)
        turns = self._record.turns
        shown = turns[-history:] if history else []
        hidden = len(turns) - len(shown)
        if hidden:
            what = f"({hidden} earlier {'turn' if hidden == 1 else 'turns'}: `rekindle show`)"
            yield Piece(kind="note", text=what)
        for turn in shown:
            yield from turn_pieces(turn, self._detail, self._record.terminals)

    # -- the conversation ---------------------------------------------------------------

    async def _converse(self, agent: Agent) -> int:
        # Not before the agent has started: it takes a moment.
        from rekindle.cli.chat.input_line import Line

        session = await self._place.open(agent)
        self._session = session
        self._paper.unhint()
        line = Line(self._said(), self._commands)
        try:
            while (words := await self._typed(line)) is not None:
                if words == "/help":
                    self._help()
                else:
                    await self._take_turn(session, words)
        finally:
            await self._place.close(session)
        return 0

    async def _typed(self, line: "Line") -> str | None:
        """Return what the user says next; None if that is good-bye."""
        self._presses = 0
        self._interrupts.rest()
        while True:
            self._paper.leave_room("user")
            self._is_typing = True
            try:
                words = await line.read()
            except EOFError:
                return None
            except KeyboardInterrupt:
                self._presses = 0 if line.had_text else self._presses + 1
                if self._presses > 1:
                    return None
                words = ""
            finally:
                self._is_typing = False
                self._paper.typed()
            self._tell_notes()
            if words.strip():
                return None if words.strip() in {"/quit", "/exit"} else words.strip("\n")

    async def _take_turn(self, session: ClientSession, words: str) -> None:
        turn = session.prompt(words)
        self._paper.hint("… (Ctrl-C cancels)")
        try:
            with self._interrupts.cancelling(turn):
                async for event in turn:
                    if isinstance(event, PermissionRequested):
                        await ask(event.request, self._live, self._keyboard)
                    else:
                        self._live.handle(event)
        except AgentRefused as error:
            self._live.show(ending_piece(failure(error.reason)))
        except AgentGone as error:
            if error.is_final:
                raise
            self._live.show(ending_piece(failure(str(error))))
        finally:
            self._paper.unhint()
            self._live.settle()
        if end := stopped(turn.stop_reason):
            self._live.show(ending_piece(end))

    # -- what is known ------------------------------------------------------------------

    def _said(self) -> list[str]:
        """Return what the user has said so far."""
        messages = (message for turn in self._record.turns for message in turn.messages)
        return [words for it in messages if it.role is Role.USER and (words := it.text)]

    def _commands(self) -> tuple[SlashCommand, ...]:
        own = self._session.commands if self._session is not None else ()
        return (*_OWN_COMMANDS, *(own or commands_in(self._record)))

    def _terminals(self) -> Terminals:
        return self._session.transcript.terminals if self._session is not None else {}

    # -- beside it ----------------------------------------------------------------------

    def _help(self) -> None:
        self._live.show(Piece(kind="note", text=_HELP))
        for command in self._commands():
            hint = f" {one_line(command.hint)}" if command.hint else ""
            words = f"/{one_line(command.name)}{hint}  {one_line(command.description)}"
            self._live.show(Piece(kind="note", text=words))

    def _note(self, words: str) -> None:
        self._live.show(Piece(kind="note", text=words))

    def _tell(self, words: str) -> None:
        """Tell what Rekindle has to say, but not where the user is typing."""
        self._notes.append(words)
        if not self._is_typing:
            self._tell_notes()

    def _tell_notes(self) -> None:
        for note in self._notes:
            self._live.show(Piece(kind="problem", text=note))
        self._notes.clear()
        if self._presses:
            self._note("(Ctrl-C again, Ctrl-D or /quit leaves)")

    def _tell_of_cancel(self) -> None:
        self._keyboard.give_up()
        self._live.pause()
        self._paper.hint("cancelling … (Ctrl-C again leaves)")
