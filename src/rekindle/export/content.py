"""What a message or a tool call shows, as the few kinds of things that can be put on a page.

Documents and terminals are made of them: what they say is one, and only how it looks differs.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from msgspec import Struct

from rekindle.acp.terminal_output import Terminal
from rekindle.acp.translate.diff import diff_to_v2
from rekindle.export.json_depth import flattened
from rekindle.export.labels import one_line
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.text.sanitize import clean
from rekindle.transcript.model import TranscriptMessage

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What can be shown as a picture; not SVG, which can do more than be seen."""
# To compare takes long where both texts are: who has a whole file changed wants to see it there.
_MOST_TO_COMPARE = 200_000
_FENCED = re.compile(r"\s*(`{3,40})([\w+-]*)\n(.*?)\n?\1\s*", re.DOTALL)
_MARKS = {
    "completed": "✓",
    "failed": "✗",
    "cancelled": "✗",
    "in_progress": "…",
    "pending": "·",
    "paused": "·",
}
_FINAL = ("completed", "failed", "cancelled")


class Prose(Struct, frozen=True):
    """Words, as Markdown."""

    text: str


class Code(Struct, frozen=True):
    """A text that is shown as it is."""

    text: str
    language: str = ""


class Diff(Struct, frozen=True, kw_only=True):
    """A patch, and what it does to which files."""

    text: str
    about: str
    is_made: bool
    """Whether it is made of two texts: they may be parts of a file, so its numbers tell nothing."""


class Picture(Struct, frozen=True):
    """A picture, as base64."""

    mime: str
    data: str


class Link(Struct, frozen=True):
    """Something that is elsewhere."""

    uri: str
    name: str


class Note(Struct, frozen=True):
    """Something that cannot be shown, in words of ours."""

    text: str


Part = Prose | Code | Diff | Picture | Link | Note
Terminals = Mapping[str, Terminal]


class Call(Protocol):
    """A tool call: one on record, or one that a client sees."""

    @property
    def id(self) -> str:
        """What it is known by."""
        ...

    @property
    def fields(self) -> dict[str, Any]:
        """All that was told of it."""
        ...

    @property
    def outcome(self) -> str | None:
        """What was answered when the agent asked for permission."""
        ...


class Summary(Struct, frozen=True, kw_only=True):
    """A tool call in a line."""

    mark: str
    title: str
    status: str
    about: str
    """What kind it is, and what the user said to it."""
    kind: str
    """What kind it is, where the title does not say so."""


def message_parts(message: TranscriptMessage) -> Iterator[Part]:
    """Yield what a message shows."""
    return block_parts(message.blocks)


def block_parts(blocks: Iterable[dict[str, Any]]) -> Iterator[Part]:
    """Yield what content blocks show."""
    for block in blocks:
        yield from _block_parts(block)


def summary(call: Call) -> Summary:
    """Return a tool call's title and how it ended."""
    fields = call.fields
    status = as_str(fields.get("status")) or "pending"
    kind = as_str(fields.get("kind")) or ""
    title = as_str(fields.get("title")) or kind or call.id
    kind = kind if kind not in {title, "other"} else ""
    return Summary(
        mark=_MARKS.get(status, "?"),
        title=one_line(title),
        status=status,
        about=one_line(" · ".join(filter(None, [kind, call.outcome or ""]))),
        kind=one_line(kind),
    )


def is_over(call: Call) -> bool:
    """Tell whether nothing more will come of a tool call."""
    return call.fields.get("status") in _FINAL


def call_parts(call: Call, terminals: Terminals) -> Iterator[Part]:
    """Yield what a tool call was given, and what came of it."""
    if given := call.fields.get("rawInput"):
        yield Code(pretty(given), "json")
    yield from result_parts(call, terminals)


def result_parts(call: Call, terminals: Terminals) -> Iterator[Part]:
    """Yield what came of a tool call."""
    content = [as_object(part) for part in as_array(call.fields.get("content"))]
    for part in content:
        yield from _call_part(part, terminals)
    if not content and (output := call.fields.get("rawOutput")):
        yield Code(clean(output)) if isinstance(output, str) else Code(pretty(output), "json")


def change_parts(call: Call) -> Iterator[Diff | Note]:
    """Yield what a tool call changes in files, but not whole files."""
    for part in map(as_object, as_array(call.fields.get("content"))):
        if part.get("type") == "diff":
            yield from (it for it in _diff(part) if not isinstance(it, Code))


def _call_part(part: dict[str, Any], terminals: Terminals) -> Iterator[Part]:
    match part.get("type"):
        case "diff":
            yield from _diff(part)
        case "terminal":
            terminal = terminals.get(str(part.get("terminalId")))
            yield Code(clean(terminal.text)) if terminal else Note("a terminal that is gone")
        case "content":
            for shown in _block_parts(as_object(part.get("content"))):
                yield _unfenced(shown.text) if isinstance(shown, Prose) else shown
        case _:
            yield Code(pretty(part), "json")


def _unfenced(words: str) -> Code:
    """Return what a tool has put out; agents often put it between fences."""
    fenced = _FENCED.fullmatch(words)
    return Code(fenced[3], fenced[2]) if fenced else Code(words)


def _diff(part: dict[str, Any]) -> Iterator[Diff | Note | Code]:
    old, new = as_str(part.get("oldText")) or "", as_str(part.get("newText")) or ""
    if len(old) + len(new) > _MOST_TO_COMPARE:
        path = one_line(as_str(part.get("path")) or "a file")
        before, after = len(old.splitlines()), len(new.splitlines())
        yield Note(f"{path}: {before} lines became {after}, too long to compare")
        yield Code(clean(new))
        return
    told = diff_to_v2(part)
    about = one_line(", ".join(map(_change, map(as_object, as_array(told.get("changes"))))))
    patch = as_str(as_object(told.get("patch")).get("text"))
    if patch is None:
        yield Note(about or "a change without a patch")
    else:
        is_made = "changes" not in part
        yield Diff(text=clean(patch).rstrip("\n"), about=about or "a file", is_made=is_made)


def _change(change: dict[str, Any]) -> str:
    paths = [it for it in (as_str(change.get(name)) for name in ("oldPath", "path")) if it]
    operation = as_str(change.get("operation")) or "change"
    return " ".join([*([operation] if operation != "modify" else []), " → ".join(paths)])


def _block_parts(block: dict[str, Any]) -> Iterator[Part]:
    kind = as_str(block.get("type")) or "something"
    words = as_str(block.get("text"))
    resource = as_object(block.get("resource"))
    uri = as_str(block.get("uri")) or as_str(resource.get("uri"))
    if words is not None:
        yield Prose(clean(words))
        return
    if kind == "image" and (picture := _picture(block)):
        yield picture
    elif uri is None:
        yield Note(_described(kind, block))
    if uri is not None:
        name = as_str(block.get("title")) or as_str(block.get("name")) or uri
        yield Link(one_line(uri), one_line(name))
    if (inside := as_str(resource.get("text"))) is not None:
        yield Code(clean(inside))


def _picture(block: dict[str, Any]) -> Picture | None:
    mime = as_str(block.get("mimeType")) or ""
    try:
        data = base64.b64decode(as_str(block.get("data")) or "", validate=True)
    except (binascii.Error, ValueError):
        return None
    is_safe = mime in PICTURES and data
    return Picture(mime, base64.b64encode(data).decode("ascii")) if is_safe else None


def _described(kind: str, block: dict[str, Any]) -> str:
    mime = as_str(block.get("mimeType"))
    return one_line(f"{kind}, {mime}" if mime else kind)


def pretty(value: object) -> str:
    """Return JSON for people."""
    return clean(json.dumps(flattened(value), ensure_ascii=False, indent=2))


def compact(value: object) -> str:
    """Return what a tool was given or gave, on one line."""
    if isinstance(value, str):
        return one_line(value)
    return one_line(json.dumps(flattened(value), ensure_ascii=False))
