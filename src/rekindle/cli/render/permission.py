"""Render permission requests with enough detail to decide, even if tool calls are folded.

Long texts are cut in the middle, because an agent could hide something at the end.
"""

from collections.abc import Iterator
from typing import Any

from rekindle.cli.render.detail import FOLDED
from rekindle.cli.render.transcript import INDENT, Piece, tool_content
from rekindle.export.content import (
    Code,
    Diff,
    Note,
    ToolCallLike,
    change_parts,
    compact,
    result_parts,
)
from rekindle.export.labels import one_line
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.text.sanitize import clean
from rekindle.text.widths import ELLIPSIS

_MAX_LINES = 30
_MAX_MEMBERS = 20
_MAX_LINE = 800
_MAX_BRIEF = 120
_MAX_SUMMARY = 160
_HIDDEN_MEMBERS = frozenset({"type", "toolCall", "toolCallId", "terminalId", "_meta"})


def permission_pieces(params: dict[str, Any], call: ToolCallLike | None) -> Iterator[Piece]:
    """Yield the pieces of a permission request, with everything that the agent reports of it."""
    if description := as_str(params.get("description")):
        yield _piece(_shortened(clean(description)))
    yield from _input_pieces(_subject(params))
    if call is None:
        return
    changes = list(change_parts(call))
    # Most agents repeat a change in the input, and the diff is easier to read.
    yield from _input_pieces(call.fields.get("rawInput"), is_brief=bool(changes))
    for place in _places(call, changes):
        yield _piece(place, "@ ")
    yield from tool_content(call, FOLDED, {})
    for part in result_parts(call, {}):
        if isinstance(part, Code) and part.text.strip():
            yield _piece(_shortened(part.text.rstrip()))


def permission_summary(name: str, params: dict[str, Any], call: ToolCallLike | None) -> str:
    """Return a permission request in one line."""
    fields = call.fields if call is not None else {}
    subject = _subject(params) or fields.get("rawInput")
    command = as_object(subject).get("command") or subject
    places = _places(call, []) if call is not None else []
    files = [it.about for it in change_parts(call) if isinstance(it, Diff)] if call else []
    title = permission_title(name, call)
    shown = [compact(command)] if command else [*files, *places][:1]
    news = [it for it in shown if it not in title]
    return _cut(": ".join([title, *news]), _MAX_SUMMARY)


def permission_title(name: str, call: ToolCallLike | None) -> str:
    """Return the title of a permission request, with the kind of its tool call."""
    fields = call.fields if call is not None else {}
    kind = one_line(as_str(fields.get("kind")) or "")
    shown = name or as_str(fields.get("title")) or kind or "something"
    is_repeated = one_line(shown).casefold().split()[:1] == [kind.casefold()]
    return f"{shown} ({kind})" if kind not in {"", "other"} and not is_repeated else shown


def _subject(params: dict[str, Any]) -> dict[str, Any]:
    subject = as_object(params.get("subject"))
    return {name: it for name, it in subject.items() if name not in _HIDDEN_MEMBERS}


def _input_pieces(value: object, *, is_brief: bool = False) -> Iterator[Piece]:
    if value in (None, "", {}, []):
        return
    members = as_object(value)
    for name, it in list(members.items())[:_MAX_MEMBERS]:
        yield _piece(_member(one_line(name), it, is_brief=is_brief))
    if len(members) > _MAX_MEMBERS:
        yield _piece(f"{ELLIPSIS} {len(members) - _MAX_MEMBERS} more")
    if not members:
        yield _piece(_value(value, is_brief=is_brief))


def _member(name: str, value: object, *, is_brief: bool) -> str:
    text = _value(value, is_brief=is_brief)
    below = text.replace("\n", f"\n{INDENT}")
    return f"{name}:\n{INDENT}{below}" if "\n" in text else f"{name}: {text}"


def _value(value: object, *, is_brief: bool) -> str:
    if is_brief:
        return _cut(compact(value), _MAX_BRIEF)
    is_text = isinstance(value, str)
    return _shortened(clean(value).strip("\n") if is_text else compact(value))


def _places(call: ToolCallLike, changes: list[Diff | Note]) -> list[str]:
    """Return the locations of a tool call that are not in its diffs."""
    known = {change.about for change in changes if isinstance(change, Diff)}
    found: list[str] = []
    for place in map(as_object, as_array(call.fields.get("locations"))):
        path, line = one_line(as_str(place.get("path")) or ""), place.get("line")
        if path and path not in known:
            found.append(f"{path}:{line}" if isinstance(line, int) else path)
    return list(dict.fromkeys(found))[:_MAX_MEMBERS]


def _shortened(text: str) -> str:
    lines = [_cut(line, _MAX_LINE) for line in text.split("\n")]
    if len(lines) > _MAX_LINES:
        half = _MAX_LINES // 2
        left_out = f"{ELLIPSIS} {len(lines) - 2 * half} lines left out {ELLIPSIS}"
        lines = [*lines[:half], left_out, *lines[-half:]]
    return "\n".join(lines)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = f" {ELLIPSIS} {len(text) - 2 * half} characters left out {ELLIPSIS} "
    return f"{text[:half]}{left_out}{text[-half:]}"


def _piece(text: str, mark: str = "") -> Piece:
    return Piece(kind="permission", text=text, mark=f"{INDENT}{mark}")
