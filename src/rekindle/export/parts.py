"""What a message or a tool call shows, as the few kinds of things that a document can hold."""

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from rekindle.core.items import Message, Terminal, ToolCall
from rekindle.core.translate.diffs import diff_to_v2
from rekindle.export.nesting import flattened
from rekindle.export.plain import clean, one_line
from rekindle.wire.envelope import rows, table, text

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What can be shown as a picture; not SVG, which can do more than be seen."""
# To compare takes long where both texts are.
_MOST_TO_COMPARE = 200_000
_FENCED = re.compile(r"\s*(`{3,})([\w+-]*)\n(.*?)\n?\1\s*", re.DOTALL)
_MARKS = {"completed": "✓", "failed": "✗", "cancelled": "✗", "in_progress": "…", "pending": "·"}


class Prose(Struct, frozen=True):
    """Words, as Markdown."""

    text: str


class Code(Struct, frozen=True):
    """A text that is shown as it is."""

    text: str
    language: str = ""


class Diff(Struct, frozen=True):
    """A patch."""

    text: str


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


class Summary(Struct, frozen=True, kw_only=True):
    """A tool call in a line."""

    mark: str
    title: str
    status: str
    about: str
    """What kind it is, and what the user said to it."""


def message_parts(message: Message) -> Iterator[Part]:
    """Yield what a message shows."""
    for block in message.blocks:
        yield from _block_parts(block)


def summary(call: ToolCall) -> Summary:
    """Return a tool call's title and how it ended."""
    fields = call.fields
    status = text(fields.get("status")) or "pending"
    kind = text(fields.get("kind")) or ""
    title = text(fields.get("title")) or kind or call.id
    about = [kind if kind not in {title, "other"} else "", call.outcome or ""]
    return Summary(
        mark=_MARKS.get(status, "?"),
        title=one_line(title),
        status=status,
        about=one_line(" · ".join(filter(None, about))),
    )


def call_parts(call: ToolCall, terminals: dict[str, Terminal]) -> Iterator[Part]:
    """Yield what a tool call was given, and what came of it."""
    if given := call.fields.get("rawInput"):
        yield Code(pretty(given), "json")
    content = [table(part) for part in rows(call.fields.get("content"))]
    for part in content:
        yield from _call_part(part, terminals)
    if not content and (output := call.fields.get("rawOutput")):
        yield Code(clean(output)) if isinstance(output, str) else Code(pretty(output), "json")


def _call_part(part: dict[str, Any], terminals: dict[str, Terminal]) -> Iterator[Part]:
    match part.get("type"):
        case "diff":
            yield from _diff(part)
        case "terminal":
            terminal = terminals.get(str(part.get("terminalId")))
            yield Code(clean(terminal.text)) if terminal else Note("a terminal that is gone")
        case "content":
            for shown in _block_parts(table(part.get("content"))):
                yield _unfenced(shown.text) if isinstance(shown, Prose) else shown
        case _:
            yield Code(pretty(part), "json")


def _unfenced(words: str) -> Code:
    """Return what a tool has put out; agents often put it between fences."""
    fenced = _FENCED.fullmatch(words)
    return Code(fenced[3], fenced[2]) if fenced else Code(words)


def _diff(part: dict[str, Any]) -> Iterator[Part]:
    old, new = text(part.get("oldText")) or "", text(part.get("newText")) or ""
    if len(old) + len(new) > _MOST_TO_COMPARE:
        path = one_line(text(part.get("path")) or "a file")
        before, after = len(old.splitlines()), len(new.splitlines())
        yield Note(f"{path}: {before} lines became these {after}, too long to compare")
        yield Code(clean(new))
        return
    patch = text(table(diff_to_v2(part).get("patch")).get("text"))
    yield Code(pretty(part), "json") if patch is None else Diff(clean(patch).rstrip("\n"))


def _block_parts(block: dict[str, Any]) -> Iterator[Part]:
    kind = text(block.get("type")) or "something"
    words = text(block.get("text"))
    resource = table(block.get("resource"))
    uri = text(block.get("uri")) or text(resource.get("uri"))
    if words is not None:
        yield Prose(clean(words))
        return
    if kind == "image" and (picture := _picture(block)):
        yield picture
    elif uri is None:
        yield Note(_described(kind, block))
    if uri is not None:
        name = text(block.get("title")) or text(block.get("name")) or uri
        yield Link(one_line(uri), one_line(name))
    if (inside := text(resource.get("text"))) is not None:
        yield Code(clean(inside))


def _picture(block: dict[str, Any]) -> Picture | None:
    mime = text(block.get("mimeType")) or ""
    try:
        data = base64.b64decode(text(block.get("data")) or "", validate=True)
    except (binascii.Error, ValueError):
        return None
    is_safe = mime in PICTURES and data
    return Picture(mime, base64.b64encode(data).decode("ascii")) if is_safe else None


def _described(kind: str, block: dict[str, Any]) -> str:
    mime = text(block.get("mimeType"))
    return one_line(f"{kind}, {mime}" if mime else kind)


def pretty(value: object) -> str:
    """Return JSON for people."""
    return clean(json.dumps(flattened(value), ensure_ascii=False, indent=2))
