"""Words and times for documents: nothing in them acts on a screen, or deceives a reader."""

from datetime import UTC, datetime

from rekindle.core.safety import clean


def one_line(text: str) -> str:
    """Return a text on one line."""
    return clean(" ".join(text.split()))


def stamp(at_us: int) -> str:
    """Write a time for people, wherever they are."""
    return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M UTC")
