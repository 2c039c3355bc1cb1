"""A terminal for tests: it starts a program, types, and waits for output."""

import fcntl
import os
import re
import select
import struct
import termios
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import warm_start
from rekindle.text.widths import width
from stdio_client import REKINDLE, TIMEOUT

_SEQUENCE = re.compile(r"\x1b(?:\[([0-?]*)[ -/]*([@-~])|\][^\x07]*\x07|[^\[\]])")
_NO_WRAP = ("?7", "l")
_WRAP = ("?7", "h")
_LONGEST_REACTION = 3.0


class Screen:
    """The rows that a terminal shows, with everything that was scrolled out of it."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._rows: list[list[str]] = [[]]
        self._row = self._column = 0
        self._wraps = True
        self._rest = ""
        """The beginning of a sequence that is not complete yet."""

    @property
    def text(self) -> str:
        """The rows as lines, without spaces at their ends."""
        return "\n".join("".join(row).rstrip() for row in self._rows)

    def feed(self, text: str) -> None:
        """Write text with control characters and sequences."""
        text, self._rest = self._rest + text, ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = _SEQUENCE.match(text, at)
                if found is None:
                    self._rest = text[at:]
                    return
                self._obey(found[1] or "", found[2] or "")
                at = found.end()
            else:
                self._write(text[at])
                at += 1

    def _write(self, letter: str) -> None:
        match letter:
            case "\n":
                self._move_to(self._row + 1, self._column)
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(0, self._column - 1)
            case "\x07":
                pass
            case _:
                self._put(letter)

    def _put(self, letter: str) -> None:
        size = width(letter)
        if self._column + size > self._columns:
            if self._wraps:
                self._move_to(self._row + 1, 0)
            else:
                self._column = self._columns - size
        row = self._rows[self._row]
        row += " " * (self._column + size - len(row))
        row[self._column : self._column + size] = [letter, *[""] * (size - 1)]
        self._column += size

    def _obey(self, parameters: str, action: str) -> None:
        number = int(parameters) if parameters.isdecimal() else 0
        row = self._rows[self._row]
        match action:
            case "A":
                self._row = max(0, self._row - max(1, number))
            case "B":
                self._move_to(self._row + max(1, number), self._column)
            case "C":
                self._column = min(self._columns - 1, self._column + max(1, number))
            case "D":
                self._column = max(0, self._column - max(1, number))
            case "K" if number == 2:
                row.clear()
            case "K":
                del row[self._column :]
            case "J":
                del row[self._column :]
                del self._rows[self._row + 1 :]
            case _ if (parameters, action) in {_NO_WRAP, _WRAP}:
                self._wraps = action == "h"
            case _:
                pass

    def _move_to(self, row: int, column: int) -> None:
        self._rows += [[] for _ in range(len(self._rows), row + 1)]
        self._row, self._column = row, column


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
        self._screen = Screen(columns)
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._fd)

    @property
    def shown(self) -> str:
        """The content of the screen, with everything that was scrolled out of it."""
        return self._screen.text

    def type(self, keys: str) -> None:
        """Press some keys."""
        os.write(self._fd, keys.encode())

    def answer(self, key: str, pause: float = 0.4) -> None:
        """Answer a question with a key, after a pause. Wait until the terminal shows more.

        The key is pressed again if the program was slow and the pause too short for it.
        """
        end_of_pause = time.monotonic() + pause
        while time.monotonic() < end_of_pause:
            assert self._read(end_of_pause), f"ended: {self.shown!r}"
        before = len(self.raw)
        while len(self.raw) == before:
            self.type(key)
            deadline = time.monotonic() + _LONGEST_REACTION
            while len(self.raw) == before and time.monotonic() < deadline:
                assert self._read(deadline), f"ended: {self.shown!r}"

    def enter(self, line: str) -> None:
        """Type a line."""
        self.type(f"{line}\r")

    def wait_for(self, text: str, count: int = 1) -> str:
        """Wait until a text is shown so many times; return the output."""
        return self._wait(lambda shown: shown.count(text) >= count, repr(text))

    def wait_for_match(self, pattern: str) -> str:
        """Wait until a regular expression matches; return the output."""
        return self._wait(lambda shown: bool(re.search(pattern, shown)), pattern)

    def wait_until_gone(self, path: Path) -> None:
        """Wait until a file is removed. The program writes meanwhile."""
        self._wait(lambda _: not path.exists(), f"removed {path}")

    def _wait(self, is_expected: Callable[[str], bool], expected: str) -> str:
        deadline = time.monotonic() + TIMEOUT
        while not is_expected(self.shown):
            assert time.monotonic() < deadline, f"{expected} is not in {self.shown!r}"
            assert self._read(deadline), f"ended without {expected}: {self.shown!r}"
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
        text = self._decoder.decode(data)
        self.raw += text
        self._screen.feed(text)
        return True


def _without_size(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the size of another terminal."""
    return {name: value for name, value in environ.items() if name not in {"LINES", "COLUMNS"}}
