"""A patch as lines to be read in passing: without what only programs need, and not too many."""

import itertools
from collections.abc import Iterable, Iterator

from rekindle.export.content import Diff

_HEADERS = ("diff --git ", "index ", "new file mode ", "--- ", "similarity index ")


def diff_lines(diff: Diff, longest: int | None) -> Iterator[str]:
    """Yield a diff's lines; at most `longest` of them. Which file it is of, `about` tells."""
    lines = _of_made_patch(diff.text) if diff.is_made else _of_patch(diff.text)
    return _cut(lines, longest)


def _of_made_patch(patch: str) -> Iterator[str]:
    hunks = itertools.dropwhile(lambda line: not line.startswith("@@"), patch.split("\n"))
    next(hunks, None)
    for line in hunks:
        yield "⋯" if line.startswith("@@") else line


def _of_patch(patch: str) -> Iterator[str]:
    lines = list(_told(patch))
    names = sum(is_name for _, is_name in lines)
    return (line for line, is_name in lines if names > 1 or not is_name)


def _told(patch: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines, and which of them are names of files."""
    is_header = True
    for line in patch.split("\n"):
        is_header = (is_header or line.startswith("diff --git ")) and not line.startswith("@@")
        if is_header and line.startswith("+++ "):
            yield line.removeprefix("+++ "), True
        elif not (is_header and line.startswith(_HEADERS)):
            yield line, False


def _cut(lines: Iterable[str], longest: int | None) -> Iterator[str]:
    rest = iter(lines)
    yield from itertools.islice(rest, longest)
    left = sum(1 for _ in rest)
    if left:
        yield f"… {left} more lines"
