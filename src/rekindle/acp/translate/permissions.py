"""Translate permission requests: about a tool call in version 1, about anything in version 2."""

from rekindle.acp.translate.content import ShowTerminal, text_part
from rekindle.acp.translate.tool_calls import call_to_v1, call_to_v2
from rekindle.jsonvalue import Json, as_array, as_object, as_str, without

CANCELLED: Json = {"outcome": {"outcome": "cancelled"}}

_UNTITLED = "Permission"
_KINDS = frozenset({"allow_once", "allow_always", "reject_once", "reject_always"})


def permission_to_v2(params: Json) -> Json:
    """Return the params of a permission request in the form of version 2."""
    call = as_object(params.get("toolCall"))
    rest = without(params, "toolCall")
    title = as_str(call.get("title")) or _UNTITLED
    return {**rest, "title": title, "subject": {"type": "tool_call", "toolCall": call_to_v2(call)}}


def permission_to_v1(params: Json, made_id: str, show: ShowTerminal) -> Json:
    """Return the params of a permission request in the form of version 1.

    A request that is not about a tool call receives one with the id `made_id`.
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
            command = {name: subject[name] for name in ("command", "cwd") if name in subject}
            call |= {"kind": "execute", "rawInput": command}
    description = as_str(params.get("description"))
    if description is not None and "content" not in call:
        call["content"] = [text_part(description)]
    rest = without(params, "title", "subject", "description", "options")
    options = [_option_to_v1(as_object(option)) for option in as_array(params.get("options"))]
    return {**rest, "options": options, "toolCall": call}


def _option_to_v1(option: Json) -> Json:
    # Lost: kinds of options that version 1 does not have. An unknown kind must not be consent.
    is_known = as_str(option.get("kind")) in _KINDS
    return option if is_known else {**option, "kind": "reject_once"}


def outcome_to_v1(result: Json) -> Json:
    """Return the client's answer for a version 1 agent. An unknown outcome becomes `cancelled`."""
    outcome = as_str(as_object(result.get("outcome")).get("outcome"))
    return result if outcome in {"selected", "cancelled"} else CANCELLED
