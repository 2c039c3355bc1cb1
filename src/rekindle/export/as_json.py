"""A session as JSON, for programs. docs/export.md tells what each name means."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from rekindle.core.items import Gap, Handover, Item, Message, Other, Plan, ToolCall, Turn
from rekindle.core.transcript import Transcript
from rekindle.export.nesting import flattened
from rekindle.export.plain import iso
from rekindle.model import Session

# JSON may hold them as they are, but a terminal would obey them, and halves of characters
# cannot be written at all.
_ESCAPED = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def as_json(session: Session, transcript: Transcript, turns: Iterable[Turn]) -> Iterator[str]:
    """Yield the document."""
    head = written({"format": "rekindle-session", "version": 1} | describe(session), 0)
    yield head.removesuffix("\n}")
    yield ',\n  "conversation": ['
    comma = ""
    for turn in turns:
        yield f"{comma}\n    {written(describe_turn(turn), 4)}"
        comma = ","
    yield "\n  ]" if comma else "]"
    terminals = {
        name: {**terminal.rest, "output": terminal.text}
        for name, terminal in transcript.terminals.items()
    }
    yield f',\n  "terminals": {written(terminals, 2)}\n}}\n'


def written(value: object, indent: int) -> str:
    """Return JSON for people and programs, as it stands in a larger one."""
    words = json.dumps(flattened(value), ensure_ascii=False, indent=2)
    if indent:
        words = words.replace("\n", "\n" + " " * indent)
    return escaped(words)


def escaped(words: str) -> str:
    """Return JSON that says the same without a character that does more than be shown."""
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", words)


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
    }


def describe_turn(turn: Turn) -> dict[str, Any]:
    """Return a turn."""
    return {
        "turn": turn.number,
        "at": iso(turn.at_us),
        "endedAt": iso(turn.ended_us) if turn.ended_us else None,
        "stopReason": turn.stop_reason,
        "error": turn.error,
        "items": [_describe_item(item) for item in turn.items],
    }


def _describe_item(item: Item) -> dict[str, Any]:
    at = {"at": iso(item.at_us)}
    match item:
        case Message():
            kind = {"type": "message", "role": item.role, "messageId": item.id}
            return {**kind, "content": item.blocks, **at}
        case ToolCall():
            kind = {"type": "tool_call", "toolCallId": item.id, "permission": item.outcome}
            return {**item.fields, **kind, **at}
        case Plan():
            return {"type": "plan", "entries": item.entries, **at}
        case Other():
            return {"type": "update", "update": item.update, **at}
        case Handover():
            return {"type": "handover", **at}
        case Gap():
            return {"type": "gap", "lostEntries": item.lost, **at}
