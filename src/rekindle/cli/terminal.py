"""Properties of the terminal: size, colour, encoding.

Every command imports this module when it starts, so it imports little itself.
"""

import os
import shutil
import sys
from contextlib import suppress
from typing import IO

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_DEFAULT_SIZE = (80, 24)


def is_terminal(stream: IO[str] | None = None) -> bool:
    """Return whether stdout, or `stream`, is a terminal."""
    stream = stream or sys.stdout
    # sys.stdout is None if the caller has closed it.
    return stream is not None and stream.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def columns(stream: IO[str] | None = None) -> int:
    """Return the current width of the terminal, 80 without one."""
    return terminal_size(stream).columns


def terminal_size(stream: IO[str] | None = None) -> os.terminal_size:
    """Return the current size of the terminal of stdout, or of `stream` if that is a terminal.

    The user's COLUMNS and LINES take precedence.
    """
    if stream is not None and not os.environ.get("COLUMNS"):
        with suppress(AttributeError, ValueError, OSError):
            size = os.get_terminal_size(stream.fileno())
            # A terminal over a serial line may not know its size, and report 0.
            if size.columns and size.lines:
                return size
    return shutil.get_terminal_size(_DEFAULT_SIZE)


def uses_colour(stream: IO[str] | None = None) -> bool:
    """Return whether to write colour: on a terminal that has it, unless NO_COLOR is set."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return is_terminal(stream) and not is_plain


def paint(text: str, style: str) -> str:
    """Return the text with escape sequences for a style, if colour is used."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if text and style and uses_colour() else text


def if_encodable(text: str, fallback: str) -> str:
    """Return the text, or the fallback if stdout's encoding lacks a character of it."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return fallback
    return text
