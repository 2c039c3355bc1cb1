"""Paper that is a terminal: words fill lines as they come, and a line can be replaced."""

import sys
from typing import TextIO

from rich.console import Console
from rich.text import Text

from rekindle.cli.formatting import printable
from rekindle.cli.render.rich_text import make_console, one_row, rendered
from rekindle.cli.render.transcript import Piece, belong_together
from rekindle.cli.render.wrap import Filling
from rekindle.cli.terminal import columns
from rekindle.text.widths import cut

_UP_AND_CLEAR = "\x1b[1A\x1b[2K"
_CLEAR_LINE = "\r\x1b[2K"


class Screen:
    """The terminal that a person looks at, however wide it is by then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.can_replace = not console.is_dumb_terminal
        self._last: str | None = None
        """The kind of what was printed last."""
        self._cells = 0
        """How wide the row was that was printed last."""
        self._hint = ""
        self._kind = ""
        self._filling: Filling | None = None

    def show(self, piece: Piece, *, replacing: bool = False) -> None:
        """Print a piece, apart from what does not belong to it."""
        if replacing:
            self._write(_UP_AND_CLEAR * self._rows_of_last())
        else:
            self.leave_room(piece.kind)
        row = one_row(piece, self._console.width - 1) if piece.is_row else None
        self._cells = row.cell_len if row is not None else 0
        self._console.print(rendered(piece) if row is None else row, crop=False)
        self._last = piece.kind

    def _rows_of_last(self) -> int:
        """Return how many rows the last one takes by now: narrower terminals break it."""
        return max(1, -(-self._cells // columns(self._console.file)))

    def begin(self, kind: str, mark: str) -> None:
        """Begin a text."""
        self.leave_room(kind)
        self._kind = self._last = kind
        self._filling = Filling(self._width_to_fill, len(mark))
        self._put(mark)

    def _width_to_fill(self) -> int:
        # One that cannot take words back wraps lines by itself.
        return self._console.width - 1 if self.can_replace else sys.maxsize

    def add(self, words: str) -> None:
        """Print more of it."""
        if self._filling is not None:
            self._put(self._filling.feed(printable(words.replace("\r", ""))))

    def finish(self) -> None:
        """End it."""
        if self._filling is not None:
            self._put("\n")
            self._filling = None

    def hint(self, words: str) -> None:
        """Show some words until there is something to print."""
        if not self.can_replace:
            return
        self.unhint()
        # One that takes more than a row could not be taken back.
        self._put_styled(cut(words, self._console.width - 1), "note")
        self._hint = words

    def unhint(self) -> None:
        """Take the hint back."""
        if self._hint:
            self._write(_CLEAR_LINE)
            self._hint = ""

    def leave_room(self, kind: str) -> None:
        """Leave an empty line before something of that kind, if it does not belong there."""
        self.unhint()
        if self._last is not None and not belong_together(self._last, kind):
            self._console.print()

    def typed(self) -> None:
        """Learn that the user has typed something, and nothing before it matters."""
        self._last = "user"

    def _put(self, words: str) -> None:
        if words:
            self.unhint()
            self._put_styled(words, self._kind)

    def _put_styled(self, words: str, style: str) -> None:
        self._console.print(Text(words, style=style), end="", soft_wrap=True)
        self._console.file.flush()

    def _write(self, codes: str) -> None:
        self._console.file.write(codes)


def screen_of(stream: TextIO | None = None) -> Screen:
    """Return the screen that stdout, or `stream`, leads to."""
    return Screen(make_console(file=stream))
