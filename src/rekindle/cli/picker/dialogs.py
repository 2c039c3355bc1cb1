"""Where one types, and what is asked in the last lines of the screen."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input, Static

_KEYS = "⏎ call it so (without a word: as the agent does)  esc leave it"


class InOrder(Input):
    """An input whose keys count in the order in which they are pressed, however fast that is.

    Textual by itself does what a key is bound to after it has taken in the letters that follow.
    """

    async def _on_key(self, event: Key) -> None:
        for binding in self._bindings.key_to_bindings.get(event.key, [])[:1]:
            event.stop()
            event.prevent_default()
            await self.app.run_action(binding.action, self)  # pyright: ignore[reportUnknownMemberType]


class Sure(ModalScreen[bool]):
    """A question that only a y answers with yes."""

    CSS_PATH = "list.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)"),
        Binding("n,escape,enter", "dismiss(False)"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Make what is seen."""
        yield Static(f"{self._question} [y/N]", classes="question", markup=False)


class NewTitle(ModalScreen[str]):
    """Asks for a title, beginning with the present one."""

    CSS_PATH = "list.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", priority=True),
    ]

    def __init__(self, present: str) -> None:
        super().__init__()
        self._present = present

    def compose(self) -> ComposeResult:
        """Make what is seen."""
        yield InOrder(self._present, placeholder="title", classes="question", select_on_focus=False)
        yield Static(_KEYS, classes="keys", markup=False)

    @on(Input.Submitted)
    def _answer(self, message: Input.Submitted) -> None:
        self.dismiss(message.value)
