"""Questions for permission: about a tool call in version 1, about anything in version 2."""

from typing import Any

from rekindle.core.translate.tool_calls import ShowTerminal, call_to_v1, call_to_v2
from rekindle.wire.envelope import table, text

Json = dict[str, Any]

CANCELLED: Json = {"outcome": {"outcome": "cancelled"}}

_UNTITLED = "Permission"


def question_to_v2(params: Json) -> Json:
    """Return the parameters of a question of version 1 as those of version 2."""
    call = table(params.get("toolCall"))
    rest = {name: value for name, value in params.items() if name != "toolCall"}
    title = text(call.get("title")) or _UNTITLED
    return {**rest, "title": title, "subject": {"type": "tool_call", "toolCall": call_to_v2(call)}}


def question_to_v1(params: Json, made_id: str, show: ShowTerminal) -> Json:
    """Return the parameters of a question of version 2 as those of version 1.

    Where it is not about a tool call, one is made up, under the id given.
    """
    subject = table(params.get("subject"))
    title = text(params.get("title")) or _UNTITLED
    call: Json
    if subject.get("type") == "tool_call":
        call = call_to_v1(table(subject.get("toolCall")), show)
        call.setdefault("title", title)
    else:
        call = {"toolCallId": text(subject.get("toolCallId")) or made_id, "title": title}
        if subject.get("type") == "command":
            asked = {name: subject[name] for name in ("command", "cwd") if name in subject}
            call |= {"kind": "execute", "rawInput": asked}
    words = text(params.get("description"))
    if words is not None and "content" not in call:
        call["content"] = [{"type": "content", "content": {"type": "text", "text": words}}]
    ours = {"title", "subject", "description"}
    rest = {name: value for name, value in params.items() if name not in ours}
    return {**rest, "toolCall": call}


def outcome_to_v1(result: Json) -> Json:
    """Return a client's answer of version 2 for an agent of version 1: never more than it says."""
    outcome = table(result.get("outcome")).get("outcome")
    return result if outcome in {"selected", "cancelled"} else CANCELLED
