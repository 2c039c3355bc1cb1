"""Which core a process runs on, where the system lets one choose.

Two processes that wake each other take ten times as long when they sleep on different
cores, and the scheduler chooses anew with every start. So round trips choose for it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

CAN_CHOOSE = hasattr(os, "sched_setaffinity")


def first_and_last() -> tuple[int, int]:
    """Return two cores that are as far apart as can be."""
    cores = sorted(os.sched_getaffinity(0)) if CAN_CHOOSE else [0]
    return cores[0], cores[-1]


@contextmanager
def staying_on(core: int) -> Iterator[None]:
    """Keep this thread on one core, and what it starts meanwhile."""
    if not CAN_CHOOSE:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
