"""Telling a transcript again, as the updates of a version 1 session.

A client that applies them has the state of one that watched the session live: messages
whole and in order, tool calls as they ended, plans as they were last told, and then what
the session's state is now. Differences that are meant: a tool call that never ended has
failed; a terminal that is gone is shown as text; every message has an id, which is made
of its place in the record where the agent gave none, and so stays the same.
"""

from collections.abc import Iterator
from typing import Any

from rekindle.core.items import Handover, Item, Message, Other, Plan, Role, ToolCall, Turn
from rekindle.core.transcript import Transcript
from rekindle.wire.envelope import encode, rows, table, text
from rekindle.wire.methods import SESSION_INFO_UPDATE, UPDATE

Update = dict[str, Any]
Terminals = dict[str, str]

_KINDS = {
    Role.USER: "user_message_chunk",
    Role.AGENT: "agent_message_chunk",
    Role.THOUGHT: "agent_thought_chunk",
}
_GONE = "[the output of a terminal that is gone]"
_NOTICE = "[Rekindle: the agent does not remember this session, so it was told the record.]\n\n"
# So that a line stays well below what clients read at once, and a long answer is not held twice.
_LONGEST_TEXT = 48 * 1024
_UNFINISHED = frozenset({"pending", "in_progress"})
_STATE = (
    "current_mode_update",
    "config_option_update",
    "available_commands_update",
    "session_info_update",
    "usage_update",
)
"""What is told of the present state, in this order."""


def replay(
    transcript: Transcript, *, title: str | None = None, is_running: bool = False
) -> Iterator[Update]:
    """Yield the updates. With `is_running`, the last turn has not ended yet."""
    last = len(transcript.turns)
    for turn in transcript.turns:
        is_going_on = is_running and turn.number == last
        yield from _turn(turn, transcript.terminals, is_going_on=is_going_on)
    state = dict(transcript.state)
    if title is not None:
        info = table(state.get(SESSION_INFO_UPDATE))
        state[SESSION_INFO_UPDATE] = {**info, "title": title}
    for kind in _STATE:
        if kind in state:
            yield _marked({"sessionUpdate": kind, **_told(state[kind])})


def handover_notice(at_us: int) -> Update:
    """Return what the user is told when the agent was told the record."""
    return {
        "sessionUpdate": "agent_message_chunk",
        "messageId": f"rekindle-handover-{at_us}",
        "content": {"type": "text", "text": _NOTICE},
        "_meta": {"rekindle": {"restored": "handover"}},
    }


def as_line(session_id: str, update: Update) -> bytes:
    """Write an update as the notification that carries it."""
    params = {"sessionId": session_id, "update": update}
    return encode({"jsonrpc": "2.0", "method": UPDATE, "params": params})


def message_id(message: Message) -> str:
    """Return a message's id; where the agent gave none, one that never changes."""
    return message.id if message.id is not None else f"rekindle-{message.seq}"


def _turn(turn: Turn, terminals: Terminals, *, is_going_on: bool) -> Iterator[Update]:
    last: Update | None = None
    for item in turn.items:
        may_go_on = is_going_on and item is turn.items[-1]
        for update in _item(item, terminals, is_over=not is_going_on, may_go_on=may_go_on):
            if last is not None:
                yield _marked(last)
            last = update
    if last is not None:
        is_cut_off = turn.was_cut_off and not is_going_on
        yield _marked(last, **({"interrupted": True} if is_cut_off else {}))


def _item(item: Item, terminals: Terminals, *, is_over: bool, may_go_on: bool) -> Iterator[Update]:
    match item:
        case Message():
            yield from _message(item, may_go_on=may_go_on)
        case ToolCall():
            yield _tool_call(item, terminals, is_over=is_over)
        case Handover():
            yield handover_notice(item.at_us)
        case Plan():
            yield {"sessionUpdate": "plan", **item.rest, "entries": item.entries}
        case Other():
            yield item.update
        case _:
            words = f"[{item.lost} entries are missing here: they could not be recorded]"
            yield {
                "sessionUpdate": "agent_message_chunk",
                "messageId": f"rekindle-{item.seq}",
                "content": {"type": "text", "text": words},
            }


def _message(message: Message, *, may_go_on: bool) -> Iterator[Update]:
    update: Update = {"sessionUpdate": _KINDS[message.role]}
    if message.id is not None or message.role is Role.USER or not may_go_on:
        # The rest of what is still being said will come without an id, if it has none.
        update["messageId"] = message_id(message)
    meta = {"_meta": message.meta} if message.meta else {}
    is_empty = True
    for piece in message.pieces(_LONGEST_TEXT):
        yield {**update, "content": piece, **meta}
        is_empty, meta = False, {}
    if is_empty and (message.role is Role.USER or meta):
        # An empty message of the user's still begins a turn.
        yield {**update, "content": {"type": "text", "text": ""}, **meta}


def _tool_call(call: ToolCall, terminals: Terminals, *, is_over: bool) -> Update:
    update = {"sessionUpdate": "tool_call", "toolCallId": call.id, "title": "", **call.fields}
    if is_over and update.get("status", "pending") in _UNFINISHED:
        update["status"] = "failed"
    if "content" in update:
        parts = map(table, rows(update["content"]))
        update["content"] = [_without_terminal(part, call, terminals) for part in parts]
    return update


def _without_terminal(part: dict[str, Any], call: ToolCall, terminals: Terminals) -> dict[str, Any]:
    """Put text in the place of a terminal: a client cannot show one that it did not make."""
    if part.get("type") != "terminal":
        return part
    raw = call.fields.get("rawOutput")
    known = (terminals.get(str(part.get("terminalId"))), raw, table(raw).get("output"))
    shown = next((words for words in map(text, known) if words), _GONE)
    return {"type": "content", "content": {"type": "text", "text": shown}}


def _told(update: Update) -> Update:
    return {name: value for name, value in update.items() if name != "sessionUpdate"}


def _marked(update: Update, **more: object) -> Update:
    """Mark an update as told again, beside what its `_meta` already says."""
    meta = table(update.get("_meta"))
    return {**update, "_meta": {**meta, "rekindle": {"replayed": True, **more}}}
