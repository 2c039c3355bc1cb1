"""Messages outside the protocol: reports to the user on stderr, and notes in a log file.

The log records events, never the content of a conversation. A client need not read our stderr, so
a thread of its own writes to it: a full pipe there must not stop a conversation.
"""

import os
import time
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO, Self

from rekindle.errors import UsageError

STDERR = 2

_MAX_WAITING = 1000
_CLOSE_TIMEOUT = 0.5


class Log:
    """Writes whole lines, from any thread, without ever waiting for a reader."""

    def __init__(self, path: Path | None = None) -> None:
        self._file: BinaryIO | None = None
        self._waiting: SimpleQueue[bytes | None] = SimpleQueue()
        """The reports that are not written yet. None ends the thread."""
        self._writer: Thread | None = None
        if path is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            try:
                self._file = os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0)
            except OSError as error:
                raise UsageError(f"cannot write the log {path}: {error.strerror}") from error

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
