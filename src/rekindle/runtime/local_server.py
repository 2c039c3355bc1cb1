"""Connections between processes of one user: serve others, and connect to hosts."""

import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from rekindle.model import LeaseHolder
from rekindle.process.deadline import Deadline
from rekindle.runtime.agent_connection import start_thread
from rekindle.runtime.driver import Driver
from rekindle.runtime.log import Log
from rekindle.runtime.outlets import HostOutlet

if TYPE_CHECKING:
    from rekindle.runtime.transports.unix_socket import SocketConnection, SocketListener

_STATUS = Path("/proc/self/statm")
_FINISH_TIMEOUT = 1.0
_START_TIMEOUT = 0.5
_POLL_SECONDS = 0.02


class LocalServer:
    """Serves other processes of the user on the socket that the lease names.

    `is_trusted` returns whether this process has started a process that is no agent.
    """

    def __init__(
        self,
        holder: LeaseHolder,
        driver: Driver,
        log: Log,
        *,
        is_trusted: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._holder = holder
        self._driver = driver
        self._log = log
        self._is_trusted = is_trusted
        self._started_at = datetime.now(UTC)
        self._listener: SocketListener | None = None
        self._lock = Lock()
        self._connections: set[SocketConnection] = set()
        self._has_finished = False

    def listen(self) -> None:
        """Accept connections from now on, if the lease names a socket."""
        if not self._holder.socket:
            return
        # Slow to import: the client is served already.
        from rekindle.runtime.transports.unix_socket import (  # noqa: PLC0415
            SocketListener,
            remove_dead_sockets,
        )

        path = Path(self._holder.socket)
        try:
            remove_dead_sockets(path.parent)
            self._listener = SocketListener(path, self._serve, self._is_trusted)
        except OSError as error:
            self._log.note(f"other processes cannot attach: {error}")

    def keep_listening(self) -> None:
        """Make the socket again if it has vanished."""
        if self._listener is not None:
            try:
                self._listener.ensure()
            except OSError as error:
                self._log.note(f"cannot make the socket again: {error}")

    def stop_listening(self) -> None:
        """Accept no more connections."""
        if self._listener is not None:
            self._listener.close()

    def describe(self) -> dict[str, Any]:
        """Describe this process for other processes."""
        return {
            "pid": os.getpid(),
            "machine": self._holder.machine,
            "version": self._holder.version,
            "startedAt": self._started_at.isoformat(),
            "memory": _resident_bytes(),
        }

    def _serve(self, connection: "SocketConnection") -> None:
        """Serve a client, in a thread of its own."""
        driver = self._driver
        with self._lock:
            if self._has_finished:
                connection.close()
                return
            self._connections.add(connection)

        def read() -> None:
            client = driver.attach_client(connection.writer, is_local_process=True)
            try:
                for lines in connection.read():
                    driver.receive(client, lines)
            finally:
                driver.detach_client(client)
                with self._lock:
                    self._connections.discard(connection)
                connection.close()

        start_thread(read)

    def finish(self) -> None:
        """Let all clients read their queued lines for at most a moment, and end the connections."""
        with self._lock:
            self._has_finished = True
            connections = list(self._connections)
        threads = [
            Thread(target=it.finish, args=(_FINISH_TIMEOUT,), daemon=True) for it in connections
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def connect_to_host(
    holder: LeaseHolder, receive: Callable[[bytes], None], on_end: Callable[[], None]
) -> HostOutlet:
    """Connect to the process that has a session. Raises OSError.

    `receive` is called with the lines of each read, and `on_end` when the connection has ended.
    """
    from rekindle.runtime.transports.unix_socket import connect  # noqa: PLC0415 - seldom needed

    deadline = Deadline(_START_TIMEOUT)
    while True:
        try:
            connection = connect(holder.socket)
            break
        except FileNotFoundError:
            # A host that has just started makes its socket a moment after its first lease.
            if deadline.has_passed:
                raise
            time.sleep(_POLL_SECONDS)

    def read() -> None:
        try:
            for lines in connection.read():
                receive(lines)
        finally:
            on_end()
            connection.close()

    def close() -> None:
        start_thread(lambda: connection.finish(_FINISH_TIMEOUT))

    start_thread(read)
    return HostOutlet(connection.writer, close)


def _resident_bytes() -> int:
    """Return the resident memory; the largest so far where the system does not show the present."""
    with suppress(OSError, ValueError, IndexError):
        return int(_STATUS.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024
