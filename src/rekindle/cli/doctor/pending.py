"""What could not be recorded yet, and waits in files beside the store."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rekindle.cli.doctor import Finding, Level
from rekindle.errors import StoreUnavailable
from rekindle.store.address import open_store
from rekindle.store.sqlite.pending import Left, left


def check_pending(path: Path) -> Iterator[Finding]:
    """Tell what waits, of those that run and of those that have ended."""
    for it in left(path):
        entries = f"{it.entries:,} {'entry' if it.entries == 1 else 'entries'}"
        facts = {"path": str(it.path), "entries": it.entries, "live": it.is_alive}
        if it.why_not:
            yield Finding(
                check="pending",
                level=Level.PROBLEM,
                what=f"what waits in {it.path} cannot be read: {it.why_not}",
                facts=facts,
            )
        elif it.is_kept:
            yield Finding(
                check="pending",
                level=Level.WARNING,
                what=f"{it.path} was damaged: what can be read of it is recorded, the rest is not",
                remedy="remove it when you need nothing more of it",
                facts=facts,
            )
        elif it.is_alive:
            yield Finding(
                check="pending",
                level=Level.WARNING,
                what=f"a Rekindle that runs cannot record: {entries} in {it.path}, so far",
                remedy="it tries again by itself, and its stderr says why",
                facts=facts,
            )
        else:
            yield Finding(
                check="pending",
                level=Level.WARNING,
                what=f"{entries} not recorded yet in {it.path}, of a process that has ended",
                remedy="rekindle doctor --fix records them, and so does the next `rekindle run`",
                facts=facts,
                mend=partial(_take_in, path, it),
            )


def _take_in(path: Path, it: Left) -> None:
    open_store(path).close()
    if it.path.exists():
        raise StoreUnavailable("another process is at it")
