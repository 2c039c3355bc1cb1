"""Messages on stderr, all in one form, such as `rekindle: error: …`.

An error ends the command. A warning reports a problem that the command has survived. A note is
information. The results of a command have no such prefix.
"""

import sys
from contextlib import suppress

from rekindle.cli.formatting import printable


def print_error(text: str) -> None:
    """Print an error: the problem, and then the remedy."""
    _print("error", text)


def print_warning(text: str) -> None:
    """Print a warning."""
    _print("warning", text)


def print_note(text: str) -> None:
    """Print a note."""
    _print("note", text)


def _print(kind: str, text: str) -> None:
    # A text may quote an agent or a file. stderr may be closed or full.
    with suppress(OSError):
        print(f"rekindle: {kind}: {printable(text)}", file=sys.stderr)
