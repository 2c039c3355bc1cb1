"""Print pieces on a terminal: text is wrapped as it arrives, and a line can be replaced."""

import sys
from typing import TextIO

from rich.console import Console
from rich.text import Text

from rekindle.cli.formatting import printable
from rekindle.cli.render.rich_text import make_console, one_row, render_piece
from rekindle.cli.render.transcript import Piece, belong_together
from rekindle.cli.render.wrap import WordWrapper
from rekindle.cli.terminal import columns
from rekindle.text.widths import cut

_UP_AND_CLEAR = "\x1b[1A\x1b[2K"
_CLEAR_LINE = "\r\x1b[2K"


class ScreenPrinter:
    """Prints to a terminal, which may be resized at any time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.can_replace = not console.is_dumb_terminal
        self._last: str | None = None
        """The kind of the last piece."""
        self._cells = 0
        """The width of the last row, in cells."""
        self._hint = ""
        self._kind = ""
        self._wrapper: WordWrapper | None = None

    def show(self, piece: Piece, *, replacing: bool = False) -> None:
        """Print a piece, after an empty line if its kind requires one."""
        if replacing:
            self._write(_UP_AND_CLEAR * self._rows_of_last())
        else:
            self.leave_room(piece.kind)
        row = one_row(piece, self._console.width - 1) if piece.is_row else None
        self._cells = row.cell_len if row is not None else 0
        self._console.print(render_piece(piece) if row is None else row, crop=False)
        self._last = piece.kind

    def _rows_of_last(self) -> int:
        """Return the number of rows of the last line, which a narrower terminal wraps."""
        return max(1, -(-self._cells // columns(self._console.file)))

    def begin(self, kind: str, mark: str) -> None:
        """Begin a text."""
        self.leave_room(kind)
        self._kind = self._last = kind
        self._wrapper = WordWrapper(self._wrap_width, len(mark))
        self._put(mark)

    def _wrap_width(self) -> int:
        # A terminal that cannot replace lines wraps them itself.
        return self._console.width - 1 if self.can_replace else sys.maxsize

    def add(self, text: str) -> None:
        """Print a chunk."""
        if self._wrapper is not None:
            self._put(self._wrapper.feed(printable(text.replace("\r", ""))))

    def finish(self) -> None:
        """End the text."""
        if self._wrapper is not None:
            self._put("\n")
            self._wrapper = None

    def hint(self, text: str) -> None:
        """Show a hint until the next output."""
        if not self.can_replace:
            return
        self.unhint()
        # A hint of more than one row could not be removed.
        self._put_styled(cut(text, self._console.width - 1), "note")
        self._hint = text

    def unhint(self) -> None:
        """Remove the hint."""
        if self._hint:
            self._write(_CLEAR_LINE)
            self._hint = ""

    def leave_room(self, kind: str) -> None:
        """Print an empty line if a piece of this kind needs one before it."""
        self.unhint()
        if self._last is not None and not belong_together(self._last, kind):
            self._console.print()

    def typed(self) -> None:
        """Note that the user has typed a line."""
        self._last = "user"

    def _put(self, text: str) -> None:
        if text:
            self.unhint()
            self._put_styled(text, self._kind)

    def _put_styled(self, text: str, style: str) -> None:
        self._console.print(Text(text, style=style), end="", soft_wrap=True)
        self._console.file.flush()

    def _write(self, codes: str) -> None:
        self._console.file.write(codes)


def screen_for(stream: TextIO | None = None) -> ScreenPrinter:
    """Return the printer for the terminal of a stream, or of stdout."""
    return ScreenPrinter(make_console(file=stream))
