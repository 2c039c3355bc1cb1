"""The input of a prompt, with history, completion and several rows."""

from collections.abc import Callable, Iterable, Sequence

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from rekindle.cli.formatting import one_line
from rekindle.cli.render.rich_text import PROMPT
from rekindle.cli.terminal import uses_colour
from rekindle.client import SlashCommand

_STYLE = Style.from_dict({"prompt": "bold ansicyan", "": "bold ansicyan"})
_MENU_ROWS = 6


class PromptInput:
    """Reads prompts from the terminal."""

    def __init__(
        self, earlier: Sequence[str], commands: Callable[[], Iterable[SlashCommand]]
    ) -> None:
        history = InMemoryHistory()
        for prompt in earlier:
            history.append_string(prompt)
        self._session: PromptSession[str] = PromptSession(
            [("class:prompt", PROMPT)],
            multiline=True,
            prompt_continuation="  ",
            history=history,
            completer=_CommandCompleter(commands),
            complete_while_typing=True,
            key_bindings=_bindings(),
            style=_STYLE,
            color_depth=None if uses_colour() else ColorDepth.DEPTH_1_BIT,
            reserve_space_for_menu=_MENU_ROWS,
        )

    async def read(self) -> str:
        """Return the typed prompt. Raises EOFError on Ctrl-D, KeyboardInterrupt on Ctrl-C."""
        return await self._session.prompt_async(handle_sigint=False)

    @property
    def had_text(self) -> bool:
        """Whether the input had text when it ended."""
        return bool(self._session.default_buffer.text)


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
