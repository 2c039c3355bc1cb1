"""Sessions as `--json` prints them; `docs/json.md` tells what each name means."""

from typing import Any

from rekindle.cli.words import iso
from rekindle.core.items import Gap, Handover, Item, Message, Other, Plan, ToolCall, Turn


def turn_as_json(turn: Turn) -> dict[str, Any]:
    """Return a turn."""
    return {
        "turn": turn.number,
        "at": iso(turn.at_us),
        "endedAt": iso(turn.ended_us) if turn.ended_us else None,
        "stopReason": turn.stop_reason,
        "error": turn.error,
        "items": [_item_as_json(item) for item in turn.items],
    }


def _item_as_json(item: Item) -> dict[str, Any]:
    match item:
        case Message() if "rekindle" not in item.meta:
            kind = {"type": "message", "role": item.role, "messageId": item.id}
            return kind | {"content": item.blocks, "at": iso(item.at_us)}
        case ToolCall():
            kind = {"type": "tool_call", "toolCallId": item.id, "permission": item.outcome}
            return item.fields | kind | {"at": iso(item.at_us)}
        case Plan():
            return {"type": "plan", "entries": item.entries, "at": iso(item.at_us)}
        case Other():
            return {"type": "update", "update": item.update, "at": iso(item.at_us)}
        # A client is told of one by a message.
        case Handover() | Message():
            return {"type": "handover", "at": iso(item.at_us)}
        case Gap():
            return {"type": "gap", "lostEntries": item.lost, "at": iso(item.at_us)}
