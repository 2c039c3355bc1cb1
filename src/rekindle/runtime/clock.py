"""The time of day, as the engine receives it with each event."""

import time


class Clock:
    """Follows the wall clock, except while a flow waits for a deadline.

    People and systems set the wall clock. A wait of one second must not become an hour by that.
    """

    def __init__(self) -> None:
        self._offset_us = 0
        """The wall clock minus the steady clock, as last measured."""
        self.now_us(is_steady=False)

    def now_us(self, *, is_steady: bool) -> int:
        """Return the time in microseconds since 1970. With `is_steady`, ignore a set wall clock."""
        steady_us = time.monotonic_ns() // 1000
        if not is_steady:
            self._offset_us = time.time_ns() // 1000 - steady_us
        return steady_us + self._offset_us
