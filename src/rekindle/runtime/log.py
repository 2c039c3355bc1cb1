"""Messages outside the protocol: reports to the user on stderr, and notes in a log file.

The log records events, never the content of a conversation. A client need not read our stderr, so
a thread of its own writes to it: a full pipe there must not stop a conversation.
"""

import errno
import os
import re
import stat
import time
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO, Self

from rekindle.errors import UsageError

STDERR = 2

_MAX_WAITING = 1000
_CLOSE_TIMEOUT = 0.5
_START_BYTES = 64
_STREAM = re.compile(r"/dev/(?P<name>stdout|stderr)|(?:/dev|/proc/self)/fd/(?P<number>\d{1,9})")
_STREAM_NUMBERS = {"stdout": 1, "stderr": STDERR}
_LOG_START = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \[\d+\] "


class Log:
    """Writes whole lines, from any thread, without ever waiting for a reader."""

    def __init__(self, path: Path | None = None) -> None:
        self._file: BinaryIO | None = None
        self._waiting: SimpleQueue[bytes | None] = SimpleQueue()
        """The reports that are not written yet. None ends the thread."""
        self._writer: Thread | None = None
        if path is not None:
            self._file = _open_log(path)

    def note(self, text: str) -> None:
        """Write a line to the log file, if there is one."""
        if self._file:
            now = time.time()
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
            printable = _printable(text)
            line = f"{stamp}.{int(now * 1000) % 1000:03d}Z [{os.getpid()}] {printable}\n"
            try:
                self._file.write(line.encode("utf-8", "replace"))
            except (OSError, ValueError):
                # A log on a full disk, or a closed one, must not stop a conversation.
                return

    def report(self, text: str, *, quote: str = "") -> None:
        """Report to the user and the log. A quote may hold content, so only the user sees it."""
        self.note(text)
        # Stderr may be a terminal, which must not obey control sequences in the text.
        shown = _printable(f"{text}: {quote}" if quote else text)
        if self._waiting.qsize() < _MAX_WAITING:
            self._waiting.put(f"rekindle: {shown}\n".encode("utf-8", "replace"))
        if self._writer is None:
            self._writer = Thread(target=self._write_reports, daemon=True)
            self._writer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer:
            self._waiting.put(None)
            self._writer.join(_CLOSE_TIMEOUT)
        if self._file:
            self._file.close()

    def _write_reports(self) -> None:
        # The thread lives on when the queue is empty: a report may come at any moment.
        while (line := self._waiting.get()) is not None:
            write_stderr(line)


def _open_log(path: Path) -> BinaryIO:
    """Open a log to append to it. Raises UsageError if it is not a log of Rekindle.

    A stream of the process, such as `/dev/stderr`, is a symbolic link too, and may be any file.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    stream = _STREAM.fullmatch(os.path.normpath(path))
    try:
        if stream is not None:
            # A copy has the same position in the file, so neither overwrites the other's lines.
            fd = os.dup(_STREAM_NUMBERS.get(stream["name"]) or int(stream["number"]))
            return os.fdopen(fd, "wb", buffering=0)
        fd = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            text = f"the log {path} is a symbolic link, which is not followed: name the file itself"
            raise UsageError(text) from error
        raise UsageError(f"cannot write the log {path}: {error.strerror}") from error
    is_file = stat.S_ISREG(os.fstat(fd).st_mode)
    start = os.pread(fd, _START_BYTES, 0) if is_file else b""
    if start and not re.match(_LOG_START, start):
        os.close(fd)
        raise UsageError(f"{path} is not a log of Rekindle: name a new file")
    return os.fdopen(fd, "wb", buffering=0)


def write_stderr(data: bytes) -> None:
    """Write to stderr. A closed stderr is ignored."""
    while data:
        try:
            data = data[os.write(STDERR, data) :]
        except OSError:
            return


def _printable(text: str) -> str:
    from rekindle.text.sanitize import spelled_out  # noqa: PLC0415 - the agent is started first

    return spelled_out(text)
