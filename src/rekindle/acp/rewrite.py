"""Changing as little of a line as must be changed.

A line whose frame can be read and whose whole cannot, because it is nested too deeply or has a
number that is none, stays as it is: better that than a line that says nothing.
"""

import re
from collections.abc import Container
from typing import Any

from msgspec import Raw

from rekindle.jsonvalue import as_object, decode_object, encode

MESSAGE_ID = b'"messageId"'
_TOOL_CALL_ID = b'"toolCallId"'


def with_session_id(line: bytes, old: str, new: str) -> bytes:
    """Return a line whose `params.sessionId` is `new` instead of `old`; the rest as it was.

    The bytes are changed in place. Only where they name the old id more than once, so that
    the right place cannot be told, or spell it with escapes, is the line written anew.
    """
    pattern = rb'("sessionId"\s*:\s*)' + re.escape(encode(old))
    changed, count = re.subn(pattern, lambda found: found[1] + encode(new), line)
    message = decode_object(line) if count != 1 else None
    if message is None:
        return changed
    params = {**as_object(message.get("params")), "sessionId": new}
    return encode({**message, "params": params})


def with_id(line: bytes, request_id: Raw) -> bytes:
    """Return a request or an answer with another id; the rest as it was."""
    message = decode_object(line)
    return line if message is None else encode({**message, "id": request_id})


def with_suffixed_ids(line: bytes, taken: Container[str], suffix: str) -> bytes:
    """Return a line in which messages and tool calls whose ids are taken have others."""
    if MESSAGE_ID not in line and _TOOL_CALL_ID not in line:
        return line
    message = decode_object(line) or {}
    params, result = as_object(message.get("params")), as_object(message.get("result"))
    subject = as_object(params.get("subject"))
    has_changed = False
    for place in (params.get("update"), params.get("toolCall"), subject.get("toolCall"), result):
        has_changed |= _rename(as_object(place), taken, suffix)
    return encode(message) if has_changed else line


def _rename(place: dict[str, Any], taken: Container[str], suffix: str) -> bool:
    found = [name for name in ("messageId", "toolCallId") if isinstance(place.get(name), str)]
    renamed = [name for name in found if place[name] in taken]
    for name in renamed:
        place[name] += suffix
    return bool(renamed)
