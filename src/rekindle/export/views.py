"""The presentation of transcript items: one row for each class of items.

A row describes an item as JSON, presents it as a few kinds of blocks, and masks its secrets.
Markdown, HTML and the terminal each render the blocks, so a new class of items needs a row here
and nothing in those modules. The content of messages and tool calls is in `content`.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rekindle.export.content import ToolCallLike
from rekindle.export.labels import CARRIED, HANDOVER, REMINDER, ChecklistStep, one_line, plan_steps
from rekindle.jsonvalue import Json
from rekindle.transcript.model import (
    GapItem,
    HandoverItem,
    OtherItem,
    PlanItem,
    ReminderItem,
    Role,
    ToolCallItem,
    TranscriptItem,
    TranscriptMessage,
)

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


class RawUpdate(Struct, frozen=True):
    """An update that has no presentation: documents fold its JSON, the terminal leaves it out."""

    title: str
    update: Json


Block = Speech | ToolUse | Checklist | Remark | RawUpdate


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
        return {"type": "handover"}
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
    OtherItem: ItemView(describe=_describe_other, blocks=_other_blocks, mask=_mask_other),
    GapItem: ItemView(describe=_describe_gap, blocks=_gap_blocks, mask=_mask_nothing),
    HandoverItem: _remark_view("handover", HANDOVER),
    ReminderItem: _remark_view("reminder", REMINDER),
}
"""The views by class of items."""


def view_of(item: TranscriptItem) -> ItemView:
    """Return the view of an item."""
    return VIEWS[type(item)]


def blocks_of(item: TranscriptItem) -> Iterator[Block]:
    """Yield the blocks that present an item."""
    return VIEWS[type(item)].blocks(item)
