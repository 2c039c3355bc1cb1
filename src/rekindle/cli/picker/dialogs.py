"""Input widgets and dialogs in the last lines of the screen."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input, Static

_KEYS = "⏎ call it so (without a word: as the agent does)  esc leave it"


class OrderedInput(Input):
    """An input that handles keys in the order in which they are pressed.

    Textual would run the action of a key only after it has inserted letters typed after it.
    """

    async def _on_key(self, event: Key) -> None:
        for binding in self._bindings.key_to_bindings.get(event.key, [])[:1]:
            event.stop()
            event.prevent_default()
            await self.app.run_action(binding.action, self)  # pyright: ignore[reportUnknownMemberType]


class ConfirmDialog(ModalScreen[bool]):
    """A question that only the key y confirms."""

    CSS_PATH = "picker.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)"),
        Binding("n,escape,enter", "dismiss(False)"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Create the widgets."""
        yield Static(f"{self._question} [y/N]", classes="question", markup=False)


class TitleDialog(ModalScreen[str]):
    """An input for a title, with the current title as its text."""

    CSS_PATH = "picker.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", priority=True),
    ]

    def __init__(self, current: str) -> None:
        super().__init__()
        self._current = current

    def compose(self) -> ComposeResult:
        """Create the widgets."""
        yield OrderedInput(
            self._current, placeholder="title", classes="question", select_on_focus=False
        )
        yield Static(_KEYS, classes="keys", markup=False)

    @on(Input.Submitted)
    def _answer(self, message: Input.Submitted) -> None:
        self.dismiss(message.value)
