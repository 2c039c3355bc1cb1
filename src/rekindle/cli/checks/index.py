"""The index that `rekindle search` uses: is it sound. It can be made anew at any time."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rekindle.cli.checks import Finding, Level
from rekindle.cli.words import one_line
from rekindle.store.index import Index, complaints
from rekindle.store.location import index_path


def check_index(path: Path) -> Iterator[Finding]:
    """Look whether what was indexed can be found."""
    if not index_path(path).exists():
        return
    found = complaints(path)
    yield Finding(
        check="index",
        level=Level.PROBLEM if found else Level.OK,
        what=f"damaged: {'; '.join(map(one_line, found))}" if found else "sound",
        remedy="rekindle doctor --fix empties it, and the next search fills it" if found else "",
        facts={"path": str(index_path(path)), "complaints": found},
        mend=partial(_empty, path) if found else None,
    )


def _empty(path: Path) -> None:
    Index(path, anew=True).close()
