"""A child process under asyncio: its lines, its stderr and its exit. Knows nothing of ACP.

The callback that reads the pipe passes the lines on, in order. There is no queue and no task
between the pipe and the receiver.
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

_STDERR_LINES = 20
_STDERR_LINE_LENGTH = 500
# The end has several signs: both outputs closed, and an exit code. After the first sign, the
# others may take this long.
_EXIT_TIMEOUT = 1.0
_POLL_SECONDS = 0.01


class ProcessExit(Struct, frozen=True):
    """The end of a process, and the last lines of its stderr.

    A process that closed its output and still runs has no exit code.
    """

    exit_code: int | None
    signal: str | None
    stderr: tuple[str, ...]


class LineProtocol(asyncio.Protocol):
    """Passes on the whole lines of each read, joined by newlines."""

    def __init__(
        self,
        on_lines: Callable[[bytes], None],
        on_end: Callable[[], None],
        max_line: int | None = None,
    ) -> None:
        self._buffer = LineBuffer()
        self._on_lines = on_lines
        self._on_end = on_end
        self._max_line = max_line
        self._buffered = 0
        self.has_ended = False

    def data_received(self, data: bytes) -> None:
        """Pass on the lines that are whole now."""
        lines = self._buffer.feed(data)
        if lines is not None:
            self._buffered = 0
            self._on_lines(lines)
            return
        self._buffered += len(data)
        if self._max_line is not None and self._buffered > self._max_line:
            self._buffered = 0
            self._on_lines(self._buffer.rest())

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on the rest, which has no newline, and report the end."""
        del exc
        rest = self._buffer.rest()
        if rest:
            self._on_lines(rest)
        self.has_ended = True
        self._on_end()


class _WriteWatcher(asyncio.BaseProtocol):
    """Notices that the process has closed its input."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._on_end()


class _StderrTail:
    """The last lines of stderr. Each line goes to `on_line`, too."""

    def __init__(self, on_line: Callable[[str], None] | None) -> None:
        self._on_line = on_line
        self._lines: deque[str] = deque(maxlen=_STDERR_LINES)

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(line[:_STDERR_LINE_LENGTH] for line in self._lines)

    def receive(self, data: bytes) -> None:
        for line in data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n"):
            if line.strip():
                self._lines.append(line)
            if self._on_line is not None:
                self._on_line(line)


class _Pipes:
    """The three standard streams of a process."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        stdout: LineProtocol,
        stderr: LineProtocol,
        stdin: _WriteWatcher,
    ) -> None:
        self._process = process
        self._stdout = stdout
        self._stderr = stderr
        self._stdin = stdin
        self._input: asyncio.WriteTransport | None = None
        self._transports: list[asyncio.BaseTransport] = []

    @property
    def have_ended(self) -> bool:
        """Whether both outputs have ended."""
        return self._stdout.has_ended and self._stderr.has_ended

    async def connect(self, loop: asyncio.AbstractEventLoop) -> None:
        for protocol, name in ((self._stdout, "stdout"), (self._stderr, "stderr")):
            transport, _ = await loop.connect_read_pipe(lambda it=protocol: it, self._pipe(name))
            self._transports.append(transport)
        self._input, _ = await loop.connect_write_pipe(lambda: self._stdin, self._pipe("stdin"))
        self._transports.append(self._input)

    def _pipe(self, name: str) -> IO[bytes]:
        return getattr(self._process, name)

    def write(self, data: bytes) -> None:
        if self._input is not None and not self._input.is_closing():
            self._input.write(data)

    def close_input(self) -> None:
        if self._input is not None:
            self._input.close()

    def close(self) -> None:
        if self._input is not None and self._input.get_write_buffer_size():
            # Unwritten data would keep the pipe open. Only then is it aborted: otherwise it is
            # closing already, and asyncio fails if a pipe is closed in both ways.
            self._input.abort()
        for transport in self._transports:
            transport.close()


class _ExitReporter:
    """Waits for the end of a process, and reports it once.

    The end has three signs: the exit, and the end of both outputs. It is reported when all have
    been seen, or a while after the first one: children of the process may hold its streams open.
    """

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        have_outputs_ended: Callable[[], bool],
        report: Callable[[], None],
    ) -> None:
        self.has_exited = asyncio.Event()
        self._process = process
        self._have_outputs_ended = have_outputs_ended
        self._report_now = report
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._is_reported = False
        # A thread of its own: waiting has no limit, and the threads of the executor are few.
        self._thread = threading.Thread(target=self._wait, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_waiting(self) -> bool:
        """Whether the process has not been waited for yet."""
        return self._thread.is_alive()

    def join(self) -> None:
        """Wait for the exit of a process that was killed, and report it."""
        self._thread.join(_EXIT_TIMEOUT)
        if self._timer is not None:
            self._timer.cancel()
        self.report()

    def notice(self) -> None:
        """Note one sign of the end."""
        if self.has_exited.is_set() and self._have_outputs_ended():
            self.report()
        elif self._timer is None and not self._is_reported:
            self._timer = self._loop.call_later(_EXIT_TIMEOUT, self.report)

    def report(self) -> None:
        """Report the end, if that was not done before."""
        if self._is_reported:
            return
        self._is_reported = True
        if self._timer is not None:
            self._timer.cancel()
        self._report_now()

    def _wait(self) -> None:
        self._process.wait()
        with suppress(RuntimeError):  # the loop may be closed by now
            self._loop.call_soon_threadsafe(self._notice_exit)

    def _notice_exit(self) -> None:
        self.has_exited.set()
        self.notice()


class ChildProcess:
    """A process that `group.start` has started, until `end` or `kill`."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        on_lines: Callable[[bytes], None],
        on_stderr: Callable[[str], None] | None,
        on_end: Callable[[ProcessExit], None],
        *,
        max_line: int | None = None,
    ) -> None:
        """Set the callbacks. A line of stdout above `max_line` bytes is passed on in pieces."""
        self.pid = process.pid
        self._process = process
        self._on_end = on_end
        self._stderr = _StderrTail(on_stderr)
        self._pipes = _Pipes(
            process,
            LineProtocol(on_lines, self._notice_end, max_line),
            LineProtocol(self._stderr.receive, self._notice_end),
            _WriteWatcher(self._notice_end),
        )
        self._exit = _ExitReporter(process, lambda: self._pipes.have_ended, self._report_end)

    @property
    def stderr_tail(self) -> tuple[str, ...]:
        """The last lines of stderr."""
        return self._stderr.lines

    async def connect(self) -> None:
        """Start to read from the process. `on_end` is called once, after all lines."""
        self._exit.start()
        await self._pipes.connect(asyncio.get_running_loop())

    def write(self, line: bytes) -> None:
        """Write a line. It waits in memory until the process reads it."""
        self._pipes.write(line + b"\n")

    async def end(self, grace: float) -> bool:
        """End the process and its children: close its input, wait, send SIGTERM, then kill.

        Returns whether the process itself exited within `grace` seconds.
        """
        self._pipes.close_input()
        in_time = False
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    in_time = await self._exit.has_exited.wait()
            if group.send_signal(self.pid, signal.SIGTERM):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_EXIT_TIMEOUT):
                        await self._wait_for_group()
        finally:
            self.kill()
        # Transports close in the next iteration of the loop.
        await asyncio.sleep(0)
        return in_time

    async def _wait_for_group(self) -> None:
        while group.send_signal(self.pid, 0):  # noqa: ASYNC110 - no event reports a group's end
            await asyncio.sleep(_POLL_SECONDS)

    def kill(self) -> None:
        """Kill the process and its children at once, and close its pipes."""
        group.send_signal(self.pid, signal.SIGKILL)
        if self._exit.is_waiting:
            # The process may have moved to another group, which the signal did not reach.
            self._process.kill()
        self._exit.join()
        self._pipes.close()

    def _notice_end(self) -> None:
        self._exit.notice()

    def _report_end(self) -> None:
        code, name = None, None
        if self._process.returncode is not None:
            code, name = group.exit_status(self._process.returncode)
        self._on_end(ProcessExit(code, name, self.stderr_tail))
