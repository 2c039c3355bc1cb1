"""Paper that is a terminal: words fill lines as they come, and a line can be replaced."""

import re

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
    """Breaks lines between words, of a text that comes in bits which may be cut anywhere."""

    def __init__(self, width: int, column: int) -> None:
        self._width = width
        self._column = column
        self._indent = " " * column
        self._held = ""

    def feed(self, words: str) -> str:
        """Return what can be printed now. A word waits until its end is seen."""
        parts: list[str] = _PARTS.findall(self._held + words)
        self._held = ""
        if parts and not parts[-1].isspace() and len(parts[-1]) < self._width:
            self._held = parts.pop()
        return "".join(map(self._place, parts))

    def flush(self) -> str:
        """Return what was held back."""
        held, self._held = self._held, ""
        return self._place(held)

    def _place(self, part: str) -> str:
        if part == "\n":
            self._column = len(self._indent)
            return part + self._indent
        size = cell_len(part)
        is_beyond = self._column + size > self._width and self._column > len(self._indent)
        if is_beyond:
            self._column = len(self._indent)
            part = "" if part.isspace() else part
            size = cell_len(part)
        self._column += size
        return f"\n{self._indent}{part}" if is_beyond else part


class Terminal:
    """The terminal that a person looks at."""

    can_replace = True

    def __init__(self, console: Console) -> None:
        self._console = console
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
        shown = one_row(piece) if piece.kind == "tool" else rendered(piece)
        self._console.print(shown, crop=False)
        self._last = piece.kind

    def begin(self, kind: str, mark: str) -> None:
        """Begin a text."""
        self.leave_room(kind)
        self._kind = self._last = kind
        self._filling = Filling(self._console.width, len(mark))
        self._put(mark)

    def add(self, words: str) -> None:
        """Print more of it."""
        if self._filling is not None:
            self._put(self._filling.feed(printable(words.replace("\r", ""))))

    def finish(self) -> None:
        """End it."""
        if self._filling is not None:
            self._put(self._filling.flush() + "\n")
            self._filling = None

    def hint(self, words: str) -> None:
        """Show some words until there is something to print."""
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
