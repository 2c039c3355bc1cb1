"""Changing as little of a line as must be changed."""

import re

from msgspec import Raw

from rekindle.wire.envelope import encode, members, table


def with_session_id(line: bytes, old: str, new: str) -> bytes:
    """Return a line whose `params.sessionId` is `new` instead of `old`; the rest as it was.

    The bytes are changed in place. Only where they name the old id more than once, so that
    the right place cannot be told, or spell it with escapes, is the line written anew.
    """
    pattern = rb'("sessionId"\s*:\s*)' + re.escape(encode(old))
    changed, count = re.subn(pattern, lambda found: found[1] + encode(new), line)
    if count == 1:
        return changed
    message = members(line) or {}
    params = {**table(message.get("params")), "sessionId": new}
    return encode({**message, "params": params})


def with_id(line: bytes, request_id: Raw) -> bytes:
    """Return a request or an answer with another id; the rest as it was."""
    return encode({**(members(line) or {}), "id": request_id})
