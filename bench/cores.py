"""The core of a process, where the system supports the choice.

Two processes that wake each other take ten times as long if they sleep on different cores, and
the scheduler chooses differently at every start. So measures of round trips fix the cores.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

CAN_CHOOSE = hasattr(os, "sched_setaffinity")


def first_and_last() -> tuple[int, int]:
    """Return the first and the last core."""
    cores = sorted(os.sched_getaffinity(0)) if CAN_CHOOSE else [0]
    return cores[0], cores[-1]


@contextmanager
def staying_on(core: int) -> Iterator[None]:
    """Run this thread, and processes that it starts meanwhile, on one core."""
    if not CAN_CHOOSE:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
