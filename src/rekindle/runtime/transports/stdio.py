"""The stdio transport: lines on a pair of file descriptors.

Two threads may write to one pipe: the thread that forwards messages in that direction, and the
other one when the engine answers by itself. Both queue their lines in the order in which the engine
decided on them, and the thread that holds the writer's lock writes for both. So a thread that only
answers does not wait behind a thread that waits for a slow reader. If very much is queued, it waits
too: otherwise a peer that causes many responses and reads none would fill the memory.
"""

import os
import select
from collections import deque
from collections.abc import Callable, Iterator
from threading import Event, Lock, Thread

from rekindle.acp.framing import LineBuffer
from rekindle.errors import EndlessLine

# Reads of 256 KiB were measured at half the speed of 64 KiB.
_READ_BYTES = 65536
# Larger than any real message. A line is held whole before it can be forwarded.
_MAX_LINE_BYTES = 256 * 1024 * 1024
# More than a peer may leave unread while it writes one long line.
_MAX_QUEUED_BYTES = 16 * 1024 * 1024


class StdioTransport:
    """A client on two file descriptors, by default standard input and output."""

    def __init__(
        self, on_broken: Callable[[], None], *, input_fd: int = 0, output_fd: int = 1
    ) -> None:
        self._input_fd = input_fd
        self.writer = PipeWriter(output_fd, on_broken)

    def read(self) -> Iterator[tuple[bytes, bool]]:
        """Yield the lines of each read, and whether the last of them was terminated.

        Raises EndlessLine.
        """
        return read_lines(self._input_fd)

    def has_hung_up(self) -> bool:
        """Return whether the client has closed its end, without reading."""
        return has_hung_up(self._input_fd)


def read_lines(fd: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines that each read completes, and whether the last of them was terminated.

    Raises EndlessLine.
    """
    lines = LineBuffer()
    while data := _read(fd):
        complete = lines.feed(data)
        if complete is not None:
            yield complete, True
        if lines.pending > _MAX_LINE_BYTES:
            raise EndlessLine(_MAX_LINE_BYTES)
    rest = lines.rest()
    if rest:
        yield rest, False


def has_hung_up(fd: int) -> bool:
    """Return whether the other end of a pipe or socket was closed, without reading."""
    poll = select.poll()
    poll.register(fd, select.POLLHUP | getattr(select, "POLLRDHUP", 0))
    return any(event & ~select.POLLNVAL for _, event in poll.poll(0))


def _read(fd: int) -> bytes:
    while True:
        try:
            return os.read(fd, _READ_BYTES)
        except BlockingIOError:
            _wait_until_ready(fd, select.POLLIN)
        except OSError:
            # A terminal or socket was hung up: nothing more will come.
            return b""


def _wait_until_ready(fd: int, event: int) -> None:
    """Wait for a non-blocking descriptor: a process that shares it may have made it so."""
    poll = select.poll()
    poll.register(fd, event)
    poll.poll()


class PipeWriter:
    """Writes lines to a file descriptor, from any thread.

    `on_broken` is called once, when the reader is gone.
    """

    def __init__(self, fd: int, on_broken: Callable[[], None]) -> None:
        self._fd = fd
        self._on_broken = on_broken
        self._lock = Lock()
        self._queue: deque[bytes] = deque()
        # Two counters, because each is changed under another lock.
        self._bytes_queued = 0
        self._bytes_written = 0
        self._is_broken = False
        self._is_closed = False
        self._is_mid_line = False
        self._is_wanted = Event()
        self._background: Thread | None = None

    @property
    def is_writing(self) -> bool:
        """Whether a write is under way, which may wait for the reader."""
        return self._lock.locked()

    @property
    def is_full(self) -> bool:
        """Whether more bytes are queued than the writer should hold."""
        return self._bytes_queued - self._bytes_written > _MAX_QUEUED_BYTES

    def queue(self, data: bytes) -> None:
        """Queue lines. The caller is responsible for the order; nothing is written yet.

        After a line that was cut off, as when an agent dies, the next one begins on a new line.
        """
        data = b"\n" + data if self._is_mid_line else data
        self._queue.append(data)
        self._bytes_queued += len(data)
        self._is_mid_line = not data.endswith(b"\n")

    def flush(self) -> None:
        """Write everything that is queued, and wait for the reader if necessary."""
        while self._queue:
            with self._lock:
                while self._queue:
                    data = self._queue.popleft()
                    self._write(data)
                    self._bytes_written += len(data)

    def finish(self) -> None:
        """Write everything that is queued, and wait until no other thread is writing."""
        self.flush()
        with self._lock:
            pass

    def flush_in_background(self) -> None:
        """Have everything that is queued written by a thread of the writer's own."""
        if not self._queue:
            return
        self._is_wanted.set()
        if self._background is None:
            self._background = Thread(target=self._flush_when_wanted, daemon=True)
            self._background.start()

    def flush_or_wait(self) -> None:
        """Flush in the background, but wait if too much is queued."""
        if self.is_full:
            self.flush()
        else:
            self.flush_in_background()

    def close(self) -> bool:
        """Write nothing more; return whether no thread writes, so that the pipe can be closed."""
        self._is_closed = True
        self._is_wanted.set()
        if not self._lock.acquire(blocking=False):
            return False
        self._is_broken = True
        self._lock.release()
        return True

    def _flush_when_wanted(self) -> None:
        while self._is_wanted.wait() and not self._is_closed:
            self._is_wanted.clear()
            self.flush()

    def _write(self, data: bytes) -> None:
        if self._is_broken:
            return
        rest = memoryview(data)
        while rest and not self._is_broken:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                _wait_until_ready(self._fd, select.POLLOUT)
            except OSError:
                self._is_broken = True
                self._on_broken()
