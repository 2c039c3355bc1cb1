"""Translate the end of a turn: the response to a prompt in version 1, a state in version 2."""

from msgspec import Raw

from rekindle.acp.jsonrpc import INTERNAL_ERROR, REQUEST_CANCELLED, error_response, response
from rekindle.jsonvalue import Json, as_object, as_str

STOP_REASONS = frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"})
"""The stop reasons of version 1."""


def ending_to_v2(answer: Json) -> Json:
    """Return the response to a prompt as the fields of the state that ends the turn."""
    if answer.get("error") is not None:
        return {"state": "idle", "stopReason": "error", "error": _error(answer["error"])}
    reason = as_str(as_object(answer.get("result")).get("stopReason")) or "end_turn"
    return {"state": "idle", "stopReason": reason}


def ending_to_v1(state: Json) -> Json:
    """Return the state that ends a turn as the result or error of the response to the prompt.

    Lost: stop reasons that version 1 does not have.
    """
    reason = as_str(state.get("stopReason"))
    if reason == "error":
        return {"error": _error(state.get("error"))}
    return {"result": {"stopReason": reason if reason in STOP_REASONS else "end_turn"}}


def cancelled_prompt(protocol: int, request_id: Raw | None) -> bytes:
    """Return the response to a prompt that was cancelled before the agent received it."""
    if protocol == 1 and request_id is not None:
        return response(request_id, {"stopReason": "cancelled"})
    text = "the prompt was cancelled before the agent received it"
    return error_response(request_id, REQUEST_CANCELLED, text)


def _error(error: object) -> Json:
    return {"code": INTERNAL_ERROR, "message": "the agent failed", **as_object(error)}
