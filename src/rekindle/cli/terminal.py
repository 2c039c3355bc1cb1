"""What the terminal is and can show. Light, because every start of a command pays for it."""

import os
import shutil
import sys
from contextlib import suppress
from typing import IO

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_USUAL_SIZE = (80, 24)


def is_terminal(stream: IO[str] | None = None) -> bool:
    """Tell whether a person reads what is written to stdout, or to `stream`."""
    stream = stream or sys.stdout
    # There is none where the caller has closed it.
    return stream is not None and stream.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def columns(stream: IO[str] | None = None) -> int:
    """Return how wide the terminal is by now; without one, as wide as they usually are."""
    return size(stream).columns


def size(stream: IO[str] | None = None) -> os.terminal_size:
    """Return how large the terminal is by now: that of stdout, or of `stream` if it leads to one.

    What the user has set in COLUMNS and LINES counts more.
    """
    if stream is not None and not os.environ.get("COLUMNS"):
        with suppress(AttributeError, ValueError, OSError):
            return os.get_terminal_size(stream.fileno())
    return shutil.get_terminal_size(_USUAL_SIZE)


def is_painted(stream: IO[str] | None = None) -> bool:
    """Tell whether colour is wanted: on a terminal, unless NO_COLOR is set or it has none."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return is_terminal(stream) and not plain


def paint(words: str, style: str) -> str:
    """Put a style on words, if there is one and colour is wanted."""
    return f"\x1b[{_STYLES[style]}m{words}\x1b[0m" if words and style and is_painted() else words


def pick(shown: str, plain: str) -> str:
    """Return `shown`, or `plain` where stdout cannot show it."""
    try:
        shown.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return plain
    return shown
