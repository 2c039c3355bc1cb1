"""What `--strict` does not let pass: lines that the specification forbids.

Without it Rekindle is generous and forwards them; with it the author of a client or an
agent learns at once what is wrong.
"""

from typing import Any

from msgspec import UNSET, Raw, Struct

from rekindle.acp import methods
from rekindle.acp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Envelope,
    error_response,
)
from rekindle.jsonvalue import as_object, decode, decode_object
from rekindle.model import Side
from rekindle.proxy.step import UserReport


class Violation(Struct, frozen=True):
    """Why a line is not passed on: told to the user, and answered if it asked something."""

    complaint: UserReport
    answer: bytes | None = None


class StrictMode:
    """Judges lines against the specification. One instance per connection."""

    def __init__(self) -> None:
        self._is_initialized = False
        self._is_v1 = True

    def objection(self, side: Side, line: bytes, message: Envelope | None) -> Violation | None:
        """Return what is wrong with a line, or None."""
        if not line.strip():
            return None
        if side is Side.AGENT:
            return _object_to_agent(line, message)
        return _object_to_frame(line, message) or self._object_to_request(line, message)

    def _object_to_request(self, line: bytes, message: Envelope | None) -> Violation | None:
        if message is None or not message.is_request:
            return None
        params = as_object((decode_object(line) or {}).get("params"))
        if message.method == methods.INITIALIZE:
            self._is_initialized = True
            self._is_v1 = params.get("protocolVersion", 1) == 1
        elif not self._is_initialized:
            what = f"{message.method} before initialize"
            return _refusal(message, INVALID_REQUEST, what, {"method": message.method})
        # From version 2 on they may be left out.
        return _object_to_params(message, params) if self._is_v1 else None


def _object_to_frame(line: bytes, message: Envelope | None) -> Violation | None:
    if message is None:
        if decode(line) is None:
            return _refusal(None, PARSE_ERROR, "not JSON", None)
        return _refusal(None, INVALID_REQUEST, "not one JSON-RPC message; ACP has no batches", None)
    if message.method is UNSET and not message.is_response:
        return _refusal(message, INVALID_REQUEST, "neither a request nor an answer", None)
    return None


def _object_to_agent(line: bytes, message: Envelope | None) -> Violation | None:
    if message is not None and (message.method is not UNSET or message.is_response):
        return None
    start = line[:80].decode("utf-8", "replace")
    what = "the agent wrote a line to stdout that is no ACP message"
    return Violation(UserReport(what, repr(start)))


def _object_to_params(message: Envelope, params: dict[str, Any]) -> Violation | None:
    """Object to what is left out and must not be. What is wrong is refused without strictness."""
    if message.method not in {methods.NEW, methods.LOAD}:
        return None
    if isinstance(params.get("mcpServers"), list):
        return None
    what = f"{message.method}: mcpServers must be an array"
    return _refusal(message, INVALID_PARAMS, what, {"field": "mcpServers"})


def _refusal(message: Envelope | None, code: int, what: str, data: object) -> Violation:
    request_id = Raw(b"null")
    if message is not None and message.id is not UNSET:
        request_id = message.id
    return Violation(UserReport(f"refused: {what}"), error_response(request_id, code, what, data))
