"""A change of a file: version 1 tells both texts, version 2 the paths and a patch."""

from collections.abc import Iterator
from difflib import unified_diff
from typing import Any

from rekindle.wire.envelope import rows, table, text

Json = dict[str, Any]

GIT_PATCH = "git_patch"


def diff_to_v2(part: Json) -> Json:
    """Return a diff of version 1 as one of version 2, with the patch that it amounts to."""
    if "changes" in part:
        return part
    path = text(part.get("path")) or ""
    old, new = text(part.get("oldText")), text(part.get("newText")) or ""
    rest = {k: v for k, v in part.items() if k not in {"path", "oldText", "newText"}}
    return {
        **rest,
        "changes": [{"operation": "add" if old is None else "modify", "path": path}],
        "patch": {"format": GIT_PATCH, "text": git_patch(path, old, new)},
    }


def diff_to_v1(part: Json) -> Json:
    """Return a diff of version 2 as the text of its patch.

    Lost: that it is a diff. The two texts of version 1 cannot be had from a patch.
    """
    if "changes" not in part:
        return part
    shown = (
        text(table(part.get("patch")).get("text")) or "\n".join(_changes(part)) or "[no changes]"
    )
    return {"type": "content", "content": {"type": "text", "text": shown}}


def git_patch(path: str, old: str | None, new: str) -> str:
    """Return the patch that git would show, but with the path whole and without `a/` and `b/`."""
    name = _quoted(path)
    mark = "\t" if " " in path and name == path else ""
    lines = [f"diff --git {name} {name}\n"]
    if old is None:
        lines.append("new file mode 100644\n")
    source = "/dev/null" if old is None else f"{name}{mark}"
    before, after = (old or "").splitlines(keepends=True), new.splitlines(keepends=True)
    for line in unified_diff(before, after, source, f"{name}{mark}"):
        lines.append(line if line.endswith("\n") else f"{line}\n")
        if not line.endswith("\n"):
            lines.append("\\ No newline at end of file\n")
    return "".join(lines)


def _quoted(path: str) -> str:
    """Quote a path as git does: where it has characters that are not plain."""
    if path.isascii() and path.isprintable() and not set(path) & {'"', "\\"}:
        return path
    escaped = [
        f"\\{chr(byte)}"
        if chr(byte) in '"\\'
        else chr(byte)
        if 32 <= byte < 127  # noqa: PLR2004 - the plain ones
        else f"\\{byte:03o}"
        for byte in path.encode("utf-8", "backslashreplace")
    ]
    return f'"{"".join(escaped)}"'


def _changes(part: Json) -> Iterator[str]:
    for change in map(table, rows(part.get("changes"))):
        paths = [change[name] for name in ("oldPath", "path") if name in change]
        yield f"{change.get('operation', 'change')} {' → '.join(map(str, paths))}"
