"""Ending all that an agent has started, also what has left its process group.

Linux gives us what has lost its parent, if we ask for it. Elsewhere, what hides in a group of its
own is not found.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_ROUNDS = 100
_TICK = 0.01
_ZOMBIE = "Z"


@contextmanager
def ended() -> Generator[None]:
    """End what was started meanwhile. Only for a process that has no other children."""
    is_found = _adopt()
    try:
        yield
    finally:
        if is_found:
            _end_all()


def _adopt() -> bool:
    """Become the parent of what loses its own; tell whether that can be."""
    if sys.platform != "linux":
        return False
    with suppress(OSError, AttributeError):
        return ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    return False


def _end_all() -> None:
    """Kill what is below us; what it starts meanwhile is found in the next round."""
    for _ in range(_ROUNDS):
        alive = _descendants()
        for pid in alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _take_in()
        if not alive:
            return
        time.sleep(_TICK)


def _take_in() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            pid, parent, state = _read(path)
            if state != _ZOMBIE:
                children.setdefault(parent, []).append(pid)
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _read(path: Path) -> tuple[int, int, str]:
    # The name stands in parentheses, and may have any in it.
    before, _, rest = path.read_text(encoding="utf-8", errors="replace").rpartition(")")
    state, parent = rest.split()[:2]
    return int(before.split()[0]), int(parent), state
