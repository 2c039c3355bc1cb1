"""Why a turn has ended: said in the answer to the prompt, or in the state of the session."""

from typing import Any

from rekindle.acp.jsonrpc import INTERNAL_ERROR
from rekindle.jsonvalue import as_object, as_str

Json = dict[str, Any]

_REASONS = frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"})


def ending_to_v2(answer: Json) -> Json:
    """Return a version 1 agent's answer to a prompt as the state that tells the same."""
    if answer.get("error") is not None:
        return {"state": "idle", "stopReason": "error", "error": _error(answer["error"])}
    reason = as_str(as_object(answer.get("result")).get("stopReason")) or "end_turn"
    return {"state": "idle", "stopReason": reason}


def ending_to_v1(state: Json) -> Json:
    """Return the state in which a version 2 agent's turn ends, as the answer to the prompt."""
    reason = as_str(state.get("stopReason"))
    if reason == "error":
        return {"error": _error(state.get("error"))}
    # Lost: reasons that version 1 has no word for.
    return {"result": {"stopReason": reason if reason in _REASONS else "end_turn"}}


def _error(told: object) -> Json:
    return {"code": INTERNAL_ERROR, "message": "the agent failed", **as_object(told)}
