"""A bar for what takes longer than a second, on a terminal."""

import sys
import time
from collections.abc import Iterable, Iterator

from rekindle.cli.terminal import is_terminal

_A_WHILE = 1.0


def shown(what: str, parts: Iterable[float]) -> None:
    """Go through `parts`, which tell how much is done, from 0 to 1, and show it after a while."""
    begun = time.monotonic()
    rest = iter(parts)
    if not is_terminal(sys.stderr):
        for _ in rest:
            pass
        return
    for done in rest:
        if time.monotonic() - begun > _A_WHILE:
            _show(what, done, rest)


def _show(what: str, done: float, rest: Iterator[float]) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=1.0)
        bar.update(task, completed=done)
        for part in rest:
            bar.update(task, completed=part)
