"""The picker on the screen. It needs Textual: import it only where that is there."""

import os
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from rekindle.cli.picker.list_view import Chosen, List, Picking
from rekindle.cli.store_access import address_for_reading, open_for_reading
from rekindle.model import Page

_NO_COLOR = "NO_COLOR"


def choose(option: str | None, page: Page) -> Chosen | None:
    """Let the user choose; return None if nothing was. Raises KeyboardInterrupt, StoreError."""
    plain = os.environ.get(_NO_COLOR)
    if plain == "":
        # Textual takes any value for a wish, even none.
        del os.environ[_NO_COLOR]
    with open_for_reading(option) as store:
        try:
            app = Picker(Picking(option, address_for_reading(option), store, page))
            chosen = app.run()
        finally:
            # Textual takes it away, but what comes after heeds it, too.
            if plain is not None:
                os.environ[_NO_COLOR] = plain
    if app.mistake is not None:
        raise app.mistake
    return chosen


class Picker(App[Chosen]):
    """Shows the list, and ends with what was chosen."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", show=False, priority=True),
    ]

    def __init__(self, picking: Picking) -> None:
        # The terminal's own colours, as everywhere else.
        super().__init__(ansi_color=True)
        self._picking = picking
        self.mistake: BaseException | None = None

    def on_mount(self) -> None:
        """Begin with the list."""
        self.theme = "ansi-dark"
        self.push_screen(List(self._picking), self._leave_with)

    def _leave_with(self, chosen: Chosen | None) -> None:
        self.exit(chosen)

    def action_interrupt(self) -> None:
        """Leave as any command does that is interrupted."""
        self.mistake = KeyboardInterrupt()
        self.exit()

    def _handle_exception(self, error: Exception) -> None:
        """Leave the telling to the command line: Textual would print a traceback."""
        self.mistake = getattr(error, "error", error)
        self.exit(return_code=1)
