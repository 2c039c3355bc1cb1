"""Reading records as far as they can be read: every name in them may be missing, or mean nothing.

What a record is read into says what is wanted of it; all else is passed over unread, quickly.
"""

import json
from types import UnionType
from typing import Any, Generic, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import MsgspecError, Raw, Struct
from msgspec.structs import fields

from rekindle.jsonvalue import decode_object, encode

_Record = TypeVar("_Record", bound=Struct)

_UNREADABLE = (MsgspecError, UnicodeDecodeError, RecursionError)
# What a crash leaves in a file that was just being written.
_RUBBISH = b"\0 \t\r"


class Reader(Generic[_Record]):
    """Reads lines as records of one kind. All names of such a record must have a default."""

    def __init__(self, kind: type[_Record]) -> None:
        self._kind = kind
        self._decode = msgspec.json.Decoder(kind).decode

    def __call__(self, line: bytes) -> _Record | None:
        """Return what a line tells; None if it is no JSON object."""
        try:
            record = self._decode(line)
            # Parts that are passed on unread must be text, too.
            if not line.isascii():
                line.decode()
        except _UNREADABLE:
            return self._leniently(line)
        return record

    def _leniently(self, line: bytes) -> _Record | None:
        found = decode_object(line.strip(_RUBBISH))
        return None if found is None else _fitting(self._kind, _mended(found))


def _mended(found: dict[str, Any]) -> dict[str, Any]:
    """Return a value without halves of characters, which nobody could write down."""
    words = json.dumps(found, ensure_ascii=False)
    sound = words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return cast("dict[str, Any]", json.loads(sound))


def _fitting(kind: type[_Record], found: dict[str, Any]) -> _Record:
    """Return a record with all that is as it should be, and without the rest."""
    kept: dict[str, Any] = {}
    for field in fields(kind):
        if field.encode_name in found:
            value = _fit(field.type, found[field.encode_name])
            if value is not _NOTHING:
                kept[field.name] = value
    return kind(**kept)


_NOTHING = object()


def _fit(wanted: Any, value: object) -> object:  # noqa: ANN401 - a type, or a union of some
    try:
        return msgspec.json.decode(encode(value), type=wanted)
    except _UNREADABLE:
        pass
    is_union = get_origin(wanted) in {Union, UnionType}
    for choice in get_args(wanted) if is_union else (wanted,):
        if isinstance(choice, type) and issubclass(choice, Struct) and isinstance(value, dict):
            return _fitting(choice, cast("dict[str, Any]", value))
        if get_origin(choice) is list and isinstance(value, list):
            (kind,) = get_args(choice)
            parts = [_fit(kind, it) for it in cast("list[object]", value)]
            return [it for it in parts if it is not _NOTHING]
    return _NOTHING


def is_text(value: Raw) -> bool:
    """Tell whether a value that was not read is a string."""
    return memoryview(value)[:1].tobytes() == b'"'


def has_words(value: Raw) -> bool:
    """Tell whether a value that was not read is a string that is not empty."""
    return is_text(value) and len(memoryview(value)) > len('""')
