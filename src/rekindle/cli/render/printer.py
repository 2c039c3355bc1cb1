"""Where pieces are printed: on plain paper, or on a screen, where lines can be taken back.

`Plain` needs nothing; the screen is in `pretty_paper`, which is heavy.
"""

import sys
from typing import Protocol, TextIO

from rekindle.cli.formatting import printable
from rekindle.cli.render.transcript import Piece, plain_lines
from rekindle.cli.terminal import is_terminal


class Paper(Protocol):
    """Takes whole pieces, and text that comes bit by bit."""

    can_replace: bool
    """Whether the last line can be taken back."""

    def show(self, piece: Piece, *, replacing: bool = False) -> None:
        """Print a piece; `replacing` the last line, which was one."""
        ...

    def begin(self, kind: str, mark: str) -> None:
        """Begin a text that comes bit by bit."""
        ...

    def add(self, words: str) -> None:
        """Print more of it."""
        ...

    def finish(self) -> None:
        """End it, with its line."""
        ...


class Plain:
    """Plain text, as it is piped: a line is printed once, and stays."""

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

    def add(self, words: str) -> None:
        """Print more of it, with the mark before each line."""
        for line in printable(words).splitlines(keepends=True):
            start = "" if self._is_line_open else self._mark
            sys.stdout.write(f"{start}{line}")
            self._is_line_open = not line.endswith("\n")
        sys.stdout.flush()

    def finish(self) -> None:
        """End it."""
        if self._is_line_open:
            print(flush=True)
        self._is_line_open = False


def paper_of(stream: TextIO | None = None) -> Paper:
    """Return what to print on: the screen, if a person looks at stdout, or at `stream`."""
    if not is_terminal(stream):
        return Plain()
    from rekindle.cli.render.screen import screen_of

    return screen_of(stream)
