"""Which week a time belongs to: weeks begin on Monday, in UTC."""

WEEK_US = 7 * 24 * 3600 * 1_000_000
SHIFT_US = 3 * 24 * 3600 * 1_000_000
"""From the Monday before the epoch, which was a Thursday, to the epoch."""


def week_of(at_us: int) -> int:
    """Return when the week of a time begins."""
    return (at_us + SHIFT_US) // WEEK_US * WEEK_US - SHIFT_US
