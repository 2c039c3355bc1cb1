"""What Rekindle says outside the protocol: to the user on stderr, and to a log file.

The log tells what happened, never what was said in a conversation. Nobody has to read our
stderr, so it is written by a thread of its own: a client that does not must not stop us.
"""

import os
import time
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO, Self

from rekindle.errors import UsageError

STDERR = 2

_MOST_WAITING = 1000
_PATIENCE_AT_THE_END = 0.5


class Log:
    """Writes whole lines, from any thread, without ever waiting for a reader."""

    def __init__(self, path: Path | None = None) -> None:
        self._file: BinaryIO | None = None
        self._waiting: SimpleQueue[bytes | None] = SimpleQueue()
        """After the last comes None."""
        self._teller: Thread | None = None
        if path is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            try:
                self._file = os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0)
            except OSError as error:
                raise UsageError(f"cannot write the log {path}: {error.strerror}") from error

    def note(self, text: str) -> None:
        """Write to the log file, if there is one."""
        if self._file:
            now = time.time()
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
            said = _spelled_out(text)
            line = f"{stamp}.{int(now * 1000) % 1000:03d}Z [{os.getpid()}] {said}\n"
            try:
                self._file.write(line.encode("utf-8", "replace"))
            except (OSError, ValueError):
                # A log on a full disk, or closed already, must not stop a conversation.
                return

    def report(self, text: str, *, quote: str = "") -> None:
        """Tell the user, and the log; what was said in the conversation only to the user."""
        self.note(text)
        # Stderr may be a terminal, which must not obey what anybody says, nor a file's name.
        shown = _spelled_out(f"{text}: {quote}" if quote else text)
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put(f"rekindle: {shown}\n".encode("utf-8", "replace"))
        if self._teller is None:
            self._teller = Thread(target=self._tell_all, daemon=True)
            self._teller.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._teller:
            self._waiting.put(None)
            self._teller.join(_PATIENCE_AT_THE_END)
        if self._file:
            self._file.close()

    def _tell_all(self) -> None:
        # It stays: one that ends when there is nothing to tell may not see what comes just then.
        while (said := self._waiting.get()) is not None:
            write_stderr(said)


def write_stderr(data: bytes) -> None:
    """Write to stderr, whether or not anybody still reads it."""
    while data:
        try:
            data = data[os.write(STDERR, data) :]
        except OSError:
            return


def _spelled_out(text: str) -> str:
    from rekindle.text.sanitize import spelled_out  # noqa: PLC0415 - the agent is started first

    return spelled_out(text)
