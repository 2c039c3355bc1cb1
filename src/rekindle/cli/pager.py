"""A pager for what is longer than the screen: the user's own, or less, or none."""

import os
import re
import shlex
import shutil
import signal
import subprocess
from contextlib import suppress
from typing import IO, Any, Self, TextIO, cast

from rekindle.cli.terminal import size
from rekindle.text.widths import width

_USUAL = "less"
# Colours as they are, no clearing of the screen at the end: what was read stays.
_LESS = "RX"
# Lines of the shell that are still wanted below what was printed.
_MARGIN = 2
_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class Paged:
    """A file that goes to the screen, or once it is longer than that, to a pager."""

    def __init__(self, screen: TextIO, *, is_wanted: bool = True) -> None:
        self._screen = screen
        self._columns, lines = size(screen)
        self._most = lines - _MARGIN
        self._held: list[str] = []
        self._rows = 0
        self._cells = 0
        """How long the last line is by now."""
        self._pager: subprocess.Popen[str] | None = None
        self._is_direct = not is_wanted or _command() is None
        self._on_interrupt: Any = None

    @property
    def file(self) -> IO[str]:
        """This, to whoever wants a file: it has of one what printing needs."""
        return cast("IO[str]", self)

    def write(self, words: str) -> int:
        """Print some more."""
        if self._is_direct:
            return self._screen.write(words)
        if self._pager is not None:
            return self._to_pager(words)
        self._held.append(words)
        self._count(words)
        if self._rows + self._cells // self._columns > self._most:
            self._open()
        return len(words)

    def _count(self, words: str) -> None:
        """Count the rows that words take: a line that is longer than the screen takes several."""
        for line in _COLOURS.sub("", words).splitlines(keepends=True):
            self._cells += width(line.rstrip("\n").expandtabs())
            if line.endswith("\n"):
                self._rows += max(1, -(-self._cells // self._columns))
                self._cells = 0

    def flush(self) -> None:
        """Do nothing: what is short is printed at the end, and the pager has its own pace."""

    def isatty(self) -> bool:
        """Return what it is in the end."""
        return True

    @property
    def encoding(self) -> str:
        """How characters become bytes."""
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
        signal.signal(signal.SIGINT, self._on_interrupt)
        # Who leaves the pager has read enough.
        return kind is not None and issubclass(kind, BrokenPipeError)

    @property
    def _stdin(self) -> IO[str]:
        assert self._pager is not None  # noqa: S101 - only asked for while there is one
        assert self._pager.stdin is not None  # noqa: S101 - it was started with one
        return self._pager.stdin

    def _open(self) -> None:
        held, self._held = "".join(self._held), []
        try:
            self._pager = subprocess.Popen(  # noqa: S603 - the user's pager
                _command() or [],
                stdin=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                env={"LESS": _LESS, "LV": "-c", **os.environ},
            )
        except OSError:
            # One that cannot be started must not keep anybody from reading.
            self._is_direct = True
            self._screen.write(held)
            return
        # Ctrl-C is the pager's, as long as it runs.
        self._on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._to_pager(held)

    def _to_pager(self, words: str) -> int:
        return self._stdin.write(words)


def _command() -> list[str] | None:
    """Return the pager's command; None if none is wanted, or there."""
    wanted = os.environ.get("REKINDLE_PAGER", os.environ.get("PAGER", _USUAL))
    try:
        words = shlex.split(wanted)
    except ValueError:
        return None
    is_there = bool(words) and words != ["cat"] and shutil.which(words[0]) is not None
    return words if is_there else None
