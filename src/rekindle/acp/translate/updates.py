"""Translate content blocks: version 2 may have types that version 1 does not know."""

from typing import Any

from rekindle.jsonvalue import as_str

Json = dict[str, Any]


_TYPES = frozenset({"text", "image", "audio", "resource_link", "resource"})


def block_to_v1(block: Json) -> Json:
    """Return a content block as version 1 has it."""
    kind = as_str(block.get("type"))
    if kind in _TYPES:
        return block
    # Lost: what it is, but for its name.
    return {"type": "text", "text": f"[{kind or 'content'}]"}
