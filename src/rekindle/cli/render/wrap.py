"""Wrap text that arrives in chunks."""

import re
from collections.abc import Callable

from rich.cells import cell_len

_PARTS = re.compile(r"\n|[^\S\n]+|\S+")


class WordWrapper:
    """Wraps text between words. Chunks may be cut anywhere, also inside a word.

    Each chunk is printed at once, because an agent may pause in the middle of a word. If the rest
    of the word does not fit, the printed part is erased and moves to the next line.
    """

    def __init__(self, width: Callable[[], int], column: int) -> None:
        self._width = width
        """Called for each word, because the terminal may be resized."""
        self.column = column
        """The column in which the next part begins."""
        self._indent = " " * column
        self._word = ""
        """The printed part of the last word."""

    def feed(self, text: str) -> str:
        """Return the output for the next chunk of the text."""
        return "".join(map(self._place, _PARTS.findall(text)))

    def _place(self, part: str) -> str:
        if part == "\n":
            return self._break()
        if part.isspace():
            self._word = ""
            part = self._without_tabs(part)
            return self._break() if self._is_beyond(part) else self._put(part)
        word, self._word = self._word, self._word + part
        is_whole_line = self.column - cell_len(word) <= len(self._indent)
        if not self._is_beyond(part) or is_whole_line:
            return self._put(part)
        back = f"\x1b[{cell_len(word)}D\x1b[K" if word else ""
        whole = self._word
        start = self._break()
        self._word = whole
        return f"{back}{start}{self._put(whole)}"

    def _without_tabs(self, blanks: str) -> str:
        """Return blanks with each tab replaced by the spaces that a terminal would show."""
        return f"{' ' * self.column}{blanks}".expandtabs()[self.column :]

    def _is_beyond(self, part: str) -> bool:
        return self.column + cell_len(part) > self._width()

    def _put(self, part: str) -> str:
        self.column += cell_len(part)
        return part

    def _break(self) -> str:
        self.column, self._word = len(self._indent), ""
        return f"\n{self._indent}"
