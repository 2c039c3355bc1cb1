"""Telling a transcript again, as the updates of a version 2 session.

Each message is told whole, under the id that it had; where it is long, the rest follows in chunks.
Terminals are told before the tool calls that show them.
"""

import base64
from collections.abc import Iterator
from typing import Any

from rekindle.acp.terminal_output import Terminal
from rekindle.acp.translate.commands import commands_to_v2
from rekindle.acp.translate.config import options_to_v2
from rekindle.acp.translate.plans import plan_to_v2
from rekindle.acp.translate.tool_calls import call_to_v2
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.transcript.model import (
    Gap,
    HandoverItem,
    Item,
    PlanItem,
    ReminderItem,
    Role,
    ToolCallItem,
    TranscriptMessage,
    TranscriptTurn,
)
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_v1 import (
    LONGEST_TEXT,
    NOTICE,
    UNFINISHED,
    Terminals,
    marked,
    message_id,
)

Update = dict[str, Any]

_KINDS = {Role.USER: "user_message", Role.AGENT: "agent_message", Role.THOUGHT: "agent_thought"}


def replay_v2(
    turns: list[TranscriptTurn],
    transcript: Transcript,
    *,
    title: str | None = None,
    is_running: bool = False,
) -> Iterator[Update]:
    """Yield the updates of these turns, and of the state. `is_running`: the last has not ended."""
    last = len(transcript.turns)
    shown: set[str] = set()
    for turn in turns:
        is_over = not (is_running and turn.number == last)
        for item in turn.items:
            for update in _item(item, transcript.terminals, shown, turn, is_over=is_over):
                yield marked(update)
    yield from map(marked, state_updates(transcript, title))


def state_updates(transcript: Transcript, title: str | None = None) -> Iterator[Update]:
    """Yield what tells the session's present state, but for whether it is at work."""
    state = transcript.state
    options = current_options(transcript)
    if options:
        yield {"sessionUpdate": "config_option_update", "configOptions": options}
    if "available_commands_update" in state:
        told = state["available_commands_update"]
        commands = commands_to_v2(told.get("availableCommands"))
        yield {**told, "sessionUpdate": "available_commands_update", "availableCommands": commands}
    if title is not None or "session_info_update" in state:
        known = {} if title is None else {"title": title}
        yield {
            **as_object(state.get("session_info_update")),
            "sessionUpdate": "session_info_update",
            **known,
        }
    if "usage_update" in state:
        yield {**state["usage_update"], "sessionUpdate": "usage_update"}


def current_options(transcript: Transcript) -> list[Update]:
    """Return the options as they are set now, modes among them."""
    modes = dict(as_object(transcript.offered.get("modes")))
    mode = as_object(transcript.state.get("current_mode_update")).get("currentModeId")
    if mode is not None:
        modes["currentModeId"] = mode
    told = as_object(transcript.state.get("config_option_update")).get("configOptions")
    return options_to_v2(told, modes)


def _item(
    item: Item, terminals: Terminals, shown: set[str], turn: TranscriptTurn, *, is_over: bool
) -> Iterator[Update]:
    match item:
        case TranscriptMessage():
            yield from _message(item)
        case ToolCallItem(is_made_up=True):
            pass
        case ToolCallItem():
            yield from _terminals_of(item, terminals, shown)
            yield _tool_call(item, turn, is_over=is_over)
        case PlanItem():
            plan = plan_to_v2(item.entries, item.id)
            yield {"sessionUpdate": "plan_update", **item.rest, "plan": plan}
        case HandoverItem():
            yield _said(f"rekindle-handover-{item.at_us}", NOTICE)
        case ReminderItem():
            pass  # the user has seen what the agent was told
        case Gap():
            yield _said(f"rekindle-{item.seq}", f"[{item}]")
        case _:
            kind = str(item.update.get("sessionUpdate"))
            is_free = item.protocol > 1 or kind.startswith("_") or kind in _OF_VERSION_2
            yield {**item.update, "sessionUpdate": kind if is_free else f"_{kind}"}


_OF_VERSION_2 = frozenset({"compaction_update", "compaction_summary_chunk", "plan_update"})


def _message(message: TranscriptMessage) -> Iterator[Update]:
    kind, own_id = _KINDS[message.role], message_id(message)
    first: list[dict[str, Any]] = []
    rest: list[dict[str, Any]] = []
    size = 0
    for piece in message.pieces(LONGEST_TEXT):
        size += len(str(piece.get("text", "")))
        (rest if rest or size > LONGEST_TEXT else first).append(piece)
    meta = {"_meta": message.meta} if message.meta else {}
    yield {"sessionUpdate": kind, "messageId": own_id, "content": first, **meta}
    for piece in rest:
        yield {"sessionUpdate": f"{kind}_chunk", "messageId": own_id, "content": piece}


def _terminals_of(call: ToolCallItem, terminals: Terminals, shown: set[str]) -> Iterator[Update]:
    for part in map(as_object, as_array(call.fields.get("content"))):
        terminal_id = str(part.get("terminalId"))
        if part.get("type") == "terminal" and terminal_id not in shown:
            shown.add(terminal_id)
            terminal = terminals.get(terminal_id, Terminal())
            data = base64.b64encode(terminal.output).decode("ascii")
            yield {
                "sessionUpdate": "terminal_update",
                "terminalId": terminal_id,
                **terminal.rest,
                "output": {"data": data},
            }


def _tool_call(call: ToolCallItem, turn: TranscriptTurn, *, is_over: bool) -> Update:
    fields = call_to_v2(call.fields)
    if is_over and as_str(fields.get("status", "pending")) in UNFINISHED:
        fields["status"] = "cancelled" if turn.stop_reason == "cancelled" else "failed"
    return {"sessionUpdate": "tool_call_update", "toolCallId": call.id, **fields}


def _said(own_id: str, words: str) -> Update:
    content = [{"type": "text", "text": words}]
    return {"sessionUpdate": "agent_message", "messageId": own_id, "content": content}
