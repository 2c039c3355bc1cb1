"""A bound on waiting."""

import time


class Patience:
    """Runs out after so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """The seconds that remain."""
        return max(0.0, self._deadline - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether none remain."""
        return self.left == 0.0
