"""The ends of pipes: reading lines from one, writing to another.

Two threads may write to one sink: the one that passes lines on in that direction, and the
other when it answers by itself. What they write is queued in the order in which it was
decided on, and whoever has the sink's lock writes for both: the thread that only answers
does not queue up behind one that waits for a slow reader. Only when very much is queued it
waits, too: a peer that has much answered by us and reads nothing would else fill the memory.
"""

import os
import select
from collections import deque
from collections.abc import Callable, Iterator
from threading import Event, Lock, Thread

from rekindle.acp.framing import LineBuffer
from rekindle.errors import EndlessLine

# 256 KiB reads were measured at half the speed of 64 KiB ones.
_READ = 65536
# Beyond all that anybody means to send; it is held as a whole before it can be passed on.
_LONGEST_LINE = 256 * 1024 * 1024
# More than what a peer that writes a long line before it reads on may have to leave unread.
_MOST_QUEUED = 16 * 1024 * 1024


def read_lines(fd: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines that each read completes, and whether the last of them was terminated.

    Raises EndlessLine.
    """
    lines = LineBuffer()
    while data := _read(fd):
        complete = lines.feed(data)
        if complete is not None:
            yield complete, True
        if lines.pending > _LONGEST_LINE:
            raise EndlessLine(_LONGEST_LINE)
    rest = lines.rest()
    if rest:
        yield rest, False


def has_hung_up(fd: int) -> bool:
    """Tell whether the other end of a pipe or socket was closed, without reading."""
    poll = select.poll()
    poll.register(fd, select.POLLHUP | getattr(select, "POLLRDHUP", 0))
    return any(event & ~select.POLLNVAL for _, event in poll.poll(0))


def _read(fd: int) -> bytes:
    while True:
        try:
            return os.read(fd, _READ)
        except BlockingIOError:
            _wait_for(fd, select.POLLIN)
        except OSError:
            # A terminal or socket that was hung up: nothing more will come.
            return b""


def _wait_for(fd: int, event: int) -> None:
    """Wait at a descriptor that does not wait by itself: whoever shares it may have set it so."""
    poll = select.poll()
    poll.register(fd, event)
    poll.poll()


class Sink:
    """Where lines are written. `on_broken` is called once, when nobody reads them any more."""

    def __init__(self, fd: int, on_broken: Callable[[], None]) -> None:
        self._fd = fd
        self._on_broken = on_broken
        self._lock = Lock()
        self._queue: deque[bytes] = deque()
        # Two, because each is counted under another lock.
        self._bytes_queued = 0
        self._bytes_written = 0
        self._is_broken = False
        self._is_closed = False
        self._is_mid_line = False
        self._is_wanted = Event()
        self._writer: Thread | None = None

    @property
    def is_writing(self) -> bool:
        """Whether a write is under way, and perhaps waits for the reader."""
        return self._lock.locked()

    @property
    def is_full(self) -> bool:
        """Whether more is queued than should be."""
        return self._bytes_queued - self._bytes_written > _MOST_QUEUED

    def put(self, data: bytes) -> None:
        """Queue lines. The caller sees to the order; nothing is written yet.

        What follows a line that was cut off, as when an agent dies, begins a new one.
        """
        data = b"\n" + data if self._is_mid_line else data
        self._queue.append(data)
        self._bytes_queued += len(data)
        self._is_mid_line = not data.endswith(b"\n")

    def flush(self, *, wait: bool) -> None:
        """Write what is queued. Without `wait`, leave it to a thread that is writing now."""
        while self._queue and self._lock.acquire(blocking=wait):
            try:
                while self._queue:
                    data = self._queue.popleft()
                    self._write(data)
                    self._bytes_written += len(data)
            finally:
                self._lock.release()

    def flush_aside(self) -> None:
        """Have what is queued written by a thread of its own: the caller has something to read."""
        if not self._queue:
            return
        self._is_wanted.set()
        if self._writer is None:
            self._writer = Thread(target=self._write_aside, daemon=True)
            self._writer.start()

    def close(self) -> bool:
        """Write nothing more; tell whether nobody is writing, so that the pipe can be closed."""
        self._is_closed = True
        self._is_wanted.set()
        if not self._lock.acquire(blocking=False):
            return False
        self._is_broken = True
        self._lock.release()
        return True

    def flush_aside_or_wait(self) -> None:
        """Do the same, but wait if it is too much: the caller reads nothing more meanwhile."""
        if self.is_full:
            self.flush(wait=True)
        else:
            self.flush_aside()

    def _write_aside(self) -> None:
        while self._is_wanted.wait() and not self._is_closed:
            self._is_wanted.clear()
            self.flush(wait=True)

    def _write(self, data: bytes) -> None:
        if self._is_broken:
            return
        rest = memoryview(data)
        while rest and not self._is_broken:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                _wait_for(self._fd, select.POLLOUT)
            except OSError:
                self._is_broken = True
                self._on_broken()
