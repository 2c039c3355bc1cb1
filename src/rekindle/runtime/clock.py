"""The time of day, as the core is told it."""

import time


class Clock:
    """Follows the clock on the wall, except while something waits for its time to come.

    Clocks are set. What was to wait for a second must not wait for an hour because of that.
    """

    def __init__(self) -> None:
        self._ahead_us = 0
        """By how much the clock on the wall is ahead of one that nobody sets."""
        self.now_us(is_awaited=False)

    def now_us(self, *, is_awaited: bool) -> int:
        """Return the time, in microseconds since 1970."""
        steady_us = time.monotonic_ns() // 1000
        if not is_awaited:
            self._ahead_us = time.time_ns() // 1000 - steady_us
        return steady_us + self._ahead_us
