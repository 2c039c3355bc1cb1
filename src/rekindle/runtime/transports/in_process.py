"""The in-process transport: a peer in the same process, without pipes.

Tests connect a driver with it. Both ends are plain queues of lines.
"""

from collections.abc import Callable
from queue import SimpleQueue

Receive = Callable[[bytes], None]


class InProcessPeer:
    """A client or an agent in this process.

    The driver writes to it as an outlet. The peer itself calls `next_line` to read what the driver
    sent, and `send` to answer.
    """

    is_writing = False
    is_full = False

    def __init__(self) -> None:
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._receive: Receive | None = None

    def connect(self, receive: Receive) -> None:
        """Let `receive` have every message that the peer sends."""
        self._receive = receive

    # -- the driver's end ------------------------------------------------------------------

    def wait_again(self) -> None:
        """Do nothing."""

    def never_wait(self) -> None:
        """Do nothing: the peer never waits."""

    def queue(self, data: bytes) -> None:
        """Give the peer complete lines."""
        for line in data.removesuffix(b"\n").split(b"\n"):
            self._lines.put(line)

    def flush(self) -> None:
        """Do nothing: the peer has the lines already."""

    flush_in_background = flush_or_wait = flush

    # -- the peer's end --------------------------------------------------------------------

    def send(self, line: bytes) -> None:
        """Send one message to the driver."""
        if self._receive is None:
            raise ValueError("this peer is not connected to a driver")
        self._receive(line)

    def next_line(self, timeout: float | None = None) -> bytes:
        """Return the next message from the driver. Raises queue.Empty after the timeout."""
        return self._lines.get(timeout=timeout)
