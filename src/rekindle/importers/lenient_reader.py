"""Decode JSON records leniently: any field may be missing or have an unexpected type.

A record is decoded into a struct that declares the fields of interest. All other fields are
skipped without being decoded, which is fast. Long texts stay undecoded as `Raw` values.
"""

import json
from types import UnionType
from typing import Any, Generic, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import MsgspecError, Raw, Struct
from msgspec.structs import fields

from rekindle.jsonvalue import decode_object, encode

MISSING = Raw()
"""The default of a `Raw` field."""
EMPTY_STRING = Raw(b'""')

_Record = TypeVar("_Record", bound=Struct)

_UNREADABLE = (MsgspecError, UnicodeDecodeError, RecursionError)
# A crash can leave such bytes in a file that was being written.
_PADDING = b"\0 \t\r"


class LenientReader(Generic[_Record]):
    """Decodes JSON objects as structs of one type. Every field of it must have a default."""

    def __init__(self, kind: type[_Record]) -> None:
        self._kind = kind
        self._decode = msgspec.json.Decoder(kind).decode

    def __call__(self, line: bytes) -> _Record | None:
        """Return the record in a line; None if the line is not a JSON object."""
        try:
            record = self._decode(line)
            # Undecoded parts must be valid UTF-8 too.
            if not line.isascii():
                line.decode()
        except _UNREADABLE:
            return self._decode_leniently(line)
        return record

    def _decode_leniently(self, line: bytes) -> _Record | None:
        value = decode_object(line.strip(_PADDING))
        return None if value is None else _fit_record(self._kind, _without_surrogates(value))


def _without_surrogates(value: dict[str, Any]) -> dict[str, Any]:
    """Return the value without lone surrogates, which cannot be encoded as UTF-8."""
    text = json.dumps(value, ensure_ascii=False)
    valid = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return cast("dict[str, Any]", json.loads(valid))


def _fit_record(kind: type[_Record], value: dict[str, Any]) -> _Record:
    """Return a record with the fields that have the right type; the others get their defaults."""
    kept: dict[str, Any] = {}
    for field in fields(kind):
        if field.encode_name in value:
            fitted = _fit(field.type, value[field.encode_name])
            if fitted is not _UNFIT:
                kept[field.name] = fitted
    return kind(**kept)


_UNFIT = object()


def _fit(kind: Any, value: object) -> object:  # noqa: ANN401 - a type, or a union of types
    try:
        return msgspec.json.decode(encode(value), type=kind)
    except _UNREADABLE:
        pass
    is_union = get_origin(kind) in {Union, UnionType}
    for choice in get_args(kind) if is_union else (kind,):
        if isinstance(choice, type) and issubclass(choice, Struct) and isinstance(value, dict):
            return _fit_record(choice, cast("dict[str, Any]", value))
        if get_origin(choice) is list and isinstance(value, list):
            (item_kind,) = get_args(choice)
            items = [_fit(item_kind, item) for item in cast("list[object]", value)]
            return [item for item in items if item is not _UNFIT]
    return _UNFIT


# -- undecoded values -------------------------------------------------------------------------


def starts_with(value: Raw, prefix: bytes) -> bool:
    """Return whether an undecoded value starts with these bytes."""
    return memoryview(value)[: len(prefix)].tobytes() == prefix


def is_json_string(value: Raw) -> bool:
    """Return whether an undecoded value is a string."""
    return memoryview(value)[:1].tobytes() == b'"'


def is_nonempty_string(value: Raw) -> bool:
    """Return whether an undecoded value is a string that is not empty."""
    return is_json_string(value) and len(memoryview(value)) > len('""')


def decode_string(value: Raw) -> str:
    """Decode a string; return an empty one if the value is not a string."""
    return str(msgspec.json.decode(value)) if is_json_string(value) else ""


def string_or_empty(value: Raw) -> Raw:
    """Return an undecoded string, or an empty string if the value is not a string."""
    return value if is_json_string(value) else EMPTY_STRING
