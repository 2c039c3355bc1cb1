"""Describe a session as plain data. docs/reference/json.md documents the fields."""

from typing import Any

from rekindle.model import Origin, Session
from rekindle.text.times import iso


def describe(session: Session) -> dict[str, Any]:
    """Return the fields of a session."""
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
        **({"isSubagent": True} if session.is_subagent else {}),
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
