"""Runs of commands, on a terminal or with pipes. Every wait is bounded."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import warm_start
from stdio_client import REKINDLE, TIMEOUT

STYLE = re.compile(r"\x1b\[[0-9]+m")
"""The only escape sequences that commands write, except for progress bars."""

_ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "TERM", "COLUMNS"}}

Done = subprocess.CompletedProcess[str]


def run(
    *arguments: str | bytes | Path, typed: str = "", cwd: Path | None = None, **environment: str
) -> Done:
    """Run a command without a terminal."""
    done = warm_start.run(
        [*REKINDLE, *arguments],
        input=typed,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        cwd=cwd,
        env=_ENVIRONMENT | environment,
    )
    assert "Traceback" not in done.stderr
    return done


class Terminal:
    """A command on a terminal."""

    def __init__(self, *arguments: str | Path, **environment: str) -> None:
        self._fd, other_end = os.openpty()
        self._shown = b""
        self.process = warm_start.Popen(
            [*REKINDLE, *arguments],
            stdin=other_end,
            stdout=other_end,
            stderr=other_end,
            env=_ENVIRONMENT | {"TERM": "xterm"} | environment,
        )
        os.close(other_end)
        # A reader of a command that hangs then gets the end of its output.
        self._watchdog = Timer(TIMEOUT, self.process.kill)
        self._watchdog.start()

    def read_until(self, is_enough: Callable[[str], bool]) -> str:
        """Read until `is_enough` or the end of the command; return the output."""
        while not is_enough(self.shown) and (data := self._read()):
            self._shown += data
        return self.shown

    @property
    def shown(self) -> str:
        return self._shown.decode().replace("\r\n", "\n")

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Wait for the command's end; return its exit code."""
        self.read_until(lambda _: False)
        return self.process.wait()

    def close(self) -> None:
        self._watchdog.cancel()
        self.process.kill()
        self.process.wait()
        os.close(self._fd)

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, 65536)
        except OSError:
            return b""


@contextmanager
def terminal(*arguments: str | Path, **environment: str) -> Iterator[Terminal]:
    """Run a command on a terminal."""
    opened = Terminal(*arguments, **environment)
    try:
        yield opened
    finally:
        opened.close()


def show(*arguments: str | Path, columns: int = 80, **environment: str) -> str:
    """Run a command that exits with 0; return its output on a terminal."""
    with terminal(*arguments, COLUMNS=str(columns), **environment) as opened:
        assert opened.end() == 0
        return opened.shown
