"""Write lines to a file descriptor, from any thread.

Two threads may write to one pipe: the thread that forwards messages in that direction, and the
other one when the engine answers by itself. Both queue their lines in the order in which the engine
decided on them, and the thread that holds the writer's lock writes for both. So a thread that only
answers does not wait behind a thread that waits for a slow reader. If very much is queued, it waits
too: otherwise a peer that causes many responses and reads none would fill the memory.

A writer that must not wait holds no thread back. Unread lines wait in a temporary file.
"""

import os
import select
import stat
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import IO, NamedTuple

# More than a peer may leave unread while it writes one long line.
_MAX_QUEUED_BYTES = 16 * 1024 * 1024
_MAX_UNSPOOLED_BYTES = 256 * 1024
_READ_BYTES = 256 * 1024
_POLL_MILLISECONDS = 200


class Spool:
    """Bytes that wait in a temporary file without a name; in memory if the file fails."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._start: int = 0
        self._end: int = 0
        self._rest: deque[bytes] = deque()

    def __bool__(self) -> bool:
        return self._end > self._start or bool(self._rest)

    def put(self, data: bytes) -> None:
        """Add bytes at the end."""
        if self._rest:
            self._rest.append(data)
            return
        import tempfile  # noqa: PLC0415 - slow to import, and seldom needed

        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - kept open
            self._file.seek(self._end)
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            self._rest.append(data)
        else:
            self._end += len(data)

    def take(self) -> bytes:
        """Return and remove some bytes from the beginning."""
        if self._end == self._start or self._file is None:
            return self._rest.popleft()
        self._file.seek(self._start)
        data = self._file.read(min(_READ_BYTES, self._end - self._start))
        self._start += len(data)
        if self._start == self._end:
            self._start = self._end = 0
            self._file.close()
            self._file = None
        return data


class WayToWrite(NamedTuple):
    """A function that writes some bytes to a descriptor, and may raise BlockingIOError."""

    fd: int
    write: Callable[[int, memoryview], int]
    is_blocking: bool
    """Whether it waits for the reader."""
    close: Callable[[], None]
    """Frees its resources."""


class ByteQueue:
    """Bytes that wait to be written, in order. A spool takes the bytes beyond a limit."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.in_memory: deque[bytes] = deque()
        self._spool = Spool()
        self._is_spooling = False
        """Whether the spool was ever used."""
        # Two counters, because one thread adds and another one writes.
        self.added = self.written = 0
        self._is_mid_line = False

    def __bool__(self) -> bool:
        return bool(self.in_memory) or (self._is_spooling and bool(self._spool))

    @property
    def unread(self) -> int:
        """The number of bytes that were added and not written."""
        return self.added - self.written

    def add(self, data: bytes, *, may_spool: bool) -> None:
        """Add lines. After a line that was cut off, the next one begins on a new line."""
        data = b"\n" + data if self._is_mid_line else data
        if may_spool or (self._is_spooling and self._spool):
            with self._lock:
                if self._spool or (may_spool and self.unread > _MAX_UNSPOOLED_BYTES):
                    self._is_spooling = True
                    self._spool.put(data)
                else:
                    self.in_memory.append(data)
        else:
            self.in_memory.append(data)
        self.added += len(data)
        self._is_mid_line = not data.endswith(b"\n")

    def take(self) -> bytes:
        """Return and remove the first bytes; none if nothing waits."""
        if self.in_memory:
            return self.in_memory.popleft()
        if not (self._is_spooling and self._spool):
            return b""
        with self._lock:
            return self._spool.take() if self._spool else b""

    def put_back(self, rest: bytes) -> None:
        """Make bytes the first again, because they were not written."""
        self.in_memory.appendleft(rest)


class PipeWriter:
    """Writes lines to a file descriptor, from any thread.

    `on_broken` is called once, when the reader is gone. With `may_wait` false, no method waits for
    the reader, except `finish`.
    """

    def __init__(
        self,
        fd: int,
        on_broken: Callable[[], None],
        *,
        may_wait: bool = True,
    ) -> None:
        self._fd = fd
        self._way = WayToWrite(fd, os.write, os.get_blocking(fd), lambda: None)
        self._on_broken = on_broken
        self._may_wait = self._waits_usually = may_wait
        self._lock = Lock()
        self._queue = ByteQueue()
        self._is_broken = False
        self._is_closed = False
        self._is_wanted = Event()
        self._background: Thread | None = None

    @property
    def is_writing(self) -> bool:
        """Whether a write is under way, which may wait for the reader."""
        return self._lock.locked()

    @property
    def is_full(self) -> bool:
        """Whether more bytes are queued than the writer should hold."""
        return self._may_wait and self._queue.unread > _MAX_QUEUED_BYTES

    def become_interruptible(self) -> None:
        """Let `never_wait` release a thread that waits for the reader, where the system allows it.

        The first writer does without: the imports for this would delay the start.
        """
        self._way = non_blocking_write(self._fd)

    def never_wait(self) -> None:
        """Hold no thread back from now on, and release the threads that wait for the reader."""
        self._may_wait = False

    def wait_again(self) -> None:
        """Undo `never_wait`, unless the writer was made so that it may not wait."""
        self._may_wait = self._waits_usually

    def queue(self, data: bytes) -> None:
        """Queue lines. The caller is responsible for the order; nothing is written yet.

        After a line that was cut off, as when an agent dies, the next one begins on a new line.
        """
        self._queue.add(data, may_spool=not self._may_wait)

    def flush(self) -> None:
        """Write everything that is queued, and wait for the reader if that is allowed."""
        self._drain(lambda: self._may_wait)

    def finish(self) -> None:
        """Write everything that is queued, and wait until no other thread is writing."""
        self._drain(lambda: True)
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
        if not self._queue:
            return
        if self.is_full:
            self.flush()
        else:
            self.flush_in_background()

    def close(self) -> bool:
        """Write nothing more; return whether no thread writes, so that the pipe can be closed."""
        self._is_closed = True
        self._is_wanted.set()
        return self._close_way()

    def _close_way(self) -> bool:
        """Free the resources unless a thread writes, which does it afterwards."""
        if not self._lock.acquire(blocking=False):
            return False
        self._is_broken = True
        way, self._way = self._way, self._way._replace(close=lambda: None)
        way.close()
        self._lock.release()
        return True

    def _flush_when_wanted(self) -> None:
        while self._is_wanted.wait() and not self._is_closed:
            self._is_wanted.clear()
            self._drain(lambda: True)

    def _drain(self, may_wait: Callable[[], bool]) -> None:
        """Write the queued bytes. Leave the rest to the background if it cannot be written now.

        If another thread is writing, it writes these bytes too.
        """
        queue = self._queue
        # Checked first, because a method call costs more.
        while queue.in_memory or queue:
            if not (self._lock.acquire(blocking=False) or self._wait_for_lock(may_wait)):
                return
            rest = b""
            try:
                while not rest and (queue.in_memory or queue):
                    data = queue.take()
                    rest = self._write(data, may_wait)
                    queue.written += len(data) - len(rest)
                if rest:
                    queue.put_back(rest)
            finally:
                self._lock.release()
                if self._is_closed:
                    self._close_way()
            if rest:
                self.flush_in_background()
                return

    def _wait_for_lock(self, may_wait: Callable[[], bool]) -> bool:
        """Wait for the lock while that is allowed; return whether it is acquired."""
        while not self._lock.acquire(timeout=_POLL_MILLISECONDS / 1000 if may_wait() else 0):
            if not may_wait():
                return False
        return True

    def _write(self, data: bytes, may_wait: Callable[[], bool]) -> bytes:
        """Write some bytes; return the rest, which cannot be written without waiting."""
        way, rest = self._way, memoryview(data)
        while not (self._is_broken or self._is_closed):
            try:
                if way.is_blocking and not may_wait():
                    return bytes(rest)
                written = way.write(way.fd, rest)
                if written == len(rest):
                    return b""
                rest = rest[written:]
            except BlockingIOError:
                while not _is_ready(self._fd, _POLL_MILLISECONDS if may_wait() else 0):
                    if self._is_closed:
                        return b""
                    if not may_wait():
                        return bytes(rest)
            except OSError:
                self._is_broken = True
                self._on_broken()
        return b""


def non_blocking_write(fd: int) -> WayToWrite:
    """Return a way to write to a descriptor without waiting for the reader, if there is one.

    The flags of the descriptor stay as they are, because other processes share them.
    """
    import socket  # noqa: PLC0415 - slow to import

    mode = os.fstat(fd).st_mode
    if stat.S_ISSOCK(mode):
        connection = socket.socket(fileno=os.dup(fd))

        def send(_: int, data: memoryview) -> int:
            return connection.send(data, socket.MSG_DONTWAIT)

        return WayToWrite(fd, send, is_blocking=False, close=connection.close)
    if stat.S_ISFIFO(mode):
        with suppress(OSError):
            own = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK)
            return WayToWrite(own, os.write, is_blocking=False, close=lambda: os.close(own))
    return WayToWrite(fd, os.write, os.get_blocking(fd), lambda: None)


def _is_ready(fd: int, milliseconds: int) -> bool:
    """Return whether a descriptor can be written to, or its reader is gone."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(milliseconds))
