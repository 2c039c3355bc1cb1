"""Words and times for documents: nothing in them acts on a screen, or deceives a reader."""

from rekindle.text.sanitize import clean
from rekindle.text.times import in_utc


def one_line(text: str) -> str:
    """Return a text on one line."""
    return clean(" ".join(text.split()))


def stamp(at_us: int) -> str:
    """Write a time for people, wherever they are."""
    return in_utc(at_us).strftime("%Y-%m-%d %H:%M UTC")
