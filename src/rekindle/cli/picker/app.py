"""The Textual application of the picker."""

import os
from typing import ClassVar

from msgspec.structs import replace
from textual.app import App
from textual.binding import Binding, BindingType

from rekindle.cli.picker.screen import PickedSession, PickerSource, SessionPicker
from rekindle.cli.session_choice import NO_SESSIONS_YET
from rekindle.cli.store_access import address_for_reading, open_for_reading
from rekindle.errors import StoreError
from rekindle.model import Page
from rekindle.store.base import Store

_NO_COLOR = "NO_COLOR"


def pick_session(option: str | None, page: Page, *, redact: bool = True) -> PickedSession | None:
    """Return the picked session, None if the user leaves.

    Secrets are masked if `redact` is true.

    Raises KeyboardInterrupt, and StoreError, also if there is no session.
    """
    no_color = os.environ.get(_NO_COLOR)
    if no_color == "":
        # Textual treats an empty value as set.
        del os.environ[_NO_COLOR]
    with open_for_reading(option) as store:
        _check_has_sessions(store, page)
        try:
            address = address_for_reading(option)
            app = PickerApp(PickerSource(option, address, store, page, redact=redact))
            picked = app.run()
        finally:
            # Textual removes the variable, but the next command reads it too.
            if no_color is not None:
                os.environ[_NO_COLOR] = no_color
    if app.error is not None:
        raise app.error
    return picked


def _check_has_sessions(store: Store, page: Page) -> None:
    """Raise StoreError if there is no session to pick, not even an archived one."""
    every = replace(page, limit=1, with_archived=True)
    if store.sessions(every):
        return
    if store.sessions(replace(every, under=())):
        raise StoreError("this project has no session yet: leave out --here to see all sessions")
    raise StoreError(NO_SESSIONS_YET)


class PickerApp(App[PickedSession]):
    """An application that ends with the picked session."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", show=False, priority=True),
    ]

    def __init__(self, source: PickerSource) -> None:
        # Use the terminal's own colours, as the other commands do.
        super().__init__(ansi_color=True)
        self._source = source
        self.error: BaseException | None = None

    def on_mount(self) -> None:
        """Show the screen of sessions."""
        self.theme = "ansi-dark"
        self.push_screen(SessionPicker(self._source), self._leave_with)

    def _leave_with(self, picked: PickedSession | None) -> None:
        self.exit(picked)

    def action_interrupt(self) -> None:
        """End with KeyboardInterrupt, like any command."""
        self.error = KeyboardInterrupt()
        self.exit()

    def _handle_exception(self, error: Exception) -> None:
        """Leave the report to the command line. Textual would print a traceback."""
        self.error = getattr(error, "error", error)
        self.exit(return_code=1)
