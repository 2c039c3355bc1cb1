"""Sessions, turns and items as plain data; docs/json.md tells what each name means."""

from typing import Any

from rekindle.model import Origin, Session
from rekindle.text.times import iso
from rekindle.transcript.model import (
    GapItem,
    HandoverItem,
    TranscriptItem,
    OtherItem,
    PlanItem,
    ReminderItem,
    ToolCallItem,
    TranscriptMessage,
    TranscriptTurn,
)


def describe(session: Session) -> dict[str, Any]:
    """Return what is known of a session."""
    return {
        "id": session.id,
        "agentSessionId": session.agent_session_id,
        "agent": {
            "name": session.agent.name,
            "version": session.agent.version,
            "command": list(session.agent.command),
        },
        "cwd": session.cwd,
        "additionalDirectories": list(session.directories),
        "title": session.title,
        "titleSource": session.title_source,
        "createdAt": iso(session.created_us),
        "updatedAt": iso(session.updated_us),
        "parentId": session.parent_id,
        "archivedAt": iso(session.archived_us) if session.archived_us else None,
        "deletedAt": iso(session.deleted_us) if session.deleted_us else None,
        "turns": session.turns,
        "messages": session.messages,
        "entries": session.last_seq,
        "origin": _describe_origin(session.origin),
    }


def _describe_origin(origin: Origin | None) -> dict[str, Any] | None:
    if origin is None or not origin.entries:
        return None
    return {
        "tool": origin.tool,
        "path": origin.path,
        "sha256": origin.sha256,
        "entries": origin.entries,
    }


def describe_turn(turn: TranscriptTurn) -> dict[str, Any]:
    """Return a turn."""
    return {
        "turn": turn.number,
        "at": iso(turn.at_us),
        "endedAt": iso(turn.ended_us) if turn.ended_us else None,
        "stopReason": turn.stop_reason,
        "error": turn.error,
        "items": [_describe_item(item) for item in turn.items],
    }


def _describe_item(item: TranscriptItem) -> dict[str, Any]:
    return {**_described(item), "at": iso(item.at_us)}


def _described(item: TranscriptItem) -> dict[str, Any]:
    match item:
        case TranscriptMessage() if "rekindle" not in item.meta:
            kind = {"type": "message", "role": item.role, "messageId": item.id}
            return {**kind, "content": item.blocks}
        case ToolCallItem():
            kind = {"type": "tool_call", "toolCallId": item.id, "permission": item.outcome}
            return {**item.fields, **kind}
        case PlanItem():
            return {"type": "plan", "entries": item.entries}
        case OtherItem():
            return {"type": "update", "update": item.update}
        case GapItem():
            return {"type": "gap", "lostEntries": item.lost, "isDamage": item.is_damage}
        # A client is told of a handover by a message.
        case HandoverItem() | ReminderItem() | TranscriptMessage():
            return {"type": "reminder" if isinstance(item, ReminderItem) else "handover"}
