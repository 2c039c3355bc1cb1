"""Translate changes of files: version 1 has both texts, version 2 has paths and a patch."""

from collections import Counter
from collections.abc import Iterator
from difflib import Match, SequenceMatcher
from itertools import accumulate

from rekindle.jsonvalue import Json, as_array, as_object, as_str, without

GIT_PATCH = "git_patch"

# The limits of comparing, in comparisons of one line with another.
_MIN_COMPARISONS = 100_000
_COMPARISONS_PER_LINE = 500
_MAX_COMPARISONS = 5_000_000


def diff_to_v2(part: Json) -> Json:
    """Return a diff in the form of version 2, with a computed patch."""
    if "changes" in part:
        return part
    path = as_str(part.get("path")) or ""
    old, new = as_str(part.get("oldText")), as_str(part.get("newText")) or ""
    rest = without(part, "path", "oldText", "newText")
    return {
        **rest,
        "changes": [{"operation": "add" if old is None else "modify", "path": path}],
        "patch": {"format": GIT_PATCH, "text": git_patch(path, old, new)},
    }


def diff_to_v1(part: Json) -> Json:
    """Return a diff in the form of version 1: the text of its patch.

    Lost: the type, because the two texts of version 1 cannot be computed from a patch.
    """
    if "changes" not in part:
        return part
    text = (
        as_str(as_object(part.get("patch")).get("text"))
        or "\n".join(_changes(part))
        or "[no changes]"
    )
    return {"type": "content", "content": {"type": "text", "text": text}}


def git_patch(path: str, old: str | None, new: str) -> str:
    """Return the patch that git would show, but with the whole path and without `a/` and `b/`."""
    name = _quoted(path)
    mark = "\t" if " " in path and name == path else ""
    lines = [f"diff --git {name} {name}\n"]
    if old is None:
        lines.append("new file mode 100644\n")
    source = "/dev/null" if old is None else f"{name}{mark}"
    before, after = (old or "").splitlines(keepends=True), new.splitlines(keepends=True)
    for line in _compared(before, after, source, f"{name}{mark}"):
        lines.append(line if line.endswith("\n") else f"{line}\n")
        if not line.endswith("\n"):
            lines.append("\\ No newline at end of file\n")
    return "".join(lines)


def _compared(before: list[str], after: list[str], source: str, target: str) -> Iterator[str]:
    """Yield the lines of a unified diff like `difflib.unified_diff`, but in bounded time."""
    groups = _Matcher(before, after).get_grouped_opcodes()
    for number, group in enumerate(groups):
        if number == 0:
            yield from (f"--- {source}\n", f"+++ {target}\n")
        _, low, _, new_low, _ = group[0]
        _, _, high, _, new_high = group[-1]
        yield f"@@ -{_range(low, high)} +{_range(new_low, new_high)} @@\n"
        for tag, begin, end, new_begin, new_end in group:
            if tag == "equal":
                yield from (f" {line}" for line in before[begin:end])
            else:
                yield from (f"-{line}" for line in before[begin:end])
                yield from (f"+{line}" for line in after[new_begin:new_end])


def _range(low: int, high: int) -> str:
    count = high - low
    if count == 1:
        return f"{low + 1}"
    return f"{low if count == 0 else low + 1},{count}"


class _Matcher(SequenceMatcher[str]):
    """Stops comparing when lines repeat so often that it would take too long.

    Lines that are not compared count as replaced, which is correct but less precise.
    """

    def __init__(self, before: list[str], after: list[str]) -> None:
        super().__init__(None, before, after)
        counts = Counter(after)
        self._costs = [0, *accumulate(1 + counts[line] for line in before)]
        self._remaining = min(
            _MIN_COMPARISONS + _COMPARISONS_PER_LINE * (len(before) + len(after)), _MAX_COMPARISONS
        )

    def find_longest_match(self, *within: int) -> Match:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the longest match; an empty one if the limit is used up."""
        begin, end, new_begin, _ = within
        self._remaining -= self._costs[end] - self._costs[begin]
        if self._remaining < 0:
            return Match(begin, new_begin, 0)
        return super().find_longest_match(*within)


def _quoted(path: str) -> str:
    """Quote a path like git, if it has other characters than printable ASCII."""
    if path.isascii() and path.isprintable() and not set(path) & {'"', "\\"}:
        return path
    escaped = [
        f"\\{chr(byte)}"
        if chr(byte) in '"\\'
        else chr(byte)
        if 32 <= byte < 127  # noqa: PLR2004 - printable ASCII
        else f"\\{byte:03o}"
        for byte in path.encode("utf-8", "backslashreplace")
    ]
    return f'"{"".join(escaped)}"'


def _changes(part: Json) -> Iterator[str]:
    for change in map(as_object, as_array(part.get("changes"))):
        paths = [change[name] for name in ("oldPath", "path") if name in change]
        yield f"{change.get('operation', 'change')} {' → '.join(map(str, paths))}"
