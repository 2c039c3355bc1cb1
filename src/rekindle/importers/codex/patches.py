"""Changes of files, as Codex writes them down: its own patches, and unified diffs."""

import re
from collections.abc import Iterator

from msgspec import Raw, Struct

from rekindle.importers.codex.records import Change
from rekindle.importers.records import is_text
from rekindle.importers.telling import Json, change

BEGIN = "*** Begin Patch"
_FILE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVED = "*** Move to: "
_HUNK = re.compile(r"@@ -\d{1,9}(?:,\d{1,9})? \+(\d{1,9})")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")


class Edits(Struct, frozen=True):
    """What is shown of changes, and where they are."""

    content: list[Json]
    locations: list[Json]

    def fields(self) -> Json:
        """Return them as fields of a call."""
        return {"content": self.content, "locations": self.locations} if self.locations else {}


def edits_of_patch(patch: str, cwd: str | None) -> Edits:
    """Return the changes that a patch of Codex's own makes."""
    edits = Edits([], [])
    for action, path, lines in _files(patch):
        moved = next((it[len(_MOVED) :].strip() for it in lines if it.startswith(_MOVED)), None)
        whole = _absolute(moved or path, cwd)
        edits.locations.append({"path": whole})
        if action == "Update":
            hunks = list(_hunks([it for it in lines if not it.startswith("***")]))
            edits.content.extend(change(whole, old, new) for _, old, new in hunks)
        else:
            text = _side([it for it in lines if it.startswith("+")], but_for="-")
            edits.content.append(change(whole, None if action == "Add" else "", text))
    return edits


def edits_of_changes(changes: dict[str, Change], cwd: str | None) -> Edits:
    """Return the changes that were made, by file."""
    edits = Edits([], [])
    for path, made in sorted(changes.items()):
        whole = _absolute(made.move_path or path, cwd)
        if made.type == "update" or made.unified_diff is not None:
            # Before the first one stand the names of the file.
            _, begin, rest = f"\n{made.unified_diff}".partition("\n@@")
            hunks = list(_hunks(f"@@{rest}".split("\n") if begin else []))
            edits.content.extend(change(whole, old, new) for _, old, new in hunks)
            places: list[Json] = [{"path": whole, "line": line} for line, _, _ in hunks if line]
            edits.locations.extend(places or [{"path": whole}])
            continue
        edits.locations.append({"path": whole})
        text = made.content if is_text(made.content) else Raw(b'""')
        is_new = made.type == "add"
        edits.content.append(change(whole, None if is_new else text, text if is_new else ""))
    return edits


def _files(patch: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield what is done with each file of a patch, and the lines that say it."""
    action, path, lines = "", "", list[str]()
    for line in patch.split("\n"):
        begun = _FILE.match(line)
        if begun or line.startswith("*** End Patch"):
            if path:
                yield action, path, lines
            action, path, lines = (begun[1], begun[2].strip(), []) if begun else ("", "", [])
        else:
            lines.append(line)
    if path:
        yield action, path, lines


def _hunks(lines: list[str]) -> Iterator[tuple[int | None, str, str]]:
    """Yield the parts of a file that were changed: where, what was there, and what is now."""
    place: int | None = None
    held: list[str] = []
    for line in [*lines, "@@"]:
        if not line.startswith("@@"):
            if line[:1] in {" ", "-", "+", "\\"}:
                held.append(line)
            continue
        if held:
            yield place, _side(held, but_for="+"), _side(held, but_for="-")
        found = _HUNK.match(line)
        place, held = (max(int(found[1]), 1) if found else None), []


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


def _absolute(path: str, cwd: str | None) -> str:
    return path if cwd is None or _ABSOLUTE.match(path) else f"{cwd.rstrip('/')}/{path}"
