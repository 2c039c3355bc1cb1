"""The signals that Rekindle forwards to the agent. POSIX only."""

import signal
from collections.abc import Callable

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ENDING = (signal.SIGTERM, signal.SIGHUP)
"""The signals that ask for the end. SIGINT may mean less than that to an agent."""


class Signals:
    """Collects signals until a handler is set, then passes each one to it.

    Create it before the agent is started, so that no signal can end Rekindle and leave the agent
    behind.
    """

    def __init__(self) -> None:
        self._collected: list[int] = []
        self._handle: Callable[[int], None] = self._collected.append
        for number in FORWARDED:
            # A caller that ignores a signal, as nohup does, wants it to be ignored here too.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda number, _: self._handle(number))

    def set_handler(self, handle: Callable[[int], None]) -> None:
        """Call `handle` with the number of each signal: those collected, and those to come."""
        self._handle = handle
        while self._collected:
            handle(self._collected.pop(0))
