"""Change single values of a line, and as few bytes as possible.

In a line whose envelope can be read but not its whole, because it is nested too deeply or has an
invalid number, only ids are replaced: that is better than a line without content.
"""

import re
from collections.abc import Container
from typing import Any

from msgspec import Raw

from rekindle.jsonvalue import as_object, decode_object, encode

MESSAGE_ID = b'"messageId"'
_TOOL_CALL_ID = b'"toolCallId"'
_ID = re.compile(rb'("id"\s*:\s*)(?:"(?:[^"\\]|\\.)*"|-?\d+)')


def with_session_id(line: bytes, old: str, new: str) -> bytes:
    """Return a line with `params.sessionId` changed from `old` to `new`.

    The bytes of the id are replaced. The whole line is encoded again only if the id occurs more
    than once, so that the right place is unknown, or is written with escapes.
    """
    pattern = rb'("sessionId"\s*:\s*)' + re.escape(encode(old))
    changed, count = re.subn(pattern, lambda found: found[1] + encode(new), line)
    message = decode_object(line) if count != 1 else None
    if message is None:
        return changed
    params = {**as_object(message.get("params")), "sessionId": new}
    return encode({**message, "params": params})


def with_id(line: bytes, request_id: Raw) -> bytes:
    """Return a request or a response with another id.

    In a line that cannot be decoded as a whole, the first id is replaced.
    """
    message = decode_object(line)
    if message is None:
        return _ID.sub(lambda found: found[1] + bytes(request_id), line, count=1)
    return encode({**message, "id": request_id})


def with_suffixed_ids(line: bytes, taken: Container[str], suffix: str) -> bytes:
    """Return a line in which the ids of messages and tool calls that are taken have a suffix."""
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
