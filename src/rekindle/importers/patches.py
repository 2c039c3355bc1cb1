"""Changes as patches tell them: where they are, what was there, and what is now."""

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

_PLACE = re.compile(r"@@ -\d{1,9}(?:,\d{1,9})? \+(\d{1,9})")


class Hunk(Struct, frozen=True):
    """A part of a file that was changed."""

    line: int | None
    old: str
    new: str


def hunks_of_diff(diff: str) -> Iterator[Hunk]:
    """Yield what a unified diff of one file changes."""
    # Before the first one stand the names of the file.
    _, begin, rest = f"\n{diff}".partition("\n@@")
    return hunks(f"@@{rest}".removesuffix("\n").split("\n") if begin else [])


def hunks(lines: Iterable[str]) -> Iterator[Hunk]:
    """Yield what lines change that say so by how they begin."""
    place: int | None = None
    held: list[str] = []
    for line in [*lines, "@@"]:
        if not line.startswith("@@"):
            if line[:1] in {"", " ", "-", "+", "\\"}:
                # Of an empty line in between, some leave even the blank out.
                held.append(line or " ")
            continue
        if held:
            yield Hunk(place, _side(held, but_for="+"), _side(held, but_for="-"))
        found = _PLACE.match(line)
        place, held = (max(int(found[1]), 1) if found else None), []


def added(lines: Iterable[str]) -> str:
    """Return the text of a file that is new."""
    return _side([it for it in lines if it.startswith("+")], but_for="-")


def _side(lines: list[str], but_for: str) -> str:
    """Return one side of a change: lines that end, but for one that is said not to."""
    text: list[str] = []
    last = ""
    for line in lines:
        if line[0] != "\\":
            last = line[0]
            text += [f"{line[1:]}\n"] if last != but_for else []
        elif text and last != but_for:
            text[-1] = text[-1].removesuffix("\n")
    return "".join(text)
