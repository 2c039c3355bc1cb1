"""What an agent asks permission for, whole enough to decide on, however tool calls are folded.

What is long is cut in its middle: whoever has something to hide would put it at the end.
"""

from collections.abc import Iterator
from typing import Any

from rekindle.cli.render.detail import FOLDED
from rekindle.cli.render.transcript import INDENT, Piece, tool_content
from rekindle.export.content import Call, Code, Diff, Note, change_parts, compact, result_parts
from rekindle.export.labels import one_line
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.text.sanitize import clean
from rekindle.text.widths import ELLIPSIS

_MOST_LINES = 30
_MOST_MEMBERS = 20
_LONGEST_LINE = 800
_LONGEST_BRIEF = 120
_LONGEST_SHORT = 160
_NO_SUBJECT = frozenset({"type", "toolCall", "toolCallId", "terminalId", "_meta"})


def asked_pieces(params: dict[str, Any], call: Call | None) -> Iterator[Piece]:
    """Yield what is to be allowed, by all that the agent tells of it."""
    if description := as_str(params.get("description")):
        yield _piece(_shortened(clean(description)))
    yield from _given(_subject(params))
    if call is None:
        return
    changes = list(change_parts(call))
    # What is changed is told twice by most agents, and much better by the diff.
    yield from _given(call.fields.get("rawInput"), is_brief=bool(changes))
    for place in _places(call, changes):
        yield _piece(place, "@ ")
    yield from tool_content(call, FOLDED, {})
    for part in result_parts(call, {}):
        if isinstance(part, Code) and part.text.strip():
            yield _piece(_shortened(part.text.rstrip()))


def asked_in_short(name: str, params: dict[str, Any], call: Call | None) -> str:
    """Return in one line what is to be allowed."""
    fields = call.fields if call is not None else {}
    given = _subject(params) or fields.get("rawInput")
    command = as_object(given).get("command") or given
    places = _places(call, []) if call is not None else []
    files = [it.about for it in change_parts(call) if isinstance(it, Diff)] if call else []
    told = [compact(command)] if command else [*files, *places][:1]
    return _cut(": ".join([named(name, call), *told]), _LONGEST_SHORT)


def named(name: str, call: Call | None) -> str:
    """Return what something is called that is asked for, and of what kind it is."""
    fields = call.fields if call is not None else {}
    kind = one_line(as_str(fields.get("kind")) or "")
    shown = name or as_str(fields.get("title")) or kind or "something"
    return f"{shown} ({kind})" if kind not in {"", "other", shown} else shown


def _subject(params: dict[str, Any]) -> dict[str, Any]:
    subject = as_object(params.get("subject"))
    return {name: it for name, it in subject.items() if name not in _NO_SUBJECT}


def _given(value: object, *, is_brief: bool = False) -> Iterator[Piece]:
    if value in (None, "", {}, []):
        return
    members = as_object(value)
    for name, it in list(members.items())[:_MOST_MEMBERS]:
        yield _piece(_member(one_line(name), it, is_brief=is_brief))
    if len(members) > _MOST_MEMBERS:
        yield _piece(f"{ELLIPSIS} {len(members) - _MOST_MEMBERS} more")
    if not members:
        yield _piece(_value(value, is_brief=is_brief))


def _member(name: str, value: object, *, is_brief: bool) -> str:
    words = _value(value, is_brief=is_brief)
    below = words.replace("\n", f"\n{INDENT}")
    return f"{name}:\n{INDENT}{below}" if "\n" in words else f"{name}: {words}"


def _value(value: object, *, is_brief: bool) -> str:
    if is_brief:
        return _cut(compact(value), _LONGEST_BRIEF)
    is_text = isinstance(value, str)
    return _shortened(clean(value).strip("\n") if is_text else compact(value))


def _places(call: Call, changes: list[Diff | Note]) -> list[str]:
    """Return where it will be at work, as far as the diffs do not tell."""
    known = {change.about for change in changes if isinstance(change, Diff)}
    found: list[str] = []
    for place in map(as_object, as_array(call.fields.get("locations"))):
        path, line = one_line(as_str(place.get("path")) or ""), place.get("line")
        if path and path not in known:
            found.append(f"{path}:{line}" if isinstance(line, int) else path)
    return list(dict.fromkeys(found))[:_MOST_MEMBERS]


def _shortened(words: str) -> str:
    lines = [_cut(line, _LONGEST_LINE) for line in words.split("\n")]
    if len(lines) > _MOST_LINES:
        half = _MOST_LINES // 2
        left_out = f"{ELLIPSIS} {len(lines) - 2 * half} lines left out {ELLIPSIS}"
        lines = [*lines[:half], left_out, *lines[-half:]]
    return "\n".join(lines)


def _cut(words: str, longest: int) -> str:
    if len(words) <= longest:
        return words
    half = longest // 2
    left_out = f" {ELLIPSIS} {len(words) - 2 * half} characters left out {ELLIPSIS} "
    return f"{words[:half]}{left_out}{words[-half:]}"


def _piece(words: str, mark: str = "") -> Piece:
    return Piece(kind="asked", words=words, mark=f"{INDENT}{mark}")
