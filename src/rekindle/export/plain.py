"""Words and times for documents: nothing in them acts on a screen, or deceives a reader."""

import re

from rekindle.core.times import in_utc

# What colours a terminal, moves its cursor, or sets its title.
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
# Control characters, what turns the direction of writing, and halves of characters.
_HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_INSTEAD = "\ufffd"


def clean(text: str) -> str:
    """Return a text without what is no text."""
    text = text.replace("\r\n", "\n")
    if not _HARMFUL.search(text):
        return text
    return _HARMFUL.sub(_INSTEAD, _SEQUENCE.sub("", text))


def one_line(text: str) -> str:
    """Return a text on one line."""
    return clean(" ".join(text.split()))


def stamp(at_us: int) -> str:
    """Write a time for people, wherever they are."""
    return in_utc(at_us).strftime("%Y-%m-%d %H:%M UTC")
