"""Paper that is a terminal: words fill lines as they come, and a line can be replaced."""

import re
import sys

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from rekindle.cli.pieces import Piece, belong_together
from rekindle.cli.pretty import one_row, rendered
from rekindle.cli.words import printable

_PARTS = re.compile(r"\n|[^\S\n]+|\S+")
_UP_AND_CLEAR = "\x1b[1A\x1b[2K"
_CLEAR_LINE = "\r\x1b[2K"


class Filling:
    """Breaks lines between words, of a text that comes in bits which may be cut anywhere.

    All of it is printed at once: an agent may pause in the middle of a word. If the rest of the
    word does not fit, what was printed of it is taken to the next line.
    """

    def __init__(self, width: int, column: int) -> None:
        self._width = width
        self._column = column
        self._indent = " " * column
        self._word = ""
        """What is printed of the last word."""

    def feed(self, words: str) -> str:
        """Return what to print for some more of the text."""
        return "".join(map(self._place, _PARTS.findall(words)))

    def _place(self, part: str) -> str:
        if part == "\n":
            return self._break()
        if part.isspace():
            self._word = ""
            return self._break() if self._is_beyond(part) else self._put(part)
        word, self._word = self._word, self._word + part
        is_whole_line = self._column - cell_len(word) <= len(self._indent)
        if not self._is_beyond(part) or is_whole_line:
            return self._put(part)
        back = f"\x1b[{cell_len(word)}D\x1b[K" if word else ""
        whole = self._word
        start = self._break()
        self._word = whole
        return f"{back}{start}{self._put(whole)}"

    def _is_beyond(self, part: str) -> bool:
        return self._column + cell_len(part) > self._width

    def _put(self, part: str) -> str:
        self._column += cell_len(part)
        return part

    def _break(self) -> str:
        self._column, self._word = len(self._indent), ""
        return f"\n{self._indent}"


class Terminal:
    """The terminal that a person looks at."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.can_replace = not console.is_dumb_terminal
        self._last: str | None = None
        """The kind of what was printed last."""
        self._hint = ""
        self._kind = ""
        self._filling: Filling | None = None

    def show(self, piece: Piece, *, replacing: bool = False) -> None:
        """Print a piece, apart from what does not belong to it."""
        if replacing:
            self._write(_UP_AND_CLEAR)
        else:
            self.leave_room(piece.kind)
        # A line that is to be replaced must be one row.
        is_row = piece.kind == "tool"
        shown = one_row(piece, self._console.width - 1) if is_row else rendered(piece)
        self._console.print(shown, crop=False)
        self._last = piece.kind

    def begin(self, kind: str, mark: str) -> None:
        """Begin a text."""
        self.leave_room(kind)
        self._kind = self._last = kind
        # One that cannot take words back wraps lines by itself.
        width = self._console.width - 1 if self.can_replace else sys.maxsize
        self._filling = Filling(width, len(mark))
        self._put(mark)

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
        self._put_styled(words, "note")
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
