"""Content blocks: both versions have the same, but version 2 may get more."""

from typing import Any

from rekindle.acp.jsonrpc import text

Json = dict[str, Any]

_TYPES = frozenset({"text", "image", "audio", "resource_link", "resource"})


def block_to_v1(block: Json) -> Json:
    """Return a content block as version 1 has it."""
    kind = text(block.get("type"))
    if kind in _TYPES:
        return block
    # Lost: what it is, but for its name.
    return {"type": "text", "text": f"[{kind or 'content'}]"}
