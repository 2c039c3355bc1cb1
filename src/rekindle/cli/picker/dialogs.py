"""Input widgets, and dialogs that are shown over the list."""

from collections.abc import Iterable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input, Static

_GAP = "  "
_MIN_WIDTH = 30
"""The keys of a dialog fit into this width."""


def key_lines(keys: Iterable[tuple[str, str]], width: int) -> Content:
    """Return keys and their meanings, in lines of at most `width` cells."""
    lines: list[list[Content]] = [[]]
    room = width
    for key, label in keys:
        part = Content.assemble((key, "bold"), " ", label)
        if lines[-1] and part.cell_length > room:
            lines.append([])
            room = width
        lines[-1].append(part)
        room -= part.cell_length + len(_GAP)
    return Content("\n").join(Content(_GAP).join(line) for line in lines)


_TITLE_KEYS = [("⏎", "rename"), ("esc", "cancel")]


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
    """A question over the list, which only the key y confirms."""

    CSS_PATH = "picker.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)"),
        Binding("n,escape,enter", "dismiss(False)"),
    ]

    def __init__(self, question: str, remark: str, confirm: str, refuse: str) -> None:
        super().__init__()
        self._question = question
        self._remark = remark
        self._keys = [("y", confirm), ("n", refuse)]

    def compose(self) -> ComposeResult:
        """Create the widgets."""
        with Vertical(classes="dialog"):
            yield Static(self._question, classes="question", markup=False)
            yield Static(self._remark, markup=False)
            yield Static(key_lines(self._keys, _MIN_WIDTH), classes="keys", markup=False)


class TitleDialog(ModalScreen[str]):
    """An input over the list for a title, with the current title as its text."""

    CSS_PATH = "picker.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", priority=True),
    ]

    def __init__(self, current: str) -> None:
        super().__init__()
        self._current = current

    def compose(self) -> ComposeResult:
        """Create the widgets."""
        with Vertical(classes="dialog"):
            yield Static("New title", classes="question", markup=False)
            yield OrderedInput(
                self._current, placeholder="empty: the agent's title", select_on_focus=False
            )
            yield Static(key_lines(_TITLE_KEYS, _MIN_WIDTH), classes="keys", markup=False)

    @on(Input.Submitted)
    def _answer(self, message: Input.Submitted) -> None:
        # An unchanged title stays the agent's. It may also be masked.
        self.dismiss(message.value if message.value != self._current else None)
