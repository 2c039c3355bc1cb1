"""Damaged stores: what became of those that were set aside, and saving what can be read."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rekindle.cli.doctor import SAVE, Finding, Level
from rekindle.cli.formatting import format_time
from rekindle.cli.progress import ProgressBar
from rekindle.errors import StoreUnavailable
from rekindle.store.sqlite.connection import waiting
from rekindle.store.sqlite.quarantine import in_words, reports, salvage

_FINENESS = 1000


def check_damage(path: Path) -> Iterator[Finding]:
    """Tell what was lost when the store was damaged."""
    left = waiting(path)
    for report in reports(path):
        facts = {
            "at": report.at_us,
            "path": report.path,
            "sessions": {"saved": report.sessions_saved, "lost": report.sessions_lost},
            "entries": {"saved": report.entries_saved, "lost": report.entries_lost},
        }
        if left is not None and report.path == str(left):
            yield Finding(
                check="damage",
                level=Level.PROBLEM,
                what=f"the damaged store {left} is set aside, and nothing of it is saved yet",
                remedy=SAVE,
                mend=lambda: save_what_can_be_read(path),
                is_damage=True,
            )
            continue
        is_there = Path(report.path).exists()
        yield Finding(
            check="damage",
            level=Level.WARNING if is_there else Level.OK,
            what=f"{format_time(report.at_us)}: {in_words(report)}",
            remedy="remove it when you need nothing more of it" if is_there else "",
            facts=facts,
        )


@cache
def save_what_can_be_read(path: Path) -> str:
    """Save what can be read of a damaged store, once; say how much. Raises StoreUnavailable."""
    with ProgressBar("saving what can be read") as bar:
        report = salvage(
            path, is_sure=True, tick=lambda done: bar.update(round(done * _FINENESS), _FINENESS)
        )
    if report is None:
        raise StoreUnavailable("it was never a store of Rekindle's, as far as can be seen")
    return in_words(report)
