"""A terminal for tests: starts a program in one, types, and waits for what is shown."""

import fcntl
import os
import re
import select
import struct
import termios
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import warm_start
from stdio_client import PATIENCE, REKINDLE

_CLEARED = "\r\x1b[2K"
_UP_AND_CLEARED = "\x1b[1A\x1b[2K"
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[=>78]|\x1b\][^\x07]*\x07")


class Terminal:
    """`rekindle` in a terminal. Every wait is bounded."""

    def __init__(
        self,
        *arguments: str | Path,
        cwd: Path | None = None,
        rows: int = 40,
        columns: int = 80,
        **environ: str,
    ) -> None:
        self._own, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        # Nobody is here to tell where the cursor is.
        around: Mapping[str, str] = {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "PAGER": "cat"}
        self.process = warm_start.Popen(
            [*REKINDLE, *arguments],
            terminal=True,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env={**_without_size(os.environ), **around, **environ},
        )
        os.close(theirs)
        self.raw = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._own)

    @property
    def shown(self) -> str:
        """All that was shown and not taken back, without colours and the like."""
        lines = _ESCAPES.sub("", "\n".join(_left(self.raw.split("\n")))).replace("\r", "")
        return "\n".join(line.rstrip() for line in lines.split("\n"))

    def type(self, keys: str) -> None:
        """Press some keys."""
        os.write(self._own, keys.encode())

    def enter(self, words: str) -> None:
        """Type a line."""
        self.type(f"{words}\r")

    def wait_for(self, words: str, start: int = 0) -> str:
        """Wait until some words are shown, after that many characters."""
        deadline = time.monotonic() + PATIENCE
        while words not in self.shown[max(0, start) :]:
            assert time.monotonic() < deadline, f"{words!r} is not in {self.shown!r}"
            assert self._read(deadline), f"ended without {words!r}: {self.shown!r}"
        return self.shown

    def stays(self, seconds: float) -> None:
        """See that nothing more is shown for so long."""
        before = len(self.raw)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self._read(deadline), f"ended: {self.shown!r}"
        assert self.raw[before:] == ""

    def end(self) -> int:
        """Wait for the program's end, and return its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            assert time.monotonic() < deadline, f"does not end: {self.shown!r}"
        return self.process.wait(PATIENCE)

    def _read(self, deadline: float) -> bool:
        """Take in what there is; tell whether there may be more."""
        ready, _, _ = select.select([self._own], [], [], max(0.0, deadline - time.monotonic()))
        data = b""
        if ready:
            # Where nobody has the other end any more, Linux says so by an error.
            with suppress(OSError):
                data = os.read(self._own, 65536)
            if not data:
                return False
        self.raw += data.decode("utf-8", "replace")
        return True


def _without_size(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that does not tell the size of another terminal."""
    return {name: it for name, it in environ.items() if name not in {"LINES", "COLUMNS"}}


def _left(lines: list[str]) -> list[str]:
    """Return what is left of lines, some of which were shown for a moment and taken back."""
    left: list[str] = []
    for line in lines:
        rest = line
        while rest.startswith(_UP_AND_CLEARED) and left:
            left.pop()
            rest = rest.removeprefix(_UP_AND_CLEARED)
        left.append(rest.rpartition(_CLEARED)[2])
    return left
