"""A chat in the terminal: read prompts, stream answers, ask for permissions.

During a turn, Ctrl-C cancels it and a second one leaves. Prompts that are typed meanwhile wait in a
queue. At the prompt, Ctrl-C clears the typed text. On an empty line two Ctrl-C leave, and so do
Ctrl-D and /quit. A turn of another client of the session is shown, too; the typed text is kept.
"""

import asyncio
import shlex
from collections.abc import Generator, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING

from rekindle.acp.jsonrpc import RESOURCE_NOT_FOUND
from rekindle.cli.chat.ask_permission import ask_permission, choose_answer
from rekindle.cli.chat.followed import OtherWindows
from rekindle.cli.chat.interrupts import EXIT_CODE, Interrupts
from rekindle.cli.chat.keyboard import Keyboard
from rekindle.cli.chat.target import ChatTarget
from rekindle.cli.chat.working_sign import WorkingSign
from rekindle.cli.formatting import one_line, plural, printable, short_path
from rekindle.cli.render.detail import Detail
from rekindle.cli.render.live import LiveRenderer
from rekindle.cli.render.screen import INPUT, ScreenPrinter
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
    PermissionRequest,
    PermissionRequested,
    SlashCommand,
)
from rekindle.client.session_record import commands_in
from rekindle.export.labels import Ending, failure, stopped
from rekindle.store.address import StoreAddress, locate
from rekindle.transcript.model import Role, Terminals, TranscriptTurn
from rekindle.transcript.preface import user_words
from rekindle.transcript.reducer import Transcript

if TYPE_CHECKING:
    from rekindle.cli.chat.input_line import PromptInput
    from rekindle.cli.chat.type_ahead import TypeAhead

_OWN_COMMANDS = (
    SlashCommand(name="help", description="list the keys and commands"),
    SlashCommand(name="quit", description="leave; `rekindle resume` continues the session"),
)
_OPENING_HINT = "Enter sends · Alt-Enter: new line · Ctrl-C cancels · Ctrl-D leaves · /help"
_HELP = """\
Enter sends. Alt-Enter, or \\ before Enter, starts a new line. ↑ recalls earlier prompts.
While the agent works, you can type the next prompt: Enter queues it, and ↑ takes it back.
Ctrl-C cancels the turn, and a second one leaves. Ctrl-D or /quit leaves."""


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
        self._live = LiveRenderer(screen, detail, self._terminals, pin_plan=screen.pin_plan)
        self._sign = WorkingSign(screen)
        self._others: OtherWindows | None = None
        """The open session, with the turns of its other clients."""
        self._type_ahead: TypeAhead | None = None
        self._interrupts = Interrupts(self._show_cancelling)
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
                    self._sign.show("starting the agent")
                    return await self._converse(await starting)
            except asyncio.CancelledError:
                return EXIT_CODE
            finally:
                self._sign.remove()
                self._show_resume_command()

    # -- before the first prompt --------------------------------------------------------

    def _show_introduction(self, turns_shown: int) -> None:
        for piece in self._introduction(turns_shown):
            self._screen.show(piece)

    def _introduction(self, turns_shown: int) -> Iterator[Piece]:
        if self._target.session is None:
            program = one_line(" ".join(self._target.agent.command))
            yield Piece(kind="note", text=f"{program} · {short_path(self._target.cwd)}")
            return
        yield from heading(self._target.session)
        turns = self._history.turns
        if self._has_running_turn:
            # It is shown as it is when the session is open.
            turns = turns[:-1]
        shown = turns[-turns_shown:] if turns_shown else []
        hidden = len(turns) - len(shown)
        if hidden:
            note = f"({plural(hidden, 'earlier turn')}: `rekindle show`)"
            yield Piece(kind="note", text=note)
        for turn in shown:
            yield from turn_pieces(turn, self._detail, self._history.terminals)

    @property
    def _has_running_turn(self) -> bool:
        """Whether another process ran a turn of the session before the chat."""
        turns = self._history.turns
        return self._target.is_shared and bool(turns) and turns[-1].ended_us is None

    # -- the conversation ---------------------------------------------------------------

    async def _converse(self, agent: Agent) -> int:
        # These slow imports come after the agent's start.
        from rekindle.cli.chat.input_line import PromptInput
        from rekindle.cli.chat.type_ahead import TypeAhead

        session = await self._target.open(agent)
        self._sign.remove()
        turns = session.transcript.turns
        others = self._others = OtherWindows(session, self._live, turns_shown=len(turns))
        if self._has_running_turn and turns:
            self._live.begin_turn(turns[-1])
            if session.state == "idle":
                # It has ended meanwhile.
                self._live.end_turn(turns[-1])
        self._show_note(_OPENING_HINT)
        prompt_input = PromptInput(self._earlier_prompts(), self._commands)
        self._type_ahead = TypeAhead(
            prompt_input.input, lambda pieces: self._screen.pin(INPUT, pieces)
        )
        hint = "(Ctrl-C cancels)"
        try:
            while (
                prompt := await self._next_prompt(prompt_input, self._type_ahead, others)
            ) is not None:
                if prompt == "/help":
                    self._show_help()
                else:
                    await self._show_other_turns(others, self._type_ahead)
                    own = await self._run_turn(session, self._type_ahead, prompt, hint)
                    others.own_turn_ended(own)
                    hint = ""
        finally:
            await self._target.close(session)
        return 0

    async def _next_prompt(
        self, prompt_input: "PromptInput", ahead: "TypeAhead", others: OtherWindows
    ) -> str | None:
        """Return the next prompt, which may have been typed before; None if the user leaves."""
        self._interrupts.end_turn()
        prompt = self._take_queued(prompt_input, ahead)
        if prompt is None:
            prompt = await self._read_prompt(prompt_input, ahead, others)
        if prompt is None or _is_quit(prompt):
            return None
        return prompt.strip("\n")

    async def _read_prompt(
        self, prompt_input: "PromptInput", ahead: "TypeAhead", others: OtherWindows
    ) -> str | None:
        """Return what the user types; meanwhile, show the turns of other clients."""
        from rekindle.cli.chat.input_line import PromptInterrupted

        draft = ahead.take_draft()
        while True:
            try:
                text = await self._read_line(prompt_input, draft, others)
            except EOFError:
                return None
            except KeyboardInterrupt:
                text = draft = ""
            except PromptInterrupted as interrupted:
                ahead.set_draft(interrupted.draft)
                await self._show_other_turns(others, ahead)
                text = self._take_queued(prompt_input, ahead) or ""
                draft = ahead.take_draft()
            self._show_notices()
            if text.strip():
                return text

    def _take_queued(self, prompt_input: "PromptInput", ahead: "TypeAhead") -> str | None:
        """Return a prompt that was typed during a turn, and show it."""
        prompt = ahead.take_prompt()
        if prompt is not None and not _is_quit(prompt):
            self._screen.show(Piece(kind="user", text=printable(prompt)))
            prompt_input.remember(prompt)
        return prompt

    async def _read_line(
        self, prompt_input: "PromptInput", draft: str, others: OtherWindows
    ) -> str:
        until = asyncio.ensure_future(others.wait_for_turn())
        self._screen.leave_room("user")
        self._is_typing = True
        try:
            return await prompt_input.read(draft, until)
        finally:
            until.cancel()
            self._is_typing = False
            self._screen.typed()

    async def _show_other_turns(self, others: OtherWindows, ahead: "TypeAhead") -> None:
        """Show the turns that other clients run now. The user can type meanwhile."""
        while others.session.state != "idle":
            self._sign.show("working", "(in another window)")
            try:
                with self._reading_ahead(ahead):
                    await others.show_turn(lambda request: self._answer(request, ahead))
            finally:
                self._sign.remove()
                self._live.settle()

    async def _answer(self, request: PermissionRequest, ahead: "TypeAhead") -> None:
        """Answer a request in a turn of another client, which has left."""
        with ahead.paused(), self._screen.without_pins():
            choice = await choose_answer(
                request, self._live, self._keyboard, is_typing=ahead.has_draft
            )
        if choice is not None:
            request.choose(choice)

    async def _run_turn(
        self, session: ClientSession, ahead: "TypeAhead", prompt: str, hint: str
    ) -> TranscriptTurn:
        turn = session.prompt(prompt)
        self._sign.show("working", hint)
        try:
            with self._interrupts.cancelling(turn), self._reading_ahead(ahead):
                async for event in turn:
                    if isinstance(event, PermissionRequested):
                        with ahead.paused(), self._screen.without_pins():
                            await ask_permission(
                                event.request,
                                self._live,
                                self._keyboard,
                                is_typing=ahead.has_draft,
                            )
                    else:
                        self._live.handle(event)
        except AgentRefused as error:
            reason = error.reason
            if error.code == RESOURCE_NOT_FOUND:
                own_id = one_line(session.id)
                reason = f"the session was closed elsewhere: leave, and `rekindle resume {own_id}`"
            self._end_turn(failure(reason))
        except AgentGone as error:
            if error.is_final:
                raise
            self._end_turn(failure(str(error)))
        else:
            self._end_turn(stopped(turn.stop_reason))
        finally:
            self._sign.remove()
            self._live.settle()
        if turn.stop_reason != "end_turn":
            ahead.recall()
        return turn.transcript

    def _end_turn(self, end: Ending | None) -> None:
        self._sign.remove()
        self._live.settle()
        if end:
            self._live.show(ending_piece(end))

    @contextmanager
    def _reading_ahead(self, ahead: "TypeAhead") -> Generator[None]:
        """Show what the user types, if the terminal can. Otherwise it waits for the next prompt."""
        if not self._screen.can_replace:
            yield
            return
        with ahead.reading():
            yield

    # -- input and output ---------------------------------------------------------------

    def _earlier_prompts(self) -> list[str]:
        messages = (message for turn in self._history.turns for message in turn.messages)
        return [text for it in messages if it.role is Role.USER and (text := user_words(it.text))]

    def _commands(self) -> tuple[SlashCommand, ...]:
        own = self._others.session.commands if self._others is not None else ()
        return (*_OWN_COMMANDS, *(own or commands_in(self._history)))

    def _terminals(self) -> Terminals:
        return self._others.session.transcript.terminals if self._others is not None else {}

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

    def _show_cancelling(self) -> None:
        self._keyboard.stop_waiting()
        self._live.pause()
        self._sign.show("cancelling", "(Ctrl-C again leaves)")

    def _show_resume_command(self) -> None:
        """Print the command that continues the session, if there is something to continue."""
        session = self._others.session if self._others is not None else None
        if session is None or not (self._history.turns or session.transcript.turns):
            return
        self._screen.leave_room("note")
        # The terminal wraps a long command, so that it can be copied as a whole.
        print(f"To continue: {resume_command(session.id, self._target.store)}")


def resume_command(session_id: str, store: StoreAddress) -> str:
    """Return the command that continues a session. It names the store unless it is the default."""
    option = [] if store == locate(None) else ["--store", store.label or store.as_option]
    return shlex.join(["rekindle", "resume", *option, session_id])


def _is_quit(prompt: str) -> bool:
    return prompt.strip() in {"/quit", "/exit"}
