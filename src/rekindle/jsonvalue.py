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

# RecursionError: a line may be nested deeper than Python can follow. UnicodeDecodeError:
# a name that we read may be invalid UTF-8.
MAX_DEPTH = 400


UNREADABLE = (MsgspecError, UnicodeDecodeError, RecursionError)


def decode_object(line: bytes | Raw) -> dict[str, Any] | None:
    """Decode a JSON object whole, as well as its bytes allow; None when it is none."""
    value = decode(line)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def decode(data: bytes | Raw) -> object:
    """Decode JSON, as well as its bytes allow; None when it is not JSON at all.

    What is nested too deeply is none either: whoever goes through it, or writes it again, stands
    deeper on the stack than we do here.
    """
    line = bytes(data)
    value = _decode_leniently(line)
    may_be_deep = line.count(b"[") + line.count(b"{") > MAX_DEPTH
    return None if may_be_deep and _is_too_deep(value) else value


def _decode_leniently(line: bytes) -> object:
    try:
        return msgspec.json.decode(line)
    except UNREADABLE:
        pass
    try:
        words = line.decode("utf-8", "replace")
        return json.loads(words, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        return None


def _is_too_deep(value: object) -> bool:
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        # In one go, because there may be very many.
        level = [
            part
            for it in level
            for part in cast("Iterable[Any]", it.values() if isinstance(it, dict) else it)
            if isinstance(part, (dict, list))
        ]
        if not level:
            return False
    return True


def _finite(words: str) -> float | None:
    """Read a number; one that is greater than numbers can be is none, as JavaScript has it."""
    value = float(words)
    return value if math.isfinite(value) else None


def encode(value: object) -> bytes:
    """Encode a JSON value as one line, lone surrogates and all."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), default=_decoded).encode("ascii")


def _decoded(value: object) -> object:
    """Return a part that is JSON already as the value it stands for."""
    if isinstance(value, Raw):
        return decode(value)
    raise TypeError(f"no JSON: {value!r}")


def as_object(value: object) -> dict[str, Any]:
    """Take a JSON value for an object; what is none counts as empty."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_array(value: object) -> list[Any]:
    """Take a JSON value for an array; what is none counts as empty."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_str(value: object) -> str | None:
    """Take a JSON value for a string that can be stored; what is none counts as absent."""
    if not isinstance(value, str):
        return None
    # A lone surrogate cannot be written as UTF-8; its escape can, and stays distinct.
    return value.encode("utf-8", "backslashreplace").decode("utf-8")
