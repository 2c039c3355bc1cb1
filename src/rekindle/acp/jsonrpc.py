"""Read the JSON-RPC envelope of a line, and write messages.

Reading never raises: a line that is not a message becomes None. Only the fields that decide how a
line is handled are decoded; `jsonvalue.decode_object` decodes the rest on demand.
"""

import re
from collections.abc import Hashable
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from rekindle.acp.methods import UPDATE
from rekindle.jsonvalue import UNREADABLE, as_object, as_str, decode, decode_object, encode

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
AUTH_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002
UNSUPPORTED_VERSION = -32022
REQUEST_CANCELLED = -32800


class UpdateHead(Struct, gc=False):
    """The kind of an update."""

    kind: str | UnsetType = field(default=UNSET, name="sessionUpdate")


class ParamsHead(Struct, gc=False):
    """The session and the update in the params of a message."""

    session_id: str | UnsetType = field(default=UNSET, name="sessionId")
    update: UpdateHead | UnsetType = UNSET


class Envelope(Struct, gc=False):
    """The envelope of a line. A missing `id` is UNSET, which differs from null."""

    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: ParamsHead | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET

    @property
    def is_request(self) -> bool:
        """Whether it is a request."""
        return self.method is not UNSET and self.id is not UNSET

    @property
    def is_response(self) -> bool:
        """Whether it is a response, successful or not."""
        return (
            self.method is UNSET
            and self.id is not UNSET
            and (self.result is not UNSET or self.error is not UNSET)
        )

    @property
    def is_error(self) -> bool:
        """Whether it is an error response. Some agents send both members, with null in one."""
        return self.error is not UNSET and bytes(self.error) != b"null"

    @property
    def is_update(self) -> bool:
        """Whether it is a `session/update` notification."""
        return self.method == UPDATE and self.id is UNSET

    @property
    def update_kind(self) -> str:
        """The kind of its update; empty if it has none."""
        if self.params is UNSET or self.params.update is UNSET or self.params.update.kind is UNSET:
            return ""
        return self.params.update.kind

    @property
    def session_id(self) -> str | None:
        """The session id in its params."""
        if self.params is UNSET or self.params.session_id is UNSET:
            return None
        return self.params.session_id


_decode_message = msgspec.json.Decoder(Envelope).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode


def read_envelope(line: bytes) -> Envelope | None:
    """Read the envelope of a line; None if the line is not a JSON object."""
    try:
        return _decode_message(line)
    except UNREADABLE:
        return _read_leniently(line)


def _read_leniently(line: bytes) -> Envelope | None:
    """Read an envelope whose fields have unexpected types, or whose text is invalid.

    JavaScript writes a lone surrogate where it cuts a stream inside an emoji. Only the decoder of
    the standard library reads such a line.
    """
    value = decode_object(line)
    if value is None:
        return None
    params = as_object(value.get("params"))
    kind = as_str(as_object(params.get("update")).get("sessionUpdate"))
    session_id = as_str(params.get("sessionId"))
    method = as_str(value.get("method"))
    return Envelope(
        id=_raw(value, "id"),
        method=UNSET if method is None else method,
        params=ParamsHead(
            session_id=UNSET if session_id is None else session_id,
            update=UNSET if kind is None else UpdateHead(kind=kind),
        ),
        result=_raw(value, "result"),
        error=_raw(value, "error"),
    )


def _raw(value: dict[str, Any], key: str) -> Raw | UnsetType:
    return Raw(encode(value[key])) if key in value else UNSET


_ARRAY = re.compile(rb"\s*\[")


def is_array(line: bytes) -> bool:
    """Return whether a line begins as an array, as a JSON-RPC batch does."""
    return _ARRAY.match(line) is not None


def split_batch(line: bytes) -> list[bytes] | None:
    """Return the members of a JSON-RPC batch; None if the line is not an array in JSON."""
    try:
        return [bytes(member) for member in _decode_array(line)]
    except UNREADABLE:
        value = decode(line)
        is_batch = isinstance(value, list)
        return [encode(it) for it in cast("list[object]", value)] if is_batch else None


def request_key(request_id: Raw) -> Hashable | None:
    """Return a key that is equal for a request and its response, and differs for `1` and `"1"`."""
    value = decode(request_id)
    if isinstance(value, str):
        return ("text", value)
    if isinstance(value, bool | dict | list):
        return None
    return ("number", value)


def request(request_id: object, method: str, params: object) -> bytes:
    """Write a request."""
    return encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def notification(method: str, params: object) -> bytes:
    """Write a notification."""
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def response(request_id: Raw, result: object) -> bytes:
    """Write a successful response."""
    return encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def error_response(
    request_id: Raw | None, code: int, message: str, data: object | None = None
) -> bytes:
    """Write an error response. None is the id of a request whose id could not be read."""
    error: dict[str, object] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return encode({"jsonrpc": "2.0", "id": request_id, "error": error})


def update_line(session_id: str, update: dict[str, Any]) -> bytes:
    """Write the notification of an update."""
    params = {"sessionId": session_id, "update": update}
    return encode({"jsonrpc": "2.0", "method": UPDATE, "params": params})
