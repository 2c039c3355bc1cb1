"""Questions for permission: about a tool call in version 1, about anything in version 2."""

from typing import Any

from rekindle.acp.translate.tool_calls import ShowTerminal, call_to_v1, call_to_v2
from rekindle.jsonvalue import as_array, as_object, as_str

Json = dict[str, Any]

CANCELLED: Json = {"outcome": {"outcome": "cancelled"}}

_UNTITLED = "Permission"
_KINDS = frozenset({"allow_once", "allow_always", "reject_once", "reject_always"})


def permission_to_v2(params: Json) -> Json:
    """Return the parameters of a question of version 1 as those of version 2."""
    call = as_object(params.get("toolCall"))
    rest = {name: value for name, value in params.items() if name != "toolCall"}
    title = as_str(call.get("title")) or _UNTITLED
    return {**rest, "title": title, "subject": {"type": "tool_call", "toolCall": call_to_v2(call)}}


def permission_to_v1(params: Json, made_id: str, show: ShowTerminal) -> Json:
    """Return the parameters of a question of version 2 as those of version 1.

    Where it is not about a tool call, one is made up, under the id given.
    """
    subject = as_object(params.get("subject"))
    title = as_str(params.get("title")) or _UNTITLED
    call: Json
    if subject.get("type") == "tool_call":
        call = call_to_v1(as_object(subject.get("toolCall")), show)
        call.setdefault("title", title)
    else:
        call = {"toolCallId": as_str(subject.get("toolCallId")) or made_id, "title": title}
        if subject.get("type") == "command":
            asked = {name: subject[name] for name in ("command", "cwd") if name in subject}
            call |= {"kind": "execute", "rawInput": asked}
    words = as_str(params.get("description"))
    if words is not None and "content" not in call:
        call["content"] = [{"type": "content", "content": {"type": "text", "text": words}}]
    ours = {"title", "subject", "description", "options"}
    rest = {name: value for name, value in params.items() if name not in ours}
    options = [_option_to_v1(as_object(option)) for option in as_array(params.get("options"))]
    return {**rest, "options": options, "toolCall": call}


def _option_to_v1(option: Json) -> Json:
    # Lost: what kind of answer it is. Nothing that is not known may be taken for consent.
    is_known = as_str(option.get("kind")) in _KINDS
    return option if is_known else {**option, "kind": "reject_once"}


def outcome_to_v1(result: Json) -> Json:
    """Return a client's answer of version 2 for an agent of version 1: never more than it says."""
    outcome = as_str(as_object(result.get("outcome")).get("outcome"))
    return result if outcome in {"selected", "cancelled"} else CANCELLED
