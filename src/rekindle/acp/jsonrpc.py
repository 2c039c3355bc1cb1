"""The JSON-RPC frame of one line: what is read of it, and the few frames we write.

Reading never fails: a line is a message or it is None, whatever the bytes are. Only
what decides a line's way is decoded on that way; `members` gives the rest on demand.
"""

import json
import math
from collections.abc import Hashable, Iterable
from typing import Any, cast

import msgspec
from msgspec import UNSET, MsgspecError, Raw, Struct, UnsetType, field

from rekindle.acp.methods import UPDATE

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
AUTH_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002
UNSUPPORTED_VERSION = -32022
REQUEST_CANCELLED = -32800

# RecursionError: a line may be nested deeper than Python can follow. UnicodeDecodeError:
# a name that we read may be invalid UTF-8.
_DEEPEST = 400
_UNREADABLE = (MsgspecError, UnicodeDecodeError, RecursionError)


class Update(Struct, gc=False):
    """The part of an update that tells what it is."""

    kind: str | UnsetType = field(default=UNSET, name="sessionUpdate")


class Params(Struct, gc=False):
    """The parameters that tell which session a line belongs to."""

    session_id: str | UnsetType = field(default=UNSET, name="sessionId")
    update: Update | UnsetType = UNSET


class Message(Struct, gc=False):
    """The frame of one line. `id` is UNSET when absent, which is not the same as null."""

    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Params | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET

    @property
    def is_request(self) -> bool:
        """A method to be answered."""
        return self.method is not UNSET and self.id is not UNSET

    @property
    def is_response(self) -> bool:
        """An answer, good or bad."""
        return (
            self.method is UNSET
            and self.id is not UNSET
            and (self.result is not UNSET or self.error is not UNSET)
        )

    @property
    def is_refusal(self) -> bool:
        """An answer with an error. Some put both names into every answer, and null into one."""
        return self.error is not UNSET and bytes(self.error) != b"null"

    @property
    def is_update(self) -> bool:
        """A `session/update` notification."""
        return self.method == UPDATE and self.id is UNSET

    @property
    def update_kind(self) -> str:
        """The kind of update that it tells; empty where it does not say."""
        if self.params is UNSET or self.params.update is UNSET or self.params.update.kind is UNSET:
            return ""
        return self.params.update.kind

    @property
    def session_id(self) -> str | None:
        """The session that the parameters name."""
        if self.params is UNSET or self.params.session_id is UNSET:
            return None
        return self.params.session_id


_decode_message = msgspec.json.Decoder(Message).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode


def peek(line: bytes) -> Message | None:
    """Read the frame of a line; None when it is not one JSON object."""
    try:
        return _decode_message(line)
    except _UNREADABLE:
        return _peek_leniently(line)


def _peek_leniently(line: bytes) -> Message | None:
    """Read a frame whose fields are of unexpected types, or whose text is broken.

    JavaScript emits a lone surrogate where it cuts a stream inside an emoji, and then
    only the standard library's decoder reads the line.
    """
    value = members(line)
    if value is None:
        return None
    params = table(value.get("params"))
    kind = text(table(params.get("update")).get("sessionUpdate"))
    session_id = text(params.get("sessionId"))
    method = text(value.get("method"))
    return Message(
        id=_raw(value, "id"),
        method=UNSET if method is None else method,
        params=Params(
            session_id=UNSET if session_id is None else session_id,
            update=UNSET if kind is None else Update(kind=kind),
        ),
        result=_raw(value, "result"),
        error=_raw(value, "error"),
    )


def _raw(value: dict[str, Any], key: str) -> Raw | UnsetType:
    return Raw(encode(value[key])) if key in value else UNSET


def members(line: bytes | Raw) -> dict[str, Any] | None:
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
    may_be_deep = line.count(b"[") + line.count(b"{") > _DEEPEST
    return None if may_be_deep and _is_too_deep(value) else value


def _decode_leniently(line: bytes) -> object:
    try:
        return msgspec.json.decode(line)
    except _UNREADABLE:
        pass
    try:
        words = line.decode("utf-8", "replace")
        return json.loads(words, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        return None


def _is_too_deep(value: object) -> bool:
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(_DEEPEST):
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


def split_batch(line: bytes) -> list[bytes]:
    """Return the messages of a JSON-RPC batch; none when the line is no array."""
    if line.lstrip()[:1] != b"[":
        return []
    try:
        return [bytes(member) for member in _decode_array(line)]
    except _UNREADABLE:
        value = decode(line)
        return [encode(member) for member in cast("list[object]", value or [])]


def table(value: object) -> dict[str, Any]:
    """Take a JSON value for an object; what is none counts as empty."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def rows(value: object) -> list[Any]:
    """Take a JSON value for an array; what is none counts as empty."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def text(value: object) -> str | None:
    """Take a JSON value for a string that can be stored; what is none counts as absent."""
    if not isinstance(value, str):
        return None
    # A lone surrogate cannot be written as UTF-8; its escape can, and stays distinct.
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def request_key(request_id: Raw) -> Hashable | None:
    """Make an id comparable: a request's and its answer's are equal, `1` and `"1"` are not."""
    value = decode(request_id)
    match value:
        case bool() | dict() | list():
            return None
        case str():
            return ("text", value)
        case _:
            return ("number", value)


def request(request_id: object, method: str, params: object) -> bytes:
    """Write a request."""
    return encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def notification(method: str, params: object) -> bytes:
    """Write a notification."""
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def response(request_id: Raw, result: object) -> bytes:
    """Write an answer."""
    return encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def error_response(
    request_id: Raw | None, code: int, message: str, data: object | None = None
) -> bytes:
    """Write the answer that refuses a request; None answers what had no readable id."""
    error: dict[str, object] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return encode({"jsonrpc": "2.0", "id": request_id, "error": error})
