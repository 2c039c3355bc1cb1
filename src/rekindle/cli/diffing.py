"""The diffs that tool calls show, as lines: made of both texts, or of the patch they came as."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from rekindle.core.translate.diffs import diff_to_v2
from rekindle.wire.envelope import rows, table, text

# To compare takes long where both texts are: who has a whole file changed wants to see it there.
_MOST_TO_COMPARE = 200_000
_HEADERS = ("diff --git ", "index ", "new file mode ", "--- ", "similarity index ")


def diff_lines(part: dict[str, Any], longest: int | None) -> Iterator[str]:
    """Yield a diff's lines without what only programs need; at most `longest` of them."""
    old, new = text(part.get("oldText")) or "", text(part.get("newText")) or ""
    if len(old) + len(new) > _MOST_TO_COMPARE:
        before, after = len(old.splitlines()), len(new.splitlines())
        yield f"({before} lines became {after}: too long to compare)"
    else:
        yield from _cut(_lines(part), longest)


def _lines(part: dict[str, Any]) -> Iterator[str]:
    patch = text(table(diff_to_v2(part).get("patch")).get("text"))
    if patch is None:
        return _changes(part)
    return _of_patch(patch) if "changes" in part else _of_made_patch(patch)


def _of_made_patch(patch: str) -> Iterator[str]:
    """Yield what changed. Both texts may be parts of a file, so line numbers tell nothing."""
    hunks = itertools.dropwhile(lambda line: not line.startswith("@@"), patch.splitlines())
    next(hunks, None)
    for line in hunks:
        yield "⋯" if line.startswith("@@") else line


def _of_patch(patch: str) -> Iterator[str]:
    is_header = True
    for line in patch.splitlines():
        is_header = (is_header or line.startswith("diff --git ")) and not line.startswith("@@")
        if is_header and line.startswith("+++ "):
            yield line.removeprefix("+++ ")
        elif not (is_header and line.startswith(_HEADERS)):
            yield line


def _changes(part: dict[str, Any]) -> Iterator[str]:
    for change in map(table, rows(part.get("changes"))):
        paths = [str(change[name]) for name in ("oldPath", "path") if name in change]
        yield f"{change.get('operation', 'change')} {' → '.join(paths)}"


def _cut(lines: Iterable[str], longest: int | None) -> Iterator[str]:
    rest = iter(lines)
    yield from itertools.islice(rest, longest)
    left = sum(1 for _ in rest)
    if left:
        yield f"… {left} more lines"
