"""Kill all processes of an agent, including processes that left its process group.

On Linux this process becomes the parent of orphans. On other systems, processes that moved to
another group are not found.
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
_MAX_ROUNDS = 100
_POLL_SECONDS = 0.01
_ZOMBIE = "Z"


@contextmanager
def killed_at_exit() -> Generator[None]:
    """Kill all descendants that the block has started. The caller must have no other children."""
    is_subreaper = _become_subreaper()
    try:
        yield
    finally:
        if is_subreaper:
            _kill_descendants()


def _become_subreaper() -> bool:
    """Become the parent of orphaned descendants; return whether the system allows it."""
    if sys.platform != "linux":
        return False
    with suppress(OSError, AttributeError):
        return ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    return False


def _kill_descendants() -> None:
    """Kill all descendants. The next round finds processes that started meanwhile."""
    for _ in range(_MAX_ROUNDS):
        alive = _descendants()
        for pid in alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        if not alive:
            return
        time.sleep(_POLL_SECONDS)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            pid, parent, state = _read_stat(path)
            if state != _ZOMBIE:
                children.setdefault(parent, []).append(pid)
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _read_stat(path: Path) -> tuple[int, int, str]:
    # The name of the program is in parentheses, and may contain any characters.
    before, _, rest = path.read_text(encoding="utf-8", errors="replace").rpartition(")")
    state, parent = rest.split()[:2]
    return int(before.split()[0]), int(parent), state
