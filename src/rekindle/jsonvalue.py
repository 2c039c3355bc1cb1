"""Decode and encode JSON values, and read them leniently.

Decoding never raises: bytes that are not JSON, or are nested too deeply, decode to None. The
`as_…` functions return an empty value where the JSON value has another type.
"""

import json
import math
from collections.abc import Iterable
from typing import Any, cast

import msgspec
from msgspec import MsgspecError, Raw

Json = dict[str, Any]
"""A JSON object."""

MAX_DEPTH = 400
"""Code that walks or encodes a value is deeper on the stack than the decoder."""

# RecursionError: a line may be nested deeper than Python can follow. UnicodeDecodeError: a name
# may be invalid UTF-8.
UNREADABLE = (MsgspecError, UnicodeDecodeError, RecursionError)


def decode_object(line: bytes | Raw) -> dict[str, Any] | None:
    """Decode a JSON object as leniently as `decode`; return None for anything else."""
    value = decode(line)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def decode(data: bytes | Raw) -> object:
    """Decode JSON; return None if it is not JSON, or is nested deeper than MAX_DEPTH.

    Invalid UTF-8 is replaced, and numbers that are too large become None.
    """
    line = bytes(data)
    try:
        value = msgspec.json.decode(line)
    except UNREADABLE:
        value = _decode_leniently(line)
    if len(line) <= MAX_DEPTH:
        return value
    may_be_deep = line.count(b"[") + line.count(b"{") > MAX_DEPTH
    return None if may_be_deep and _is_too_deep(value) else value


def _decode_leniently(line: bytes) -> object:
    try:
        text = line.decode("utf-8", "replace")
        return json.loads(text, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        return None


def _is_too_deep(value: object) -> bool:
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        # Level by level, because there may be very many values.
        level = [
            part
            for outer in level
            for part in cast("Iterable[Any]", outer.values() if isinstance(outer, dict) else outer)
            if isinstance(part, (dict, list))
        ]
        if not level:
            return False
    return True


def _finite(text: str) -> float | None:
    """Parse a number; return None if it is out of range, as JavaScript encodes it."""
    value = float(text)
    return value if math.isfinite(value) else None


def encode(value: object) -> bytes:
    """Encode a JSON value as one line. Lone surrogates are escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), default=_decoded).encode("ascii")


def _decoded(value: object) -> object:
    """Decode a part that is encoded already."""
    if isinstance(value, Raw):
        return decode(value)
    raise TypeError(f"no JSON: {value!r}")


def as_object(value: object) -> dict[str, Any]:
    """Return the value if it is an object, and an empty dict otherwise."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_array(value: object) -> list[Any]:
    """Return the value if it is an array, and an empty list otherwise."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_str(value: object) -> str | None:
    """Return the value as a string that can be stored; None if it is not a string."""
    if not isinstance(value, str):
        return None
    # A lone surrogate cannot be written as UTF-8; its escape can, and stays distinct.
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def without(fields: Json, *names: str) -> Json:
    """Return an object without the fields of these names."""
    return {name: value for name, value in fields.items() if name not in names}
