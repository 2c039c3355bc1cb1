"""Parse patches: the position of each change, with the old and the new text."""

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

_HUNK_HEADER = re.compile(r"@@ -\d{1,9}(?:,\d{1,9})? \+(\d{1,9})")


class DiffHunk(Struct, frozen=True):
    """One changed section of a file."""

    line: int | None
    old: str
    new: str


def parse_unified_diff(diff: str) -> Iterator[DiffHunk]:
    """Yield the hunks in a unified diff of one file."""
    # The names of the file come before the first hunk.
    _, start, rest = f"\n{diff}".partition("\n@@")
    return parse_hunks(f"@@{rest}".removesuffix("\n").split("\n") if start else [])


def parse_hunks(lines: Iterable[str]) -> Iterator[DiffHunk]:
    """Yield the hunks in lines of a patch. Lines that are not part of a hunk are ignored."""
    position: int | None = None
    body: list[str] = []
    for line in [*lines, "@@"]:
        if not line.startswith("@@"):
            if line[:1] in {"", " ", "-", "+", "\\"}:
                # Some tools write an empty context line without its leading space.
                body.append(line or " ")
            continue
        if body:
            yield DiffHunk(position, _side(body, omit="+"), _side(body, omit="-"))
        header = _HUNK_HEADER.match(line)
        position, body = (max(int(header[1]), 1) if header else None), []


def added_text(lines: Iterable[str]) -> str:
    """Return the text of a new file, given the lines of its patch."""
    return _side([line for line in lines if line.startswith("+")], omit="-")


def _side(lines: list[str], omit: str) -> str:
    """Return the old or the new text. A backslash line removes the newline before it."""
    text: list[str] = []
    last = ""
    for line in lines:
        if line[0] != "\\":
            last = line[0]
            text += [f"{line[1:]}\n"] if last != omit else []
        elif text and last != omit:
            text[-1] = text[-1].removesuffix("\n")
    return "".join(text)
