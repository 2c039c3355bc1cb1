"""The index that `rekindle search` uses: is it sound. It can be made anew at any time."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rekindle.cli.doctor import Finding, Level
from rekindle.cli.formatting import one_line
from rekindle.store.address import index_path
from rekindle.store.sqlite.search_index import Index, complaints


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
