"""Bringing the index up to date before it is used, and showing how far it is."""

import sys
import time
from collections.abc import Iterator

from rekindle.errors import StoreUnavailable
from rekindle.store.base import Store
from rekindle.store.index import Index
from rekindle.store.indexing import Progress, bring_up_to_date

_SILENT_FOR = 1.0


def update(index: Index, store: Store) -> None:
    """Bring an index up to date; where it cannot be, say so: what is indexed is still there."""
    try:
        index.sweep()
        shown(bring_up_to_date(index, store))
    except StoreUnavailable as error:
        print(f"rekindle: {error}: the latest may be missing", file=sys.stderr)


def shown(steps: Iterator[Progress]) -> None:
    """Do all steps; on a terminal, show a bar if they take long."""
    begin = time.monotonic()
    for step in steps:
        if sys.stderr.isatty() and time.monotonic() - begin > _SILENT_FOR:
            _show_bar(step, steps)


def _show_bar(step: Progress, steps: Iterator[Progress]) -> None:
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("indexing", completed=step.done, total=step.total)
        for later in steps:
            bar.update(task, completed=later.done)
