"""A point in time until which something may take."""

import time


class Deadline:
    """Passes after a number of seconds. A change of the wall clock does not move it."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    @property
    def remaining(self) -> float:
        """The seconds until it passes, never negative."""
        return max(0.0, self._at - time.monotonic())

    @property
    def has_passed(self) -> bool:
        """Whether no time remains."""
        return self.remaining == 0.0
