"""A bar for what takes longer than a second. Only people see it, and only while it lasts."""

import math
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Self

from rekindle.cli.terminal import is_terminal

_SILENT_FOR = 1.0
_TICK = 0.1
_FINENESS = 1000


class Bar:
    """Shows on a terminal how far something is."""

    def __init__(self, what: str, *, is_wanted: bool = True) -> None:
        self._what = what
        is_seen = is_wanted and is_terminal(sys.stderr)
        self._next = time.monotonic() + _SILENT_FOR if is_seen else math.inf
        self._stack = ExitStack()
        self._update: Callable[..., None] | None = None

    def at(self, done: int, total: int | None) -> None:
        """Tell how far it is; `total` is None if nobody can know. Cheap enough to be told often."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _TICK
        self._update = self._update or self._begin()
        self._update(0, completed=done, total=total)

    def _begin(self) -> Callable[..., None]:
        from rich.console import Console
        from rich.progress import Progress

        bar = Progress(console=Console(stderr=True), transient=True)
        self._stack.enter_context(bar).add_task(self._what, total=None)
        return bar.update

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def shown(what: str, parts: Iterable[float]) -> None:
    """Go through `parts`, which tell how much is done, from 0 to 1, and show it after a while."""
    with Bar(what) as bar:
        for done in parts:
            bar.at(round(done * _FINENESS), _FINENESS)
