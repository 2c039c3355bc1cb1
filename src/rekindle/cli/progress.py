"""A progress bar for work of more than a second. It shows on a terminal only, and then goes."""

import math
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Self

from rekindle.cli.terminal import is_terminal

_DELAY = 1.0
_INTERVAL = 0.1
_RESOLUTION = 1000


class ProgressBar:
    """A bar on stderr that appears after a second, if stderr is a terminal."""

    def __init__(self, label: str, *, is_wanted: bool = True) -> None:
        self._label = label
        is_visible = is_wanted and is_terminal(sys.stderr)
        self._next = time.monotonic() + _DELAY if is_visible else math.inf
        self._stack = ExitStack()
        self._render: Callable[..., None] | None = None

    def update(self, done: int, total: int | None) -> None:
        """Show the progress; `total` is None if it is unknown. Cheap enough for every item."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _INTERVAL
        self._render = self._render or self._start()
        self._render(0, completed=done, total=total)

    def _start(self) -> Callable[..., None]:
        from rich.console import Console
        from rich.progress import Progress

        progress = Progress(console=Console(stderr=True), transient=True)
        self._stack.enter_context(progress).add_task(self._label, total=None)
        return progress.update

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def show_progress(label: str, parts: Iterable[float]) -> None:
    """Exhaust `parts`, which yield the completed share from 0 to 1, and show the progress."""
    with ProgressBar(label) as bar:
        for done in parts:
            bar.update(round(done * _RESOLUTION), _RESOLUTION)
