"""Translate content blocks, and the parts of a tool call's content."""

from collections.abc import Callable

from rekindle.acp.translate.diff import diff_to_v1, diff_to_v2
from rekindle.jsonvalue import Json, as_object, as_str

ShowTerminal = Callable[[str], str]
"""Returns the output of a terminal, by its id, as text."""

_TYPES = frozenset({"text", "image", "audio", "resource_link", "resource"})


def block_to_v1(block: Json) -> Json:
    """Return a content block in the form of version 1.

    Lost: the content of a block whose type version 1 does not have. Its type stays, as text.
    """
    kind = as_str(block.get("type"))
    if kind in _TYPES:
        return block
    return {"type": "text", "text": f"[{kind or 'content'}]"}


def part_to_v2(part: Json) -> Json:
    """Return a part of a tool call's content in the form of version 2."""
    return diff_to_v2(part) if part.get("type") == "diff" else part


def part_to_v1(part: Json, show: ShowTerminal) -> Json:
    """Return a part of a tool call's content in the form of version 1.

    Lost: the type of a terminal, because a version 1 client knows only terminals of its own; and
    the content of a part whose type version 1 does not have.
    """
    match part.get("type"):
        case "diff":
            return diff_to_v1(part)
        case "terminal":
            return text_part(show(str(part.get("terminalId"))))
        case "content":
            block = as_object(part.get("content"))
            translated = block_to_v1(block)
            return part if translated is block else {**part, "content": translated}
        case other:
            return text_part(f"[{other}]")


def text_part(text: str) -> Json:
    """Return a part of a tool call's content that shows a text."""
    return {"type": "content", "content": {"type": "text", "text": text}}
