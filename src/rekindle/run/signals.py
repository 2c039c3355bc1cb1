"""The signals that are passed on to the agent. POSIX only."""

import signal
from collections.abc import Callable

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Those that ask for an end. SIGINT may mean less than that to an agent."""


def on_signal(handle: Callable[[int], None]) -> None:
    """Have `handle` called with the number of each signal that comes."""
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: handle(number))
