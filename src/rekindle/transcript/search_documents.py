"""What of a transcript can be searched for: what was said, tool titles, file paths, plans.

Not what tools have put out: it is long, and seldom what a person remembers.
"""

import re
from collections.abc import Iterator
from typing import Any

from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.model import DocumentKind, SearchDocument
from rekindle.transcript.model import (
    Item,
    PlanItem,
    ToolCallItem,
    TranscriptMessage,
    TranscriptTurn,
)

_UNWANTED = re.compile("[\x00-\x08\x0b-\x1f\x7f]")


def search_documents(turn: TranscriptTurn) -> Iterator[SearchDocument]:
    """Yield what can be found of a turn. What can still be added to is there even if empty."""
    for item in turn.items:
        said = _said(item)
        if said is None:
            continue
        origin, item_id, words = said
        if words or item_id is not None:
            yield SearchDocument(
                turn=turn.number,
                seq=item.seq,
                at_us=item.at_us,
                origin=origin,
                ident=None if item_id is None else f"{origin}:{item_id}",
                words=_UNWANTED.sub(" ", words),
            )


def title_document(title: str, at_us: int) -> SearchDocument:
    """Return what can be found of a session's title: it stands before the first turn."""
    words = _UNWANTED.sub(" ", title)
    return SearchDocument(turn=0, seq=0, at_us=at_us, origin=DocumentKind.TITLE, words=words)


def _said(item: Item) -> tuple[DocumentKind, str | None, str] | None:
    match item:
        case TranscriptMessage():
            return DocumentKind(item.role), item.id, "".join(map(_words_of_block, item.blocks))
        case ToolCallItem():
            words = dict.fromkeys([as_str(item.fields.get("title")) or "", *_paths(item.fields)])
            return DocumentKind.TOOL_CALL, item.id, "\n".join(filter(None, words))
        case PlanItem():
            steps = (as_str(as_object(step).get("content")) or "" for step in item.entries)
            return DocumentKind.PLAN, item.id, "\n".join(steps)
        case _:
            return None


def _words_of_block(block: dict[str, Any]) -> str:
    words = as_str(block.get("text"))
    if words is not None:
        return words
    named = [block.get("name"), block.get("uri"), as_object(block.get("resource")).get("uri")]
    return "".join(f"\n{name}\n" for name in map(as_str, named) if name)


def _paths(fields: dict[str, Any]) -> Iterator[str]:
    """Yield the files that a tool call has to do with."""
    parts = [as_object(part) for part in as_array(fields.get("content"))]
    changes = [change for part in parts for change in as_array(part.get("changes"))]
    for thing in map(as_object, [*as_array(fields.get("locations")), *parts, *changes]):
        for name in ("oldPath", "path"):
            if path := as_str(thing.get(name)):
                yield path
