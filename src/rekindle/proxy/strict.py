"""Strict mode: refuse lines that the specification forbids.

Without it Rekindle forwards them. With it the author of a client or an agent learns at once which
rule a line breaks.
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
from rekindle.proxy.peers import AGENT, Peer
from rekindle.proxy.step import UserReport

_MAX_QUOTED_BYTES = 80


class Violation(Struct, frozen=True):
    """A broken rule: a report for the user, and a response if the line needs one."""

    report: UserReport
    response: bytes | None = None


class StrictMode:
    """Checks the lines of one engine against the specification."""

    def __init__(self) -> None:
        self._versions: dict[Peer, int] = {}
        """The protocol versions of the clients that have sent `initialize`."""

    def violation(self, peer: Peer, line: bytes, envelope: Envelope | None) -> Violation | None:
        """Return the rule that a line breaks, if any."""
        if not line.strip():
            return None
        if peer == AGENT:
            return _check_agent(line, envelope)
        return _check_frame(line, envelope) or self._check_request(peer, line, envelope)

    def _check_request(
        self, peer: Peer, line: bytes, envelope: Envelope | None
    ) -> Violation | None:
        if envelope is None or not envelope.is_request:
            return None
        params = as_object((decode_object(line) or {}).get("params"))
        if envelope.method == methods.INITIALIZE:
            self._versions[peer] = params.get("protocolVersion", 1)
        elif peer not in self._versions:
            what = f"{envelope.method} before initialize"
            return _refuse(envelope, INVALID_REQUEST, what, {"method": envelope.method})
        # Version 2 lets a client omit them.
        return _check_params(envelope, params) if self._versions[peer] == 1 else None


def _check_frame(line: bytes, envelope: Envelope | None) -> Violation | None:
    if envelope is None:
        if decode(line) is None:
            return _refuse(None, PARSE_ERROR, "not valid JSON", None)
        what = "not a single JSON-RPC message; version 1 has no batches"
        return _refuse(None, INVALID_REQUEST, what, None)
    if envelope.method is UNSET and not envelope.is_response:
        return _refuse(envelope, INVALID_REQUEST, "neither a request nor a response", None)
    return None


def _check_agent(line: bytes, envelope: Envelope | None) -> Violation | None:
    if envelope is not None and (envelope.method is not UNSET or envelope.is_response):
        return None
    quote = line[:_MAX_QUOTED_BYTES].decode("utf-8", "replace")
    what = "the agent wrote a line to stdout that is not an ACP message"
    return Violation(UserReport(what, repr(quote)))


def _check_params(envelope: Envelope, params: dict[str, Any]) -> Violation | None:
    """Check for required fields. Wrong values are refused without strict mode too."""
    if envelope.method not in {methods.NEW, methods.LOAD}:
        return None
    if isinstance(params.get("mcpServers"), list):
        return None
    what = f"{envelope.method}: mcpServers must be an array"
    return _refuse(envelope, INVALID_PARAMS, what, {"field": "mcpServers"})


def _refuse(envelope: Envelope | None, code: int, what: str, data: object) -> Violation:
    request_id = Raw(b"null")
    if envelope is not None and envelope.id is not UNSET:
        request_id = envelope.id
    return Violation(UserReport(f"refused: {what}"), error_response(request_id, code, what, data))
