"""Shorten a patch for reading: without headers that only programs need, and within a limit."""

import itertools
from collections.abc import Iterable, Iterator

from rekindle.export.content import Diff

_HEADERS = ("diff --git ", "index ", "new file mode ", "--- ", "similarity index ")


def diff_lines(diff: Diff, max_lines: int | None) -> Iterator[str]:
    """Yield the lines of a diff, at most `max_lines`. The name of the file is in `about`."""
    lines = _lines_of_computed(diff.text) if diff.is_computed else _lines_of_patch(diff.text)
    return _cut(lines, max_lines)


def _lines_of_computed(patch: str) -> Iterator[str]:
    hunks = itertools.dropwhile(lambda line: not line.startswith("@@"), patch.split("\n"))
    next(hunks, None)
    for line in hunks:
        yield "⋯" if line.startswith("@@") else line


def _lines_of_patch(patch: str) -> Iterator[str]:
    lines = list(_lines_with_names(patch))
    names = sum(is_name for _, is_name in lines)
    return (line for line, is_name in lines if names > 1 or not is_name)


def _lines_with_names(patch: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines, each with whether it is the name of a file."""
    is_header = True
    for line in patch.split("\n"):
        is_header = (is_header or line.startswith("diff --git ")) and not line.startswith("@@")
        if is_header and line.startswith("+++ "):
            yield line.removeprefix("+++ "), True
        elif not (is_header and line.startswith(_HEADERS)):
            yield line, False


def _cut(lines: Iterable[str], max_lines: int | None) -> Iterator[str]:
    rest = iter(lines)
    yield from itertools.islice(rest, max_lines)
    left = sum(1 for _ in rest)
    if left:
        yield f"… {left} more lines"
