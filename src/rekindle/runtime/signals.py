"""The signals that are passed on to the agent. POSIX only."""

import signal
from collections.abc import Callable

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Those that ask for an end. SIGINT may mean less than that to an agent."""


class Signals:
    """Notes the signals that come, and hands them on once there is somebody to take them.

    Made before the agent is started, so that none can end us and leave it behind.
    """

    def __init__(self) -> None:
        self._noted: list[int] = []
        self._take: Callable[[int], None] = self._noted.append
        for number in PASSED_ON:
            # Whoever started us with a signal ignored (nohup) wants it so.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda number, _: self._take(number))

    def give_to(self, take: Callable[[int], None]) -> None:
        """Have `take` called with each signal's number: those noted, and those to come."""
        self._take = take
        while self._noted:
            take(self._noted.pop(0))
