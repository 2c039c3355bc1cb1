"""A moving sign below the output while the agent works, with the elapsed time."""

import asyncio

from rekindle.cli.formatting import format_duration
from rekindle.cli.render.screen import SIGN, ScreenPrinter
from rekindle.cli.render.transcript import Piece
from rekindle.cli.terminal import if_encodable

_INTERVAL = 0.1
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN_FRAMES = "|/-\\"


class WorkingSign:
    """The sign. A terminal that cannot replace lines does not show it."""

    def __init__(self, screen: ScreenPrinter) -> None:
        self._screen = screen
        self._frames = if_encodable(_FRAMES, _PLAIN_FRAMES)
        self._label = self._hint = ""
        self._started = 0.0
        """The loop time at which the work started."""
        self._tick = 0
        self._timer: asyncio.TimerHandle | None = None

    def show(self, label: str, hint: str = "") -> None:
        """Show a label and a hint. The time continues if the sign is shown already."""
        self._label, self._hint = label, hint
        if self._timer is None:
            self._started = asyncio.get_running_loop().time()
            self._move()
        else:
            self._draw()

    def remove(self) -> None:
        """Remove the sign."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._screen.pin(SIGN, [])

    def _move(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_INTERVAL, self._move)
        self._tick += 1
        self._draw()

    def _draw(self) -> None:
        seconds = asyncio.get_running_loop().time() - self._started
        took = format_duration(int(seconds * 1_000_000))
        text = " ".join(filter(None, (f"{self._label}…", took, self._hint)))
        frame = self._frames[self._tick % len(self._frames)]
        piece = Piece(kind="note", text=text, mark=f"{frame} ", mark_style="going", is_row=True)
        self._screen.pin(SIGN, [piece])
