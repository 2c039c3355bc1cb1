"""Output through a pager if it is longer than the screen: the user's pager, less, or none."""

import os
import re
import shlex
import shutil
import signal
import subprocess
from contextlib import suppress
from typing import IO, Any, Self, TextIO, cast

from rekindle.cli.terminal import terminal_size
from rekindle.text.widths import width

# Pass colours through, and leave the text on the screen at the end.
_LESS_OPTIONS = "RX"
# Rows that the shell's prompt needs below the output.
_MARGIN = 2
_ESCAPE_SEQUENCES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class PagedOutput:
    """A file that writes to the screen, or to a pager once the text exceeds the screen."""

    def __init__(self, screen: TextIO, *, is_wanted: bool = True) -> None:
        self._screen = screen
        self._columns, lines = terminal_size(screen)
        self._max_rows = lines - _MARGIN
        self._held: list[str] = []
        """Text that is not printed yet, while it may still fit on the screen."""
        self._rows = 0
        self._cells = 0
        """The width of the last line so far."""
        self._pager: subprocess.Popen[str] | None = None
        self._is_direct = not is_wanted or _pager_command() is None
        self._previous_handler: Any = None

    @property
    def file(self) -> IO[str]:
        """This object as a file. It has the methods that printing needs, and no others."""
        return cast("IO[str]", self)

    def write(self, text: str) -> int:
        """Print some text, now or when its total length is known."""
        if self._is_direct:
            return self._screen.write(text)
        if self._pager is not None:
            return self._write_to_pager(text)
        self._held.append(text)
        self._count(text)
        if self._rows + self._cells // self._columns > self._max_rows:
            self._start_pager()
        return len(text)

    def _count(self, text: str) -> None:
        """Count the rows of a text. A line that is wider than the screen has several."""
        for line in _ESCAPE_SEQUENCES.sub("", text).splitlines(keepends=True):
            self._cells += width(line.rstrip("\n").expandtabs())
            if line.endswith("\n"):
                self._rows += max(1, -(-self._cells // self._columns))
                self._cells = 0

    def flush(self) -> None:
        """Do nothing: short text is printed at the end, and the pager reads at its own pace."""

    def isatty(self) -> bool:
        """Return that the text ends up on a terminal."""
        return True

    @property
    def encoding(self) -> str:
        """The encoding of the screen."""
        return self._screen.encoding

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        if self._pager is None:
            self._screen.write("".join(self._held))
            self._screen.flush()
            return False
        with suppress(BrokenPipeError):
            self._stdin.close()
        self._pager.wait()
        signal.signal(signal.SIGINT, self._previous_handler)
        # A user who quits the pager early has not caused an error.
        return kind is not None and issubclass(kind, BrokenPipeError)

    @property
    def _stdin(self) -> IO[str]:
        assert self._pager is not None  # noqa: S101 - callers have started it
        assert self._pager.stdin is not None  # noqa: S101 - it was started with a pipe
        return self._pager.stdin

    def _start_pager(self) -> None:
        held, self._held = "".join(self._held), []
        try:
            self._pager = subprocess.Popen(  # noqa: S603 - the user's pager
                _pager_command() or [],
                stdin=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                env={"LESS": _LESS_OPTIONS, "LV": "-c", **os.environ},
            )
        except OSError:
            # Print without a pager if it cannot be started.
            self._is_direct = True
            self._screen.write(held)
            return
        # While the pager runs, Ctrl-C is for the pager.
        self._previous_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._write_to_pager(held)

    def _write_to_pager(self, text: str) -> int:
        return self._stdin.write(text)


def _pager_command() -> list[str] | None:
    """Return the pager's command; None if the user wants none or it is not installed."""
    setting = _setting()
    try:
        command = shlex.split(setting)
    except ValueError:
        return None
    is_usable = bool(command) and command != ["cat"] and shutil.which(command[0]) is not None
    return command if is_usable else None


def _setting() -> str:
    from rekindle.configuration.file import load_configuration
    from rekindle.configuration.keys import effective

    configuration = load_configuration()
    return effective("pager", configuration.values if configuration else {}).value
