"""Changes of files, as Codex writes them down: its own patches, and unified diffs."""

import re
from collections.abc import Iterator

from msgspec import Raw, Struct

from rekindle.importers.codex.records import Change
from rekindle.importers.entry_builder import Json, change
from rekindle.importers.lenient_reader import is_text
from rekindle.importers.patches import added, hunks, hunks_of_diff

BEGIN = "*** Begin Patch"
_FILE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVED = "*** Move to: "
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
            found = hunks([it for it in lines if not it.startswith("***")])
            edits.content.extend(change(whole, it.old, it.new) for it in found)
        else:
            edits.content.append(change(whole, None if action == "Add" else "", added(lines)))
    return edits


def edits_of_changes(changes: dict[str, Change], cwd: str | None) -> Edits:
    """Return the changes that were made, by file."""
    edits = Edits([], [])
    for path, made in sorted(changes.items()):
        whole = _absolute(made.move_path or path, cwd)
        if made.type == "update" or made.unified_diff is not None:
            found = list(hunks_of_diff(made.unified_diff or ""))
            edits.content.extend(change(whole, it.old, it.new) for it in found)
            places: list[Json] = [{"path": whole, "line": it.line} for it in found if it.line]
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


def _absolute(path: str, cwd: str | None) -> str:
    return path if cwd is None or _ABSOLUTE.match(path) else f"{cwd.rstrip('/')}/{path}"
