"""A terminal for tests: it starts a program, types, and waits for output."""

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
from stdio_client import REKINDLE, TIMEOUT

_CLEARED = "\r\x1b[2K"
_UP_AND_CLEARED = "\x1b[1A\x1b[2K"
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[=>78]|\x1b\][^\x07]*\x07")


class Terminal:
    """`rekindle` on a terminal. Every wait is bounded."""

    def __init__(
        self,
        *arguments: str | Path,
        cwd: Path | None = None,
        rows: int = 40,
        columns: int = 80,
        **environ: str,
    ) -> None:
        self._fd, other_end = os.openpty()
        fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        # The terminal does not answer requests for the cursor position.
        variables: Mapping[str, str] = {
            "TERM": "xterm",
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "PAGER": "cat",
        }
        self.process = warm_start.Popen(
            [*REKINDLE, *arguments],
            terminal=True,
            stdin=other_end,
            stdout=other_end,
            stderr=other_end,
            cwd=cwd,
            env={**_without_size(os.environ), **variables, **environ},
        )
        os.close(other_end)
        self.raw = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._fd)

    @property
    def shown(self) -> str:
        """The output without erased lines and escape sequences."""
        lines = _ESCAPES.sub("", "\n".join(_without_erased(self.raw.split("\n")))).replace("\r", "")
        return "\n".join(line.rstrip() for line in lines.split("\n"))

    def type(self, keys: str) -> None:
        """Press some keys."""
        os.write(self._fd, keys.encode())

    def enter(self, line: str) -> None:
        """Type a line."""
        self.type(f"{line}\r")

    def wait_for(self, text: str, start: int = 0) -> str:
        """Wait until a text is shown after the first `start` characters; return the output."""
        deadline = time.monotonic() + TIMEOUT
        while text not in self.shown[max(0, start) :]:
            assert time.monotonic() < deadline, f"{text!r} is not in {self.shown!r}"
            assert self._read(deadline), f"ended without {text!r}: {self.shown!r}"
        return self.shown

    def assert_unchanged(self, seconds: float) -> None:
        """Assert that nothing more is shown for some seconds."""
        before = len(self.raw)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self._read(deadline), f"ended: {self.shown!r}"
        assert self.raw[before:] == ""

    def end(self) -> int:
        """Wait for the program's exit; return its exit code."""
        deadline = time.monotonic() + TIMEOUT
        while self._read(deadline):
            assert time.monotonic() < deadline, f"does not end: {self.shown!r}"
        return self.process.wait(TIMEOUT)

    def _read(self, deadline: float) -> bool:
        """Read available output; return whether there may be more."""
        ready, _, _ = select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))
        data = b""
        if ready:
            # Linux raises an error once the other end is closed.
            with suppress(OSError):
                data = os.read(self._fd, 65536)
            if not data:
                return False
        self.raw += data.decode("utf-8", "replace")
        return True


def _without_size(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the size of another terminal."""
    return {name: value for name, value in environ.items() if name not in {"LINES", "COLUMNS"}}


def _without_erased(lines: list[str]) -> list[str]:
    """Return the lines without those that were erased again."""
    remaining: list[str] = []
    for line in lines:
        rest = line
        while rest.startswith(_UP_AND_CLEARED) and remaining:
            remaining.pop()
            rest = rest.removeprefix(_UP_AND_CLEARED)
        remaining.append(rest.rpartition(_CLEARED)[2])
    return remaining
