"""The detachment of a host from its first client: turns continue after the client has left.

The process is no descendant of the client's process (`process.detach`). It has the standard streams
of the process that the client knows, and gives them up when it detaches.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rekindle.process.deadline import Deadline
from rekindle.process.detach import DetachedProcess, redirect_to_null
from rekindle.runtime.log import STDERR

MAX_DETACHED_HOSTS = 16
"""The number of hosts of a store that may run without their first client."""

_CANCEL_TIMEOUT = 10.0


class Detachment:
    """How a host continues without its first client, and for how long.

    `wait` is the number of seconds that a turn may wait for a client, or for the agent. `count`
    returns the number of hosts that run without their first client now.
    """

    def __init__(
        self, process: DetachedProcess, *, wait: float, log_path: Path, count: Callable[[], int]
    ) -> None:
        self.process = process
        self.is_detached = False
        self._wait = wait
        self._log_path = log_path
        self._count = count
        self._progress = Deadline(wait)
        self._cancelled: Deadline | None = None

    def is_allowed(self) -> bool:
        """Return whether few enough hosts run without their first client."""
        return self._count() < MAX_DETACHED_HOSTS

    def begin(self) -> None:
        """Give up the standard streams, and let the process end that the client knows.

        From now on, the agent's stderr goes to a file beside the socket.
        """
        self.is_detached = True
        self.note_client()
        redirect_to_null(0, 1)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            log = os.open(self._log_path, flags, 0o600)
        except OSError:
            redirect_to_null(STDERR)
        else:
            os.dup2(log, STDERR)
            os.close(log)
        self.process.release()

    def finish(self) -> None:
        """Remove the file of the agent's stderr: the host ends as it should."""
        if self.is_detached:
            with suppress(OSError):
                self._log_path.unlink()

    def note_client(self) -> None:
        """Note that a client has a session open."""
        self._progress = Deadline(self._wait)
        self._cancelled = None

    def note_agent(self) -> None:
        """Note a message of the agent. After the turns were cancelled, it gains no time."""
        if self._cancelled is None:
            self._progress = Deadline(self._wait)

    def must_cancel(self) -> bool:
        """Return whether the turns must be cancelled now, because nothing happened for too long."""
        if self._cancelled is not None or not self._progress.has_passed:
            return False
        self._cancelled = Deadline(_CANCEL_TIMEOUT)
        return True

    @property
    def must_end(self) -> bool:
        """Whether the agent did not cancel the turns in time."""
        return self._cancelled is not None and self._cancelled.has_passed
