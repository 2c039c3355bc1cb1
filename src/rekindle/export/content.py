"""Split the content of messages and tool calls into a few kinds of parts.

Documents and the terminal render these parts, each in its own way.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from msgspec import Struct

from rekindle.acp.translate.diff import diff_to_v2
from rekindle.export.json_depth import flatten
from rekindle.export.labels import one_line
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.text.sanitize import clean
from rekindle.transcript.model import Terminals, terminal_text

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The image types that are shown as pictures. SVG is not one: it may contain scripts."""
# Comparing longer texts takes too long.
_MAX_COMPARED = 200_000
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
    """Text in Markdown."""

    text: str


class Code(Struct, frozen=True):
    """Text that is shown verbatim."""

    text: str
    language: str = ""


class Diff(Struct, frozen=True, kw_only=True):
    """A patch, and the files that it changes."""

    text: str
    about: str
    is_computed: bool
    """Whether it was computed from two texts. They may be parts of a file, so its line numbers
    mean nothing."""


class Picture(Struct, frozen=True):
    """A picture in base64."""

    mime: str
    data: str


class LinkPart(Struct, frozen=True):
    """A link to a resource."""

    uri: str
    name: str


class Note(Struct, frozen=True):
    """A description of content that cannot be shown."""

    text: str


Part = Prose | Code | Diff | Picture | LinkPart | Note


class ToolCallLike(Protocol):
    """A tool call of a transcript or of the client API."""

    @property
    def id(self) -> str:
        """The id of the call."""
        ...

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of its updates, merged."""
        ...

    @property
    def outcome(self) -> str | None:
        """The user's answer to a permission request about it."""
        ...


class CallSummary(Struct, frozen=True, kw_only=True):
    """The parts of a line about a tool call."""

    mark: str
    title: str
    status: str
    about: str
    """The kind of the call, and the user's answer to a permission request."""
    kind: str
    """The kind of the call, if the title is not the kind."""


def block_parts(blocks: Iterable[dict[str, Any]]) -> Iterator[Part]:
    """Yield the parts of content blocks."""
    for block in blocks:
        yield from _block_parts(block)


def summarize(call: ToolCallLike) -> CallSummary:
    """Return the parts of a line about a tool call."""
    fields = call.fields
    status = as_str(fields.get("status")) or "pending"
    kind = as_str(fields.get("kind")) or ""
    title = as_str(fields.get("title")) or kind or call.id
    kind = kind if kind not in {title, "other"} else ""
    return CallSummary(
        mark=_MARKS.get(status, "?"),
        title=one_line(title),
        status=status,
        about=one_line(" · ".join(filter(None, [kind, call.outcome or ""]))),
        kind=one_line(kind),
    )


def is_over(call: ToolCallLike) -> bool:
    """Return whether a tool call has ended."""
    return call.fields.get("status") in _FINAL


def call_parts(call: ToolCallLike, terminals: Terminals) -> Iterator[Part]:
    """Yield the input of a tool call, and its result."""
    if raw_input := call.fields.get("rawInput"):
        yield Code(pretty(raw_input), "json")
    yield from result_parts(call, terminals)


def result_parts(call: ToolCallLike, terminals: Terminals) -> Iterator[Part]:
    """Yield the result of a tool call."""
    content = [as_object(part) for part in as_array(call.fields.get("content"))]
    for part in content:
        yield from _call_part(part, call, terminals)
    if not content and (output := call.fields.get("rawOutput")):
        yield Code(clean(output)) if isinstance(output, str) else Code(pretty(output), "json")


def change_parts(call: ToolCallLike) -> Iterator[Diff | Note]:
    """Yield the changes of files in the result of a tool call, but not whole files."""
    for part in map(as_object, as_array(call.fields.get("content"))):
        if part.get("type") == "diff":
            yield from (it for it in _diff(part) if not isinstance(it, Code))


def _call_part(part: dict[str, Any], call: ToolCallLike, terminals: Terminals) -> Iterator[Part]:
    match part.get("type"):
        case "diff":
            yield from _diff(part)
        case "terminal":
            terminal = terminals.get(str(part.get("terminalId")))
            text = terminal_text(call.fields, terminal)
            yield (
                Code(clean(text))
                if text or terminal
                else Note("a terminal whose output is not recorded")
            )
        case "content":
            for shown in _block_parts(as_object(part.get("content"))):
                yield _unfenced(shown.text) if isinstance(shown, Prose) else shown
        case _:
            yield Code(pretty(part), "json")


def _unfenced(text: str) -> Code:
    """Return the output of a tool, without the code fence that some agents add."""
    fenced = _FENCED.fullmatch(text)
    return Code(fenced[3], fenced[2]) if fenced else Code(text)


def _diff(part: dict[str, Any]) -> Iterator[Diff | Note | Code]:
    old, new = as_str(part.get("oldText")) or "", as_str(part.get("newText")) or ""
    if len(old) + len(new) > _MAX_COMPARED:
        path = one_line(as_str(part.get("path")) or "a file")
        before, after = len(old.splitlines()), len(new.splitlines())
        yield Note(f"{path}: {before} lines became {after}; too long to compare")
        yield Code(clean(new))
        return
    if old and new and not (old.endswith("\n") or new.endswith("\n")):
        # Most likely, these are snippets of a file. Git would report twice that a newline is
        # missing at the end.
        part = part | {"oldText": f"{old}\n", "newText": f"{new}\n"}
    diff = diff_to_v2(part)
    about = one_line(", ".join(map(_change, map(as_object, as_array(diff.get("changes"))))))
    patch = as_str(as_object(diff.get("patch")).get("text"))
    if patch is None:
        yield Note(about or "a change without a patch")
    else:
        is_computed = "changes" not in part
        yield Diff(text=clean(patch).rstrip("\n"), about=about or "a file", is_computed=is_computed)


def _change(change: dict[str, Any]) -> str:
    paths = [it for it in (as_str(change.get(name)) for name in ("oldPath", "path")) if it]
    operation = as_str(change.get("operation")) or "change"
    return " ".join([*([operation] if operation != "modify" else []), " → ".join(paths)])


def _block_parts(block: dict[str, Any]) -> Iterator[Part]:
    kind = as_str(block.get("type")) or "something"
    text = as_str(block.get("text"))
    resource = as_object(block.get("resource"))
    uri = as_str(block.get("uri")) or as_str(resource.get("uri"))
    if text is not None:
        yield Prose(clean(text))
        return
    if kind == "image" and (picture := _picture(block)):
        yield picture
    elif uri is None:
        yield Note(_described(kind, block))
    if uri is not None:
        name = as_str(block.get("title")) or as_str(block.get("name")) or uri
        yield LinkPart(one_line(uri), one_line(name))
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
    """Return indented JSON."""
    return clean(json.dumps(flatten(value), ensure_ascii=False, indent=2))


def compact(value: object) -> str:
    """Return the input or output of a tool on one line."""
    if isinstance(value, str):
        return one_line(value)
    return one_line(json.dumps(flatten(value), ensure_ascii=False))
