"""Print pieces on a terminal: text is wrapped as it arrives, and a line can be replaced.

Rows can be pinned below the output: a sign that the agent works, a plan, the text that the user
types. The cursor stays at the end of the output, and the pinned rows are drawn below it. All
output is written above them, together with them in one write, so that nothing flickers.
"""

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from rekindle.cli.formatting import printable
from rekindle.cli.render.rich_text import make_console, one_row, render_piece
from rekindle.cli.render.transcript import Piece, belong_together
from rekindle.cli.render.wrap import WordWrapper
from rekindle.cli.terminal import columns, terminal_size

_UP_AND_CLEAR = "\x1b[1A\x1b[2K"
_CLEAR_TO_END_OF_LINE = "\x1b[K"
_CLEAR_BELOW = "\x1b[J"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"

PLAN, SIGN, INPUT = "plan", "sign", "input"
_SECTIONS = (PLAN, SIGN, INPUT)
"""The sections of pinned rows, from top to bottom."""
_PINNED_SHARE = 2
"""The pinned rows have at most half of the screen, otherwise the plan is cut."""


class ScreenPrinter:
    """Prints to a terminal, which may be resized at any time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.can_replace = not console.is_dumb_terminal
        self._last: str | None = None
        """The kind of the last piece."""
        self._cells = 0
        """The width of the last row, in cells."""
        self._kind = ""
        self._wrapper: WordWrapper | None = None
        self._pinned: dict[str, list[Piece]] = {}
        self._is_pinning = True
        self._has_pins = False
        """Whether pinned rows are on the screen."""

    def show(self, piece: Piece, *, replacing: bool = False) -> None:
        """Print a piece, after an empty line if its kind requires one."""
        before = _UP_AND_CLEAR * self._rows_of_last() if replacing else self._room_for(piece.kind)
        row = one_row(piece, self._console.width - 1) if piece.is_row else None
        self._cells = row.cell_len if row is not None else 0
        self._last = piece.kind
        self._write(before + self._rendered(render_piece(piece) if row is None else row))

    def _rows_of_last(self) -> int:
        """Return the number of rows of the last line, which a narrower terminal wraps."""
        return max(1, -(-self._cells // self._columns))

    def begin(self, kind: str, mark: str) -> None:
        """Begin a text."""
        room = self._room_for(kind)
        self._kind = self._last = kind
        self._wrapper = WordWrapper(self._wrap_width, len(mark))
        self._write(room + self._styled(mark))

    def _wrap_width(self) -> int:
        # A terminal that cannot replace lines wraps them itself.
        return self._console.width - 1 if self.can_replace else sys.maxsize

    def add(self, text: str) -> None:
        """Print a chunk."""
        if self._wrapper is not None:
            self._write(self._styled(self._wrapper.feed(printable(text.replace("\r", "")))))

    def finish(self) -> None:
        """End the text."""
        if self._wrapper is not None:
            self._wrapper = None
            self._write("\n")

    def leave_room(self, kind: str) -> None:
        """Print an empty line if a piece of this kind needs one before it."""
        self._write(self._room_for(kind))

    def typed(self) -> None:
        """Note that the user has typed a line."""
        self._last = "user"

    # -- pinned rows --------------------------------------------------------------------

    def pin(self, section: str, pieces: Sequence[Piece]) -> None:
        """Show pieces below all output, a row each, until the section gets others, or none.

        A terminal that cannot replace lines does not show them.
        """
        if self.can_replace:
            self._pinned[section] = list(pieces)
            self._write("")

    @property
    def pin_plan(self) -> Callable[[Sequence[Piece]], None] | None:
        """The function that pins a plan; None if the terminal cannot replace lines."""
        return partial(self.pin, PLAN) if self.can_replace else None

    @contextmanager
    def without_pins(self) -> Generator[None]:
        """Hide the pinned rows, so that others can use the terminal."""
        self._is_pinning = False
        self._write("")
        try:
            yield
        finally:
            self._is_pinning = True
            self._write("")

    def _pinned_rows(self) -> list[str]:
        if not self._is_pinning:
            return []
        room = max(1, terminal_size(self._console.file).lines // _PINNED_SHARE)
        pinned = {section: self._pinned.get(section, []) for section in _SECTIONS}
        others = sum(map(len, pinned.values())) - len(pinned[PLAN])
        pinned[PLAN] = _window(pinned[PLAN], max(0, room - others))
        pieces = [piece for section in _SECTIONS for piece in pinned[section]][-room:]
        # A row that is as wide as the terminal could wrap.
        width = self._columns - 1
        return [self._rendered(one_row(piece, width), end="") for piece in pieces]

    def _pins(self) -> str:
        """Return the codes that draw the pinned rows and move the cursor back."""
        rows = self._pinned_rows()
        had_pins, self._has_pins = self._has_pins, bool(rows)
        if not rows:
            return _CLEAR_BELOW + _SHOW_CURSOR if had_pins else ""
        drawn = "".join(f"\r\n{row}{_CLEAR_TO_END_OF_LINE}" for row in rows)
        column = self._wrapper.column if self._wrapper is not None else 0
        # After a word that fills whole rows, the next letter goes to a new row.
        start = "\r\n" if column and column % self._columns == 0 else ""
        right = column % self._columns
        back = f"\x1b[{len(rows)}A\r" + (f"\x1b[{right}C" if right else "")
        return f"{_HIDE_CURSOR}{start}{drawn}{_CLEAR_BELOW}{back}"

    # -- writing ------------------------------------------------------------------------

    @property
    def _columns(self) -> int:
        return columns(self._console.file)

    def _room_for(self, kind: str) -> str:
        return "\n" if self._last is not None and not belong_together(self._last, kind) else ""

    def _styled(self, text: str) -> str:
        return self._rendered(Text(text, style=self._kind), end="", soft_wrap=True) if text else ""

    def _rendered(
        self, renderable: RenderableType, *, end: str = "\n", soft_wrap: bool = False
    ) -> str:
        with self._console.capture() as captured:
            self._console.print(renderable, end=end, soft_wrap=soft_wrap, crop=False)
        return captured.get()

    def _write(self, output: str) -> None:
        clear = _CLEAR_BELOW if output and self._has_pins else ""
        self._console.file.write(f"{clear}{output}{self._pins()}")
        self._console.file.flush()


def _window(pieces: list[Piece], room: int) -> list[Piece]:
    """Return at most `room` pieces of a plan: the unfinished ones, and the last ones before."""
    unfinished = next((at for at, it in enumerate(pieces) if it.mark_style != "done"), 0)
    start = max(0, min(unfinished - 1, len(pieces) - room))
    return pieces[start : start + room]


def screen_for(stream: TextIO | None = None) -> ScreenPrinter:
    """Return the printer for the terminal of a stream, or of stdout."""
    return ScreenPrinter(make_console(file=stream))
