"""What of a transcript can be searched for: what was said, tool titles, file paths, plans.

Not what tools have put out: it is long, and seldom what a person remembers.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from msgspec import Struct

from rekindle.acp.jsonrpc import rows, table, text
from rekindle.transcript.model import Item, Message, Plan, ToolCall, Turn

GAP = "\u200b"
"""Parts words where people see no gap: it is shown as nothing."""

# Scripts that put no blanks between words, or write endings onto them.
_UNPARTED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_HAS_UNPARTED = re.compile(f"[{_UNPARTED}]")
_BETWEEN = re.compile(rf"(?<=[{_UNPARTED}])(?=\w)|(?<=\w)(?=[{_UNPARTED}])")
_UNWANTED = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_HUMP = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_NAME = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{3,64}+(?![A-Za-z0-9])")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class Origin(StrEnum):
    """Where words are from."""

    USER = "user"
    AGENT = "agent"
    THOUGHT = "thought"
    TOOL_CALL = "tool_call"
    PLAN = "plan"
    TITLE = "title"
    """The session's own."""


class Passage(Struct, frozen=True, kw_only=True):
    """Words that stand together, and their place in the session."""

    turn: int
    seq: int
    at_us: int
    origin: Origin
    ident: str | None = None
    """What a later entry may call it by."""
    words: str


def passages(turn: Turn) -> Iterator[Passage]:
    """Yield what can be found of a turn. What can still be added to is there even if empty."""
    for item in turn.items:
        said = _said(item)
        if said is None:
            continue
        origin, item_id, words = said
        if words or item_id is not None:
            yield Passage(
                turn=turn.number,
                seq=item.seq,
                at_us=item.at_us,
                origin=origin,
                ident=None if item_id is None else f"{origin}:{item_id}",
                words=_UNWANTED.sub(" ", words),
            )


def of_title(title: str, at_us: int) -> Passage:
    """Return what can be found of a session's title: it stands before the first turn."""
    words = _UNWANTED.sub(" ", title)
    return Passage(turn=0, seq=0, at_us=at_us, origin=Origin.TITLE, words=words)


def _said(item: Item) -> tuple[Origin, str | None, str] | None:
    match item:
        case Message():
            return Origin(item.role), item.id, "".join(map(_words_of_block, item.blocks))
        case ToolCall():
            words = dict.fromkeys([text(item.fields.get("title")) or "", *_paths(item.fields)])
            return Origin.TOOL_CALL, item.id, "\n".join(filter(None, words))
        case Plan():
            steps = (text(table(step).get("content")) or "" for step in item.entries)
            return Origin.PLAN, item.id, "\n".join(steps)
        case _:
            return None


def _words_of_block(block: dict[str, Any]) -> str:
    words = text(block.get("text"))
    if words is not None:
        return words
    named = [block.get("name"), block.get("uri"), table(block.get("resource")).get("uri")]
    return "".join(f"\n{name}\n" for name in map(text, named) if name)


def _paths(fields: dict[str, Any]) -> Iterator[str]:
    """Yield the files that a tool call has to do with."""
    parts = [table(part) for part in rows(fields.get("content"))]
    changes = [change for part in parts for change in rows(part.get("changes"))]
    for thing in map(table, [*rows(fields.get("locations")), *parts, *changes]):
        for name in ("oldPath", "path"):
            if path := text(thing.get(name)):
                yield path


def parted(words: str) -> str:
    """Part what is written without blanks into single characters, so that each can be found."""
    if words.isascii() or not _HAS_UNPARTED.search(words):
        return words
    return _BETWEEN.sub(GAP, words)


def humps(words: str) -> str:
    """Return the parts of names such as `CamelCase`, which else are one word."""
    if not _HUMP.search(words):
        return ""
    names = dict.fromkeys(name for name in _NAME.findall(words) if _HUMP.search(name))
    return " ".join(part for name in names for part in _PART.findall(name))
