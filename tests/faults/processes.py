"""Processes as the harness has them in hand: to strike them, and to see them end. Linux only.

None is the harness's child, so they are held by descriptors: a process id may be given anew.
"""

import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from .violation import Violation

PATIENCE = 60.0
"""How long anything may take on a busy machine before it counts as never happening."""
MARK = "REKINDLE_EPISODE"
"""What each agent has in its environment, and whatever it starts: so none can hide."""
_TICK = 0.002

T = TypeVar("T")


class Process:
    """One process, by its id."""

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid
        self._fd: int | None = None
        with suppress(ProcessLookupError):
            self._fd = os.pidfd_open(pid)

    def strike(self, number: signal.Signals) -> None:
        """Send a signal, if it still lives."""
        if self._fd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._fd, number)

    def is_over(self, patience: float = 0.0) -> bool:
        """Tell whether it has ended, waiting for that at most so many seconds."""
        if self._fd is None:
            return True
        ready, _, _ = select.select([self._fd], [], [], patience)
        return bool(ready)

    def wait(self, patience: float = PATIENCE) -> None:
        """Wait for its end. Raises Violation if it does not come."""
        if not self.is_over(patience):
            raise Violation("a process does not end", f"{self.name}, {self.pid}")

    def close(self) -> None:
        """Let it go; kill it, if it still lives."""
        self.strike(signal.SIGKILL)
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def until(look: Callable[[], T], patience: float = PATIENCE) -> T:
    """Look until there is something to see; return the last that was seen."""
    deadline = time.monotonic() + patience
    while not (seen := look()) and time.monotonic() < deadline:
        time.sleep(_TICK)
    return seen


def marked(mark: str) -> dict[int, str]:
    """Return the living processes that were started under a mark, and what they are."""
    wanted = f"{MARK}={mark}\0".encode()
    found: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            # One that waits to be reaped has no environment any more.
            if folder.name.isdigit() and wanted in (folder / "environ").read_bytes() + b"\0":
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(folder.name)] = command.decode(errors="replace")
    return found


def ends(pid: int, patience: float) -> bool:
    """Wait for the end of a process that is only known by its id."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], patience)[0])
    finally:
        os.close(fd)


def end_marked(mark: str) -> None:
    """Kill what was started under a mark."""
    for pid in marked(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
