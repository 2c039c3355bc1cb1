"""The presentation of transcript items: one row for each class of items.

A row describes an item as JSON, presents it as a few kinds of blocks, and masks its secrets.
Markdown, HTML and the terminal each render the blocks, so a new class of items needs a row here
and nothing in those modules. The content of messages and tool calls is in `content`.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rekindle.acp.terminal_output import Terminal
from rekindle.export.content import ToolCallLike
from rekindle.export.labels import (
    CARRIED,
    REMINDER,
    ChecklistStep,
    one_line,
    plan_steps,
    subagent_label,
)
from rekindle.jsonvalue import Json
from rekindle.text.times import iso
from rekindle.transcript.model import (
    GapItem,
    HandoverItem,
    OtherItem,
    PlanItem,
    ReminderItem,
    Role,
    Terminals,
    ToolCallItem,
    TranscriptItem,
    TranscriptMessage,
    TranscriptTurn,
    handover_meta,
    handover_remark,
    read_handover_reason,
)
from rekindle.transcript.subagents import SessionMessageItem, SubagentItem

Mask = Callable[[Any], Any]
"""Returns a JSON value with its secrets masked."""


# -- blocks -----------------------------------------------------------------------------------


class Speech(Struct, frozen=True, kw_only=True):
    """A message of the user or the agent, or a thought; `blocks` are its content blocks."""

    role: Role
    blocks: list[Json]
    id: str | None = None


class ToolUse(Struct, frozen=True):
    """A tool call: its title and status, and its content folded below."""

    call: ToolCallLike


class Checklist(Struct, frozen=True):
    """A list of steps, each open or done."""

    steps: tuple[ChecklistStep, ...]


class Remark(Struct, frozen=True):
    """A remark of Rekindle about the conversation."""

    text: str
    is_problem: bool = False


class SubConversation(Struct, frozen=True):
    """The conversation of a sub-agent, below its title; without turns if it is not recorded."""

    title: str
    turns: list[TranscriptTurn]
    terminals: Terminals


class RawUpdate(Struct, frozen=True):
    """An update that has no presentation: documents fold its JSON, the terminal leaves it out."""

    title: str
    update: Json


Block = Speech | ToolUse | Checklist | Remark | SubConversation | RawUpdate


# -- rows -------------------------------------------------------------------------------------


class ItemView(Struct, frozen=True, kw_only=True):
    """The presentation of one class of items."""

    describe: Callable[[Any], Json]
    """Returns the fields for JSON, with a `type`."""
    blocks: Callable[[Any], Iterator[Block]]
    """Yields the blocks for documents and the terminal."""
    mask: Callable[[Any, Mask], TranscriptItem]
    """Returns a copy with masked secrets."""


def _describe_message(message: TranscriptMessage) -> Json:
    if "rekindle" in message.meta:
        # A client of Rekindle receives the notice of a handover as a message.
        return {"type": "handover", **handover_meta(read_handover_reason(message.meta))}
    kind = {"type": "message", "role": message.role, "messageId": message.id}
    own = message.own_blocks
    carried = {"carriesHistory": True} if own != message.blocks else {}
    return {**kind, "content": own, **carried}


def _message_blocks(message: TranscriptMessage) -> Iterator[Block]:
    own = message.own_blocks
    if own or not message.blocks:
        yield Speech(role=message.role, blocks=own, id=message.id)
    if own != message.blocks:
        # The file or the replay of an agent has the text in front of the user's words.
        yield Remark(CARRIED)


def _mask_message(message: TranscriptMessage, mask: Mask) -> TranscriptMessage:
    masked = TranscriptMessage(
        role=message.role,
        seq=message.seq,
        at_us=message.at_us,
        id=message.id,
        made_id=message.made_id,
        protocol=message.protocol,
        meta=mask(message.meta),
    )
    masked.replace([mask(block) for block in message.blocks])
    return masked


def _describe_tool_call(call: ToolCallItem) -> Json:
    kind = {"type": "tool_call", "toolCallId": call.id, "permission": call.outcome}
    return {**call.fields, **kind}


def _tool_call_blocks(call: ToolCallItem) -> Iterator[Block]:
    yield ToolUse(call)


def _mask_tool_call(call: ToolCallItem, mask: Mask) -> ToolCallItem:
    return replace(call, fields=mask(call.fields), outcome=mask(call.outcome))


def _describe_plan(plan: PlanItem) -> Json:
    return {"type": "plan", "entries": plan.entries}


def _plan_blocks(plan: PlanItem) -> Iterator[Block]:
    yield Checklist(tuple(plan_steps(plan)))


def _mask_plan(plan: PlanItem, mask: Mask) -> PlanItem:
    return replace(plan, entries=mask(plan.entries), rest=mask(plan.rest))


def _describe_subagent(item: SubagentItem) -> Json:
    child = item.child
    kind: Json = {"type": "subagent", "sessionId": item.id, **item.fields, "state": item.state}
    if child is None:
        return kind
    terminals = {
        name: {**terminal.rest, "output": terminal.text}
        for name, terminal in child.terminals.items()
    }
    conversation = [describe_turn(turn) for turn in child.turns]
    return {**kind, "conversation": conversation, "terminals": terminals}


def _subagent_blocks(item: SubagentItem) -> Iterator[Block]:
    child = item.child
    turns, terminals = (child.turns, child.terminals) if child is not None else ([], {})
    yield SubConversation(subagent_label(item), turns, terminals)


def _mask_subagent(item: SubagentItem, mask: Mask) -> SubagentItem:
    child = item.child
    if child is not None:
        for turn in child.turns:
            mask_turn(turn, mask)
        for terminal in child.terminals.values():
            mask_terminal(terminal, mask)
    return replace(item, fields=mask(item.fields))


def _describe_session_message(item: SessionMessageItem) -> Json:
    return {"type": "session_message", "messageId": item.id, **item.fields, "content": item.blocks}


def _session_message_blocks(item: SessionMessageItem) -> Iterator[Block]:
    yield Remark(one_line(f"message {item.route}"))
    yield Speech(role=Role.AGENT, blocks=item.blocks)


def _mask_session_message(item: SessionMessageItem, mask: Mask) -> SessionMessageItem:
    return replace(item, fields=mask(item.fields), content=_mask_message(item.content, mask))


def _describe_other(item: OtherItem) -> Json:
    return {"type": "update", "update": item.update}


def _other_blocks(item: OtherItem) -> Iterator[Block]:
    yield RawUpdate(one_line(str(item.update.get("sessionUpdate"))), item.update)


def _mask_other(item: OtherItem, mask: Mask) -> OtherItem:
    return replace(item, update=mask(item.update))


def _describe_gap(gap: GapItem) -> Json:
    return {"type": "gap", "lostEntries": gap.lost, "isDamage": gap.is_damage}


def _gap_blocks(gap: GapItem) -> Iterator[Block]:
    yield Remark(str(gap), is_problem=True)


def _mask_nothing(item: TranscriptItem, mask: Mask) -> TranscriptItem:
    del mask
    return item


def _describe_handover(item: HandoverItem) -> Json:
    return {"type": "handover", **handover_meta(item.reason)}


def _handover_blocks(item: HandoverItem) -> Iterator[Block]:
    yield Remark(handover_remark(item.reason))


def _remark_view(kind: str, text: str) -> ItemView:
    """Return the view of an item that is only a remark of Rekindle."""
    return ItemView(
        describe=lambda _: {"type": kind},
        blocks=lambda _: iter((Remark(text),)),
        mask=_mask_nothing,
    )


VIEWS: dict[type[TranscriptItem], ItemView] = {
    TranscriptMessage: ItemView(
        describe=_describe_message, blocks=_message_blocks, mask=_mask_message
    ),
    ToolCallItem: ItemView(
        describe=_describe_tool_call, blocks=_tool_call_blocks, mask=_mask_tool_call
    ),
    PlanItem: ItemView(describe=_describe_plan, blocks=_plan_blocks, mask=_mask_plan),
    SubagentItem: ItemView(
        describe=_describe_subagent, blocks=_subagent_blocks, mask=_mask_subagent
    ),
    SessionMessageItem: ItemView(
        describe=_describe_session_message,
        blocks=_session_message_blocks,
        mask=_mask_session_message,
    ),
    OtherItem: ItemView(describe=_describe_other, blocks=_other_blocks, mask=_mask_other),
    GapItem: ItemView(describe=_describe_gap, blocks=_gap_blocks, mask=_mask_nothing),
    HandoverItem: ItemView(
        describe=_describe_handover, blocks=_handover_blocks, mask=_mask_nothing
    ),
    ReminderItem: _remark_view("reminder", REMINDER),
}
"""The views by class of items."""


def view_of(item: TranscriptItem) -> ItemView:
    """Return the view of an item."""
    return VIEWS[type(item)]


def describe_turn(turn: TranscriptTurn) -> Json:
    """Return the fields of a turn for JSON."""
    return {
        "turn": turn.number,
        "at": iso(turn.at_us),
        "endedAt": iso(turn.ended_us) if turn.ended_us else None,
        "stopReason": turn.stop_reason,
        "error": turn.error,
        "items": [{**view_of(item).describe(item), "at": iso(item.at_us)} for item in turn.items],
    }


def mask_turn(turn: TranscriptTurn, mask: Mask) -> None:
    """Mask the items and the error of a turn in place."""
    turn.items[:] = [view_of(item).mask(item, mask) for item in turn.items]
    turn.error = mask(turn.error)


def mask_terminal(terminal: Terminal, mask: Mask) -> None:
    """Mask the output of a terminal in place."""
    terminal.output = bytearray(mask(terminal.text).encode("utf-8", "replace"))
    terminal.rest = mask(terminal.rest)


def blocks_of(item: TranscriptItem) -> Iterator[Block]:
    """Yield the blocks that present an item."""
    return VIEWS[type(item)].blocks(item)
