"""Telling a transcript again, as the updates of a version 1 session.

A client that applies them has the state of one that watched the session live: messages
whole and in order, tool calls as they ended, plans as they were last told, and then what
the session's state is now. Differences that are meant: a tool call that never ended has
failed; a terminal that is gone is shown as text; every message has an id, which is made
of its place in the record where the agent gave none, and so stays the same.
"""

from collections.abc import Iterator
from typing import Any

from rekindle.core.transcript import (
    Item,
    Message,
    Other,
    Plan,
    Role,
    ToolCall,
    Transcript,
    Turn,
)
from rekindle.wire.envelope import encode, rows, table, text
from rekindle.wire.methods import UPDATE

Update = dict[str, Any]

_KINDS = {
    Role.USER: "user_message_chunk",
    Role.AGENT: "agent_message_chunk",
    Role.THOUGHT: "agent_thought_chunk",
}
_UNFINISHED = frozenset({"pending", "in_progress"})
_STATE = (
    "current_mode_update",
    "config_option_update",
    "available_commands_update",
    "session_info_update",
    "usage_update",
)
"""What is told of the present state, in this order."""


def replay(transcript: Transcript, *, is_running: bool = False) -> Iterator[Update]:
    """Yield the updates. With `is_running`, the last turn has not ended yet."""
    last = len(transcript.turns)
    for turn in transcript.turns:
        is_cut_off = turn.ended_us is None and not (is_running and turn.number == last)
        yield from _turn(turn, is_cut_off=is_cut_off)
    for kind in _STATE:
        if kind in transcript.state:
            yield _marked({"sessionUpdate": kind, **_told(transcript.state[kind])})


def as_line(session_id: str, update: Update) -> bytes:
    """Write an update as the notification that carries it."""
    params = {"sessionId": session_id, "update": update}
    return encode({"jsonrpc": "2.0", "method": UPDATE, "params": params})


def message_id(message: Message) -> str:
    """Return a message's id; where the agent gave none, one that never changes."""
    return message.id if message.id is not None else f"rekindle-{message.seq}"


def _turn(turn: Turn, *, is_cut_off: bool) -> Iterator[Update]:
    is_over = is_cut_off or turn.ended_us is not None
    updates = [update for item in turn.items for update in _item(item, is_over=is_over)]
    for update in updates:
        is_last = update is updates[-1]
        yield _marked(update, **({"interrupted": True} if is_cut_off and is_last else {}))


def _item(item: Item, *, is_over: bool) -> Iterator[Update]:
    match item:
        case Message():
            kind = _KINDS[item.role]
            for block in item.blocks or _nothing_said(item):
                yield {"sessionUpdate": kind, "messageId": message_id(item), "content": block}
        case ToolCall():
            yield _tool_call(item, is_over=is_over)
        case Plan():
            yield {"sessionUpdate": "plan", "entries": item.entries}
        case Other():
            yield item.update
        case _:
            words = f"[{item.lost} entries are missing here: they could not be recorded]"
            yield {
                "sessionUpdate": "agent_message_chunk",
                "messageId": f"rekindle-{item.seq}",
                "content": {"type": "text", "text": words},
            }


def _nothing_said(message: Message) -> list[dict[str, Any]]:
    """Return what stands for an empty message: the user's still begins a turn."""
    return [{"type": "text", "text": ""}] if message.role is Role.USER else []


def _tool_call(call: ToolCall, *, is_over: bool) -> Update:
    update = {"sessionUpdate": "tool_call", "toolCallId": call.id, "title": "", **call.fields}
    if is_over and update.get("status", "pending") in _UNFINISHED:
        update["status"] = "failed"
    if "content" in update:
        parts = map(table, rows(update["content"]))
        update["content"] = [_without_terminal(part, call) for part in parts]
    return update


def _without_terminal(part: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    """Put text in the place of a terminal: a client cannot show one that it did not make."""
    if part.get("type") != "terminal":
        return part
    shown = _terminal_text(call) or "[the output of a terminal that is gone]"
    return {"type": "content", "content": {"type": "text", "text": shown}}


def _terminal_text(call: ToolCall) -> str | None:
    """Return the last that is known of what a terminal showed."""
    told = table(table(call.fields.get("_meta")).get("terminal_output"))
    raw = call.fields.get("rawOutput")
    known = (told.get("data"), told.get("output"), raw, table(raw).get("output"))
    return next((words for words in map(text, known) if words), None)


def _told(update: Update) -> Update:
    return {name: value for name, value in update.items() if name != "sessionUpdate"}


def _marked(update: Update, **more: object) -> Update:
    """Mark an update as told again, beside what its `_meta` already says."""
    meta = table(update.get("_meta"))
    return {**update, "_meta": {**meta, "rekindle": {"replayed": True, **more}}}
