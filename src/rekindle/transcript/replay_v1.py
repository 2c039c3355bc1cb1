"""Telling a transcript again, as the updates of a version 1 session.

A client that applies them has the state of one that watched the session live: messages
whole and in order, tool calls as they ended, plans as they were last told, and then what
the session's state is now. Differences that are meant: a tool call that never ended has
failed; a terminal that is gone is shown as text; every message has an id, which is made
of its place in the record where the agent gave none, and so stays the same.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from rekindle.acp.methods import SESSION_INFO_UPDATE
from rekindle.acp.terminal_output import Terminal
from rekindle.acp.translate.commands import commands_to_v1
from rekindle.acp.translate.config import options_to_v1
from rekindle.acp.translate.plans import plan_to_v1
from rekindle.acp.translate.tool_calls import call_to_v1
from rekindle.acp.translate.updates import block_to_v1
from rekindle.jsonvalue import as_object, as_str
from rekindle.transcript.model import (
    Gap,
    HandoverItem,
    Item,
    OtherItem,
    PlanItem,
    Role,
    ToolCallItem,
    TranscriptMessage,
    TranscriptTurn,
)
from rekindle.transcript.reducer import Transcript

Update = dict[str, Any]
Terminals = dict[str, Terminal]

_KINDS = {
    Role.USER: "user_message_chunk",
    Role.AGENT: "agent_message_chunk",
    Role.THOUGHT: "agent_thought_chunk",
}
_GONE = "[the output of a terminal that is gone]"
NOTICE = "[Rekindle: the agent does not remember this session, so it was told the record.]\n\n"
# So that a line stays well below what clients read at once, and a long answer is not held twice.
LONGEST_TEXT = 48 * 1024
UNFINISHED = ("pending", "in_progress")
_STATE = (
    "current_mode_update",
    "config_option_update",
    "available_commands_update",
    "session_info_update",
    "usage_update",
)
"""What is told of the present state, in this order."""


def replay_v1(
    transcript: Transcript,
    turns: Iterable[TranscriptTurn] | None = None,
    *,
    title: str | None = None,
    is_running: bool = False,
    with_booleans: bool = True,
) -> Iterator[Update]:
    """Yield the updates. With `is_running`, the last turn has not ended yet.

    The turns may be given as they are taken from the transcript, which is not needed any more.
    With `with_booleans`, the client can show options that are switched on and off.
    """
    last = len(transcript.turns)
    for turn in transcript.turns if turns is None else turns:
        is_going_on = is_running and turn.number == last
        yield from _turn(turn, transcript.terminals, is_going_on=is_going_on)
    state = dict(transcript.state)
    if title is not None:
        info = as_object(state.get(SESSION_INFO_UPDATE))
        state[SESSION_INFO_UPDATE] = {**info, "title": title}
    for kind in _STATE:
        if kind in state:
            told = _state_to_v1(kind, _told(state[kind]), with_booleans=with_booleans)
            yield marked({"sessionUpdate": kind, **told})


def _state_to_v1(kind: str, told: Update, *, with_booleans: bool) -> Update:
    match kind:
        case "config_option_update":
            options = options_to_v1(told.get("configOptions"), with_booleans=with_booleans)
            return {**told, "configOptions": options}
        case "available_commands_update":
            return {**told, "availableCommands": commands_to_v1(told.get("availableCommands"))}
        case _:
            return told


def handover_notice(at_us: int) -> Update:
    """Return what the user is told when the agent was told the record."""
    return {
        "sessionUpdate": "agent_message_chunk",
        "messageId": f"rekindle-handover-{at_us}",
        "content": {"type": "text", "text": NOTICE},
        "_meta": {"rekindle": {"restored": "handover"}},
    }


def message_id(message: TranscriptMessage) -> str:
    """Return a message's id; where the agent gave none, one that never changes."""
    return message.id or message.name or f"rekindle-{message.seq}"


def _turn(turn: TranscriptTurn, terminals: Terminals, *, is_going_on: bool) -> Iterator[Update]:
    last: Update | None = None
    for item in turn.items:
        may_go_on = is_going_on and item is turn.items[-1]
        for update in _item(item, terminals, is_over=not is_going_on, may_go_on=may_go_on):
            if last is not None:
                yield marked(last)
            last = update
    if last is not None:
        is_cut_off = turn.was_cut_off and not is_going_on
        yield marked(last, **({"interrupted": True} if is_cut_off else {}))


def _item(item: Item, terminals: Terminals, *, is_over: bool, may_go_on: bool) -> Iterator[Update]:
    match item:
        case TranscriptMessage():
            yield from _message(item, may_go_on=may_go_on)
        case ToolCallItem():
            yield _tool_call(item, terminals, is_over=is_over)
        case HandoverItem():
            yield handover_notice(item.at_us)
        case PlanItem():
            entries = plan_to_v1({"type": "items", "entries": item.entries})
            yield {"sessionUpdate": "plan", **item.rest, "entries": entries}
        case OtherItem():
            # Lost: what only version 2 has. A version 1 client would not read on.
            if item.protocol == 1 or str(item.update.get("sessionUpdate")).startswith("_"):
                yield item.update
        case Gap():
            yield {
                "sessionUpdate": "agent_message_chunk",
                "messageId": f"rekindle-{item.seq}",
                "content": {"type": "text", "text": f"[{item}]"},
            }
        case _:
            pass  # a reminder: the user has seen what the agent was told


def _message(message: TranscriptMessage, *, may_go_on: bool) -> Iterator[Update]:
    update: Update = {"sessionUpdate": _KINDS[message.role]}
    if message.id is not None or message.role is Role.USER or not may_go_on:
        # The rest of what is still being said will come without an id, if it has none.
        update["messageId"] = message_id(message)
    meta = {"_meta": message.meta} if message.meta else {}
    is_empty = True
    for piece in message.pieces(LONGEST_TEXT):
        block = piece if message.protocol == 1 else block_to_v1(piece)
        yield {**update, "content": block, **meta}
        is_empty, meta = False, {}
    if is_empty and (message.role is Role.USER or meta):
        # An empty message of the user's still begins a turn.
        yield {**update, "content": {"type": "text", "text": ""}, **meta}


def _tool_call(call: ToolCallItem, terminals: Terminals, *, is_over: bool) -> Update:
    def show(terminal_id: str) -> str:
        """Return text for a terminal: a client cannot show one that it did not make."""
        raw = call.fields.get("rawOutput")
        terminal = terminals.get(terminal_id)
        known = (terminal and terminal.text, raw, as_object(raw).get("output"))
        return next((words for words in map(as_str, known) if words), _GONE)

    fields = call_to_v1(call.fields, show)
    update = {"sessionUpdate": "tool_call", "toolCallId": call.id, "title": "", **fields}
    if is_over and as_str(update.get("status", "pending")) in UNFINISHED:
        update["status"] = "failed"
    return update


def is_unfinished(call: ToolCallItem) -> bool:
    """Tell whether a tool call was never said to have ended."""
    return as_str(call.fields.get("status", "pending")) in UNFINISHED


def _told(update: Update) -> Update:
    return {name: value for name, value in update.items() if name != "sessionUpdate"}


def marked(update: Update, **more: object) -> Update:
    """Mark an update as told again, beside what its `_meta` already says."""
    meta = as_object(update.get("_meta"))
    ours = {**as_object(meta.get("rekindle")), "replayed": True, **more}
    return {**update, "_meta": {**meta, "rekindle": ours}}
