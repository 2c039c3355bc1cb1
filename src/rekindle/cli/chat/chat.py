"""A chat in the terminal: read prompts, stream answers, ask for permissions.

During a turn, Ctrl-C cancels it and a second one leaves. At the prompt, Ctrl-C clears the typed
text. On an empty line two Ctrl-C leave, and so do Ctrl-D and /quit.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from rekindle.cli.chat.ask_permission import ask_permission
from rekindle.cli.chat.interrupts import EXIT_CODE, Interrupts
from rekindle.cli.chat.keyboard import Keyboard
from rekindle.cli.chat.target import ChatTarget
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
from rekindle.transcript.preface import user_words
from rekindle.transcript.reducer import Transcript

if TYPE_CHECKING:
    from rekindle.cli.chat.input_line import PromptInput

_OWN_COMMANDS = (
    SlashCommand(name="help", description="what can be typed here"),
    SlashCommand(name="quit", description="leave; `rekindle resume` goes on later"),
)
_HELP = """\
Enter sends; Alt-Enter, or \\ before Enter, begins a new line; ↑ brings earlier prompts back.
Ctrl-C cancels the turn, and once more leaves. Ctrl-D or /quit leaves."""


class Chat:
    """A chat, from the start of the agent to its end."""

    def __init__(
        self, target: ChatTarget, screen: ScreenPrinter, detail: Detail, history: Transcript
    ) -> None:
        self._target = target
        self._screen = screen
        self._detail = detail
        self._history = history
        """The transcript of the recorded session before the chat."""
        self._keyboard = Keyboard()
        self._live = LiveRenderer(screen, detail, self._terminals)
        self._session: ClientSession | None = None
        self._interrupts = Interrupts(self._show_cancelling)
        self._empty_interrupts = 0
        """The number of consecutive Ctrl-C on an empty line."""
        self._is_typing = False
        self._notices: list[str] = []
        """Notices that wait until the user does not type."""

    async def run(self, turns_shown: int) -> int:
        """Show the last turns of the history, then chat; return the exit code."""
        # The terminal mode is changed once: text typed during a change would be lost.
        with self._keyboard.quiet(), self._interrupts.handled():
            try:
                async with AsyncExitStack() as stack:
                    connecting = self._target.connect(self._report)
                    starting = asyncio.ensure_future(stack.enter_async_context(connecting))
                    # The user can read the history while the agent starts.
                    await asyncio.sleep(0)
                    self._show_introduction(turns_shown)
                    self._screen.hint("starting the agent …")
                    return await self._converse(await starting)
            except asyncio.CancelledError:
                return EXIT_CODE
            finally:
                self._screen.unhint()

    # -- before the first prompt --------------------------------------------------------

    def _show_introduction(self, turns_shown: int) -> None:
        for piece in self._introduction(turns_shown):
            self._screen.show(piece)

    def _introduction(self, turns_shown: int) -> Iterator[Piece]:
        if self._target.session is None:
            program = one_line(" ".join(self._target.command))
            yield Piece(kind="note", text=f"{program} · {short_path(self._target.cwd)}")
            return
        yield from heading(self._target.session)
        turns = self._history.turns
        shown = turns[-turns_shown:] if turns_shown else []
        hidden = len(turns) - len(shown)
        if hidden:
            note = f"({hidden} earlier {'turn' if hidden == 1 else 'turns'}: `rekindle show`)"
            yield Piece(kind="note", text=note)
        for turn in shown:
            yield from turn_pieces(turn, self._detail, self._history.terminals)

    # -- the conversation ---------------------------------------------------------------

    async def _converse(self, agent: Agent) -> int:
        # This slow import comes after the agent's start.
        from rekindle.cli.chat.input_line import PromptInput

        session = await self._target.open(agent)
        self._session = session
        self._screen.unhint()
        prompt_input = PromptInput(self._earlier_prompts(), self._commands)
        try:
            while (prompt := await self._read_prompt(prompt_input)) is not None:
                if prompt == "/help":
                    self._show_help()
                else:
                    await self._run_turn(session, prompt)
        finally:
            await self._target.close(session)
        return 0

    async def _read_prompt(self, prompt_input: "PromptInput") -> str | None:
        """Return the next prompt; None if the user leaves."""
        self._empty_interrupts = 0
        self._interrupts.end_turn()
        while True:
            self._screen.leave_room("user")
            self._is_typing = True
            try:
                text = await prompt_input.read()
            except EOFError:
                return None
            except KeyboardInterrupt:
                count = self._empty_interrupts + 1
                self._empty_interrupts = 0 if prompt_input.had_text else count
                if self._empty_interrupts > 1:
                    return None
                text = ""
            finally:
                self._is_typing = False
                self._screen.typed()
            self._show_notices()
            if text.strip():
                return None if text.strip() in {"/quit", "/exit"} else text.strip("\n")

    async def _run_turn(self, session: ClientSession, prompt: str) -> None:
        turn = session.prompt(prompt)
        self._screen.hint("… (Ctrl-C cancels)")
        try:
            with self._interrupts.cancelling(turn):
                async for event in turn:
                    if isinstance(event, PermissionRequested):
                        await ask_permission(event.request, self._live, self._keyboard)
                    else:
                        self._live.handle(event)
        except AgentRefused as error:
            self._live.show(ending_piece(failure(error.reason)))
        except AgentGone as error:
            if error.is_final:
                raise
            self._live.show(ending_piece(failure(str(error))))
        finally:
            self._screen.unhint()
            self._live.settle()
        if end := stopped(turn.stop_reason):
            self._live.show(ending_piece(end))

    # -- input and output ---------------------------------------------------------------

    def _earlier_prompts(self) -> list[str]:
        messages = (message for turn in self._history.turns for message in turn.messages)
        return [text for it in messages if it.role is Role.USER and (text := user_words(it.text))]

    def _commands(self) -> tuple[SlashCommand, ...]:
        own = self._session.commands if self._session is not None else ()
        return (*_OWN_COMMANDS, *(own or commands_in(self._history)))

    def _terminals(self) -> Terminals:
        return self._session.transcript.terminals if self._session is not None else {}

    def _show_help(self) -> None:
        self._show_note(_HELP)
        for command in self._commands():
            hint = f" {one_line(command.hint)}" if command.hint else ""
            self._show_note(f"/{one_line(command.name)}{hint}  {one_line(command.description)}")

    def _show_note(self, text: str) -> None:
        self._live.show(Piece(kind="note", text=text))

    def _report(self, notice: str) -> None:
        """Show a notice of Rekindle, once the user does not type."""
        self._notices.append(notice)
        if not self._is_typing:
            self._show_notices()

    def _show_notices(self) -> None:
        for notice in self._notices:
            self._live.show(Piece(kind="problem", text=notice))
        self._notices.clear()
        if self._empty_interrupts:
            self._show_note("(Ctrl-C again, Ctrl-D or /quit leaves)")

    def _show_cancelling(self) -> None:
        self._keyboard.stop_waiting()
        self._live.pause()
        self._screen.hint("cancelling … (Ctrl-C again leaves)")
