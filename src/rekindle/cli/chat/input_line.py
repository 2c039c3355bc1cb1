"""The input of a prompt, with history, completion and several rows."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from rekindle.cli.formatting import one_line
from rekindle.cli.render.rich_text import PROMPT
from rekindle.cli.terminal import uses_colour
from rekindle.client import SlashCommand

_STYLE = Style.from_dict(
    {"prompt": "bold ansicyan", "": "bold ansicyan", "hint": "noinherit ansibrightblack"}
)
_LEAVE_HINT = "Ctrl-C again leaves, also Ctrl-D or /quit"
_MENU_ROWS = 6


class PromptInterrupted(Exception):
    """Something came that the user must see. `draft` is the text that the user has typed."""

    def __init__(self, draft: str) -> None:
        super().__init__(draft)
        self.draft = draft


class PromptInput:
    """Reads prompts from the terminal.

    Ctrl-C clears the typed text. On an empty line, it shows a hint, and a second one leaves.
    """

    def __init__(
        self, earlier: Sequence[str], commands: Callable[[], Iterable[SlashCommand]]
    ) -> None:
        self.input = create_input()
        self._history = InMemoryHistory()
        for prompt in earlier:
            self.remember(prompt)
        self._is_leaving = False
        """Whether the next Ctrl-C leaves."""
        self._session: PromptSession[str] = PromptSession(
            [("class:prompt", PROMPT)],
            multiline=True,
            prompt_continuation="  ",
            input=self.input,
            history=self._history,
            placeholder=self._placeholder,
            completer=_CommandCompleter(commands),
            complete_while_typing=True,
            key_bindings=merge_key_bindings([_bindings(), self._leave_bindings()]),
            style=_STYLE,
            color_depth=None if uses_colour() else ColorDepth.DEPTH_1_BIT,
            reserve_space_for_menu=_MENU_ROWS,
        )
        self._session.default_buffer.on_text_changed += self._stay

    async def read(self, draft: str, until: "asyncio.Future[None]") -> str:
        """Return the typed prompt; `draft` is already typed.

        Raises EOFError if the user leaves, KeyboardInterrupt if Ctrl-C clears the line, and
        PromptInterrupted if `until` is done before. The line is then removed from the screen.
        """
        self._is_leaving = False
        app = self._session.app

        def interrupt(_: object = None) -> None:
            if until.done() and app.is_running and not app.is_done:
                app.erase_when_done = True
                app.exit(exception=PromptInterrupted(self._session.default_buffer.text))

        until.add_done_callback(interrupt)
        try:
            return await self._session.prompt_async(
                default=draft, handle_sigint=False, pre_run=interrupt
            )
        finally:
            until.remove_done_callback(interrupt)
            app.erase_when_done = False

    def remember(self, prompt: str) -> None:
        """Add a prompt to the earlier ones, which ↑ recalls."""
        self._history.append_string(prompt)

    def _stay(self, _: object) -> None:
        """Take the first Ctrl-C back, because the user types on."""
        self._is_leaving = False

    def _placeholder(self) -> FormattedText:
        is_shown = self._is_leaving and not get_app().is_done
        return FormattedText([("class:hint", _LEAVE_HINT)] if is_shown else [])

    def _leave_bindings(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            if event.current_buffer.text:
                event.app.exit(exception=KeyboardInterrupt)
            elif self._is_leaving:
                event.app.exit(exception=EOFError)
            else:
                self._is_leaving = True

        return keys


class _CommandCompleter(Completer):
    """Completes slash commands at the beginning of a prompt."""

    def __init__(self, commands: Callable[[], Iterable[SlashCommand]]) -> None:
        self._commands = commands

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield the commands that begin with the typed text."""
        del complete_event
        typed = document.text_before_cursor
        if not typed.startswith("/") or " " in typed or "\n" in typed:
            return
        for command in self._commands():
            name = f"/{one_line(command.name)}"
            if name.startswith(typed):
                meta = one_line(command.description)
                yield Completion(name, start_position=-len(typed), display_meta=meta)


def _bindings() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif buffer.text.strip():
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys
