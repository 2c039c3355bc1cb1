"""The stdio transport: lines on a pair of file descriptors."""

import os
import select
from collections.abc import Callable, Iterator

from rekindle.acp.framing import LineBuffer
from rekindle.errors import EndlessLine
from rekindle.runtime.transports.pipe_writer import PipeWriter

# Reads of 256 KiB were measured at half the speed of 64 KiB.
_READ_BYTES = 65536
# Larger than any real message. A line is held whole before it can be forwarded.
_MAX_LINE_BYTES = 256 * 1024 * 1024


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
        elif lines.pending > _MAX_LINE_BYTES:
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
