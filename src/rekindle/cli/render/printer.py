"""Print pieces as plain text, or on a screen, where lines can be replaced.

The printer for screens is in `screen`, whose imports take long.
"""

import sys
from typing import Protocol, TextIO

from rekindle.cli.formatting import printable
from rekindle.cli.render.transcript import Piece, plain_lines
from rekindle.cli.terminal import is_terminal


class Printer(Protocol):
    """Prints whole pieces, and text that arrives in chunks."""

    can_replace: bool
    """Whether the last line can be replaced."""

    def show(self, piece: Piece, *, replacing: bool = False) -> None:
        """Print a piece. With `replacing`, it replaces the last line."""
        ...

    def begin(self, kind: str, mark: str) -> None:
        """Begin a text that arrives in chunks."""
        ...

    def add(self, text: str) -> None:
        """Print a chunk."""
        ...

    def finish(self) -> None:
        """End the text and its last line."""
        ...


class PlainPrinter:
    """Prints plain text to stdout, for pipes and files."""

    can_replace = False

    def __init__(self) -> None:
        self._mark = ""
        self._is_line_open = False

    def show(self, piece: Piece, *, replacing: bool = False) -> None:
        """Print a piece."""
        del replacing
        if piece.kind == "turn":
            print()
        for line in plain_lines(piece):
            print(line)
        sys.stdout.flush()

    def begin(self, kind: str, mark: str) -> None:
        """Begin a text."""
        del kind
        self._mark, self._is_line_open = mark, False

    def add(self, text: str) -> None:
        """Print a chunk, with the mark before each line."""
        for line in printable(text).splitlines(keepends=True):
            start = "" if self._is_line_open else self._mark
            sys.stdout.write(f"{start}{line}")
            self._is_line_open = not line.endswith("\n")
        sys.stdout.flush()

    def finish(self) -> None:
        """End the text."""
        if self._is_line_open:
            print(flush=True)
        self._is_line_open = False


def printer_for(stream: TextIO | None = None) -> Printer:
    """Return the printer for a stream, or for stdout; on a terminal, the one for screens."""
    if not is_terminal(stream):
        return PlainPrinter()
    from rekindle.cli.render.screen import screen_for

    return screen_for(stream)
