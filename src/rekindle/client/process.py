"""The agent's process, under asyncio: lines in, lines out, and its end. Knows nothing of ACP.

Lines are handed on by the callback that reads the pipe, in the order in which they came: there
is no queue between the pipe and whoever is told, and no task.
"""

import asyncio
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import IO

from msgspec import Struct

from rekindle.acp.framing import LineBuffer
from rekindle.process import group

_LAST_LINES = 20
_LONGEST_LINE = 500
# How long the rest may take, once one sign of the end was seen: its output, its exit code.
_FAREWELL = 1.0
_TICK = 0.01


class Ended(Struct, frozen=True):
    """How a process ended, as far as it did, and the last lines of its stderr."""

    exit_code: int | None
    signal: str | None
    stderr: tuple[str, ...]


class _Reading(asyncio.Protocol):
    """Hands on whole lines, joined by newlines, as each read brings them."""

    def __init__(
        self,
        on_lines: Callable[[bytes], None],
        on_end: Callable[[], None],
        longest: int | None = None,
    ) -> None:
        self._buffer = LineBuffer()
        self._on_lines = on_lines
        self._on_end = on_end
        self._longest = longest
        self._waiting = 0
        self.has_ended = False

    def data_received(self, data: bytes) -> None:
        lines = self._buffer.feed(data)
        if lines is not None:
            self._waiting = 0
            self._on_lines(lines)
            return
        self._waiting += len(data)
        if self._longest is not None and self._waiting > self._longest:
            self._waiting = 0
            self._on_lines(self._buffer.rest())

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        rest = self._buffer.rest()
        if rest:
            self._on_lines(rest)
        self.has_ended = True
        self._on_end()


class _Writing(asyncio.BaseProtocol):
    """Notices when the process does not read any more."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._on_end()


class Process:
    """A process that runs until `end`, as `process_group.start` starts it."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        on_lines: Callable[[bytes], None],
        on_stderr: Callable[[str], None] | None,
        on_end: Callable[[Ended], None],
        *,
        longest: int | None = None,
    ) -> None:
        """Say what is to be told; a line of stdout above `longest` bytes is told in pieces."""
        self.pid = process.pid
        self._process = process
        self._on_stderr = on_stderr
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._has_exited = asyncio.Event()
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._stdout = _Reading(on_lines, self._notice_end, longest)
        self._stderr = _Reading(self._remember, self._notice_end)
        self._writing = _Writing(self._notice_end)
        self._stdin: asyncio.WriteTransport | None = None
        self._transports: list[asyncio.BaseTransport] = []
        self._farewell: asyncio.TimerHandle | None = None
        self._is_told = False
        # Its own thread, as waiting has no limit and those of the loop's executor are few.
        self._waiter = threading.Thread(target=self._wait, daemon=True)

    async def connect(self) -> None:
        """Begin to hear the process. `on_end` is called once, when nothing more will come."""
        self._waiter.start()
        loop = self._loop
        for protocol, pipe in ((self._stdout, "stdout"), (self._stderr, "stderr")):
            reading, _ = await loop.connect_read_pipe(lambda it=protocol: it, self._pipe(pipe))
            self._transports.append(reading)
        self._stdin, _ = await loop.connect_write_pipe(lambda: self._writing, self._pipe("stdin"))
        self._transports.append(self._stdin)

    def _pipe(self, name: str) -> IO[bytes]:
        return getattr(self._process, name)

    # -- writing ------------------------------------------------------------------------

    def write(self, line: bytes) -> None:
        """Write a line. What the process does not take in yet waits in memory."""
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(line + b"\n")

    # -- the end ------------------------------------------------------------------------

    async def end(self, grace: float) -> None:
        """End the process and its children: close its input, wait, ask, then force."""
        if self._stdin is not None:
            self._stdin.close()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._has_exited.wait()
            if group.send_signal(self.pid, signal.SIGTERM):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_FAREWELL):
                        await self._group_ended()
        finally:
            self.kill()
        # Transports close when the loop comes round to it.
        await asyncio.sleep(0)

    async def _group_ended(self) -> None:
        while group.send_signal(self.pid, 0):  # noqa: ASYNC110 - nothing tells of a group's end
            await asyncio.sleep(_TICK)

    def kill(self) -> None:
        """End the process and its children at once, and leave nothing of them behind."""
        group.send_signal(self.pid, signal.SIGKILL)
        if self._waiter.is_alive():
            # It may have moved to another group, where that signal did not reach it.
            self._process.kill()
        self._waiter.join(_FAREWELL)
        if self._farewell is not None:
            self._farewell.cancel()
        self._tell_end()
        if self._stdin is not None and self._stdin.get_write_buffer_size():
            # What was not taken in by now would keep it open. Without that, it is closing already,
            # and asyncio stumbles where a pipe is closed in both ways.
            self._stdin.abort()
        for transport in self._transports:
            transport.close()

    def _wait(self) -> None:
        self._process.wait()
        with suppress(RuntimeError):  # the loop may be closed by now
            self._loop.call_soon_threadsafe(self._notice_exit)

    def _notice_exit(self) -> None:
        self._has_exited.set()
        self._notice_end()

    def _notice_end(self) -> None:
        """See one sign of the end, and tell of it when all are seen, or none comes for a while.

        Children of an agent that has ended may hold its streams open.
        """
        if self._has_exited.is_set() and self._stdout.has_ended and self._stderr.has_ended:
            self._tell_end()
        elif self._farewell is None and not self._is_told:
            self._farewell = self._loop.call_later(_FAREWELL, self._tell_end)

    def _tell_end(self) -> None:
        if self._is_told:
            return
        self._is_told = True
        if self._farewell is not None:
            self._farewell.cancel()
        code, name = None, None
        if self._process.returncode is not None:
            code, name = group.exit_status(self._process.returncode)
        self._on_end(Ended(code, name, self.last_words))

    # -- stderr -------------------------------------------------------------------------

    @property
    def last_words(self) -> tuple[str, ...]:
        """The last lines of its stderr."""
        return tuple(line[:_LONGEST_LINE] for line in self._last_lines)

    def _remember(self, data: bytes) -> None:
        for line in data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n"):
            if line.strip():
                self._last_lines.append(line)
            if self._on_stderr is not None:
                self._on_stderr(line)
