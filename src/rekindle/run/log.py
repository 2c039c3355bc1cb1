"""What Rekindle says outside the protocol: to the user on stderr, and to a log file.

The log tells what happened, never what was said in a conversation.
"""

import os
import time
from pathlib import Path
from typing import BinaryIO, Self

from rekindle.errors import UsageError

STDERR = 2


class Log:
    """Writes whole lines, from any thread, unbuffered."""

    def __init__(self, path: Path | None = None) -> None:
        self._file: BinaryIO | None = None
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
            line = f"{stamp}.{int(now * 1000) % 1000:03d}Z [{os.getpid()}] {text}\n"
            try:
                self._file.write(line.encode("utf-8", "replace"))
            except OSError:
                # A log on a full disk must not stop a conversation.
                return

    def tell(self, text: str) -> None:
        """Tell the user, and the log."""
        self.note(text)
        write_stderr(f"rekindle: {text}\n".encode("utf-8", "replace"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()


def write_stderr(data: bytes) -> None:
    """Write to stderr, whether or not anybody still reads it."""
    while data:
        try:
            data = data[os.write(STDERR, data) :]
        except OSError:
            return
