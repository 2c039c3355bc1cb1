"""Translate the end of a turn: the response to a prompt in version 1, a state in version 2."""

from rekindle.acp.jsonrpc import INTERNAL_ERROR
from rekindle.jsonvalue import Json, as_object, as_str

_REASONS = frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"})


def ending_to_v2(response: Json) -> Json:
    """Return the response to a prompt as the fields of the state that ends the turn."""
    if response.get("error") is not None:
        return {"state": "idle", "stopReason": "error", "error": _error(response["error"])}
    reason = as_str(as_object(response.get("result")).get("stopReason")) or "end_turn"
    return {"state": "idle", "stopReason": reason}


def ending_to_v1(state: Json) -> Json:
    """Return the state that ends a turn as the result or error of the response to the prompt.

    Lost: stop reasons that version 1 does not have.
    """
    reason = as_str(state.get("stopReason"))
    if reason == "error":
        return {"error": _error(state.get("error"))}
    return {"result": {"stopReason": reason if reason in _REASONS else "end_turn"}}


def _error(error: object) -> Json:
    return {"code": INTERNAL_ERROR, "message": "the agent failed", **as_object(error)}
