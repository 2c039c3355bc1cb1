"""Processes that the harness signals and waits for. Linux only.

They are not children of the harness, so it uses process descriptors: a process id may be reused.
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

TIMEOUT = 60.0
"""The time limit of every wait, generous enough for a busy machine."""
MARK = "REKINDLE_EPISODE"
"""The environment variable by which every agent and its children can be found."""
_POLL_SECONDS = 0.002

T = TypeVar("T")


class Process:
    """One process, by its id."""

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid
        self._fd: int | None = None
        with suppress(ProcessLookupError):
            self._fd = os.pidfd_open(pid)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process still runs."""
        if self._fd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._fd, number)

    def has_ended(self, timeout: float = 0.0) -> bool:
        """Return whether the process has ended, after waiting at most `timeout` seconds."""
        if self._fd is None:
            return True
        ready, _, _ = select.select([self._fd], [], [], timeout)
        return bool(ready)

    def wait(self, timeout: float = TIMEOUT) -> None:
        """Wait for the end of the process. Raises Violation if it does not come."""
        if not self.has_ended(timeout):
            raise Violation("a process does not end", f"{self.name}, {self.pid}")

    def close(self) -> None:
        """Kill the process if it still runs, and close its descriptor."""
        self.send_signal(signal.SIGKILL)
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def until(look: Callable[[], T], timeout: float = TIMEOUT) -> T:
    """Call `look` until it returns a true value or the time is over; return the last value."""
    deadline = time.monotonic() + timeout
    while not (seen := look()) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return seen


def processes_with_mark(mark: str) -> dict[int, str]:
    """Return the running processes with a mark, as their ids and commands."""
    wanted = f"{MARK}={mark}\0".encode()
    found: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            # A zombie has no environment any more.
            if folder.name.isdigit() and wanted in (folder / "environ").read_bytes() + b"\0":
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(folder.name)] = command.decode(errors="replace")
    return found


def ends(pid: int, timeout: float) -> bool:
    """Wait for the end of a process; return whether it has ended in time."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], timeout)[0])
    finally:
        os.close(fd)


def kill_processes_with_mark(mark: str) -> None:
    """Kill the processes with a mark."""
    for pid in processes_with_mark(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
