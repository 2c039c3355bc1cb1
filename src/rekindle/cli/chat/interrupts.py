"""What Ctrl-C means: the first one cancels the turn that runs, the next one leaves.

Leaving takes a moment, in which the agent is ended with all that it has started. More Ctrl-Cs do
not cut that short: what they would leave behind is an agent that nobody ends.
"""

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rekindle.client import Turn

EXIT_CODE = 130


class Interrupts:
    """Heeds SIGINT for the task that talks to the agent."""

    def __init__(self, on_cancel: Callable[[], None]) -> None:
        self.turn: Turn | None = None
        """The turn that runs."""
        self.count = 0
        self._is_resting = False
        self._on_cancel = on_cancel
        self._is_leaving = False
        self._task: asyncio.Task[object] | None = None

    @contextmanager
    def heeded(self) -> Generator[None]:
        """Heed them in this task."""
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            if self._is_leaving:
                # What is left to do takes no time.
                signal.signal(signal.SIGINT, signal.SIG_IGN)

    @contextmanager
    def cancelling(self, turn: Turn) -> Generator[None]:
        """Let the first one cancel this turn."""
        self.turn, self.count = turn, 0
        try:
            yield
        finally:
            self.turn = None

    def rest(self) -> None:
        """Do not heed one that comes between turns: it was meant for the one that has ended."""
        self.count, self._is_resting = 0, True

    def _interrupt(self) -> None:
        self.count += 1
        if self.turn is not None and self.count == 1:
            self.turn.cancel()
            self._on_cancel()
        elif self.turn is None and self._is_resting and self.count == 1:
            return
        elif self._task is not None and not self._is_leaving:
            self._is_leaving = True
            self._task.cancel()
