"""Ctrl-C during a conversation: the first one cancels the running turn, the next one leaves.

Leaving ends the agent's processes, which takes a moment. Further interrupts do not shorten it,
because they would leave an agent running.
"""

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rekindle.client import Turn

EXIT_CODE = 130


class Interrupts:
    """Handles SIGINT for the task that uses the agent."""

    def __init__(self, on_cancel: Callable[[], None]) -> None:
        self.turn: Turn | None = None
        """The running turn, if any."""
        self.count = 0
        """The interrupts since the turn started, or since it ended."""
        self._is_between_turns = False
        self._on_cancel = on_cancel
        self._is_leaving = False
        self._task: asyncio.Task[object] | None = None

    @contextmanager
    def handled(self) -> Generator[None]:
        """Handle SIGINT for the current task."""
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            if self._is_leaving:
                # The process is about to exit.
                signal.signal(signal.SIGINT, signal.SIG_IGN)

    @contextmanager
    def cancelling(self, turn: Turn) -> Generator[None]:
        """Make the first interrupt cancel this turn."""
        self.turn, self.count = turn, 0
        try:
            yield
        finally:
            self.turn = None

    def end_turn(self) -> None:
        """Ignore one interrupt until the next turn: it was meant for the turn that has ended."""
        self.count, self._is_between_turns = 0, True

    def _interrupt(self) -> None:
        self.count += 1
        if self.turn is not None and self.count == 1:
            self.turn.cancel()
            self._on_cancel()
        elif self.turn is None and self._is_between_turns and self.count == 1:
            return
        elif self._task is not None and not self._is_leaving:
            self._is_leaving = True
            self._task.cancel()
