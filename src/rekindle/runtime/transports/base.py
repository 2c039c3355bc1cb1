"""The contract of a transport: how the driver sends bytes to one peer.

A transport moves bytes and knows nothing of messages. The driver queues lines under its lock, in
the order in which the engine decided on them, and flushes after it has released the lock.
"""

from typing import Protocol


class Outlet(Protocol):
    """The sending half of a transport."""

    @property
    def is_writing(self) -> bool:
        """Whether a write is under way, which may wait for the reader."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether more bytes are queued than the outlet should hold."""
        ...

    def never_wait(self) -> None:
        """Hold no thread back from now on: a slow reader must not stop other peers."""
        ...

    def wait_again(self) -> None:
        """Undo `never_wait`, unless the outlet never waits for its reader anyway."""
        ...

    def queue(self, data: bytes) -> None:
        """Queue lines, each with its newline. Never blocks."""
        ...

    def flush(self) -> None:
        """Write everything that is queued, and wait for the reader if necessary."""
        ...

    def flush_in_background(self) -> None:
        """Have everything that is queued written without blocking the caller."""
        ...

    def flush_or_wait(self) -> None:
        """Flush in the background, but wait if the outlet is full.

        The caller then reads nothing more from its own peer: this is the backpressure on a peer
        that causes many responses and reads none of them.
        """
        ...
