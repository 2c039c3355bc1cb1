"""Print the events of a turn as they happen: in a chat, or while following a session."""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from rekindle.cli.formatting import one_line
from rekindle.cli.render.detail import Detail
from rekindle.cli.render.printer import Printer
from rekindle.cli.render.transcript import (
    SUBAGENT_MARK,
    Piece,
    block_pieces,
    ending_pieces,
    handover_piece,
    plan_step,
    text_of,
    tool_content,
    tool_line,
    turn_heading,
)
from rekindle.client.events import (
    Event,
    MessageChunk,
    PlanUpdated,
    SubagentUpdated,
    ThoughtChunk,
    ToolCallUpdated,
)
from rekindle.client.models import PlanEntry, Subagent
from rekindle.export.content import ToolCallLike, is_over
from rekindle.export.labels import ChecklistStep
from rekindle.export.views import Block, RawUpdate, Speech, ToolUse, blocks_of
from rekindle.transcript.model import (
    Role,
    Terminals,
    TranscriptItem,
    TranscriptTurn,
    read_handover_reason,
)


class LiveRenderer:
    """Prints events. A tool call has one line, which is replaced while it is the last line.

    A plan that changes is shown with `pin_plan` below the output, a row for each step, and printed
    once it is completed, or at the end of the turn. Without it, every changed step is printed.
    """

    def __init__(
        self,
        printer: Printer,
        detail: Detail,
        terminals: Callable[[], Terminals],
        *,
        pin_plan: Callable[[list[Piece]], None] | None = None,
    ) -> None:
        self._printer = printer
        self._show_pinned = pin_plan
        self._detail = detail
        self._terminals = terminals
        self._open: tuple[str, str | None] | None = None
        """The kind and the id of the message that is being printed."""
        self._last_call: str | None = None
        """The tool call whose line was printed last."""
        self._unfinished: dict[str, ToolCallLike] = {}
        """The tool calls whose end has not been printed."""
        self._unfolded: set[str] = set()
        """The tool calls whose content has been printed."""
        self._subagents: dict[str, tuple[str, bool]] = {}
        """The titles of the sub-agents that were printed, and whether their work had ended."""
        self._plans: dict[str | None, list[PlanEntry]] = {}
        self._pinned_plans: set[str | None] = set()

    def handle(self, event: Event) -> None:
        """Print an event."""
        match event:
            case MessageChunk() if "rekindle" in event.meta:
                self.show(handover_piece(read_handover_reason(event.meta)))
            case MessageChunk():
                self._add_text("agent", "", event)
            case ThoughtChunk():
                if self._detail.thoughts is not False:
                    self._add_text("thought", "~ ", event)
            case ToolCallUpdated(call):
                self.show_call(call)
            case PlanUpdated(plan):
                self._plan(plan.id, list(plan.entries))
            case SubagentUpdated(subagent):
                self._subagent(subagent)
            case _:
                pass

    def show(self, piece: Piece) -> None:
        """Print a piece after the open message."""
        self.pause()
        self._printer.show(piece)

    def pause(self) -> None:
        """End the open message. Later text of it begins a new line."""
        if self._open is not None:
            self._printer.finish()
        self._open = self._last_call = None

    # -- turns --------------------------------------------------------------------------

    def begin_turn(self, turn: TranscriptTurn) -> None:
        """Print the heading of a turn, and the items that it already has."""
        self.show(turn_heading(turn))
        for item in turn.items:
            self.show_item(item)

    def end_turn(self, turn: TranscriptTurn) -> None:
        """Print the end of a turn."""
        self.settle()
        for piece in ending_pieces(turn):
            self.show(piece)

    def settle(self) -> None:
        """Print the tool calls that did not end before their turn."""
        self.pause()
        for call in list(self._unfinished.values()):
            if not self._printer.can_replace:
                self._unfold(call, with_line=True)
        self._unfinished.clear()
        self._print_pinned_plans()
        self._plans.clear()

    def show_item(self, item: TranscriptItem) -> None:
        """Print an item in its present state."""
        for block in blocks_of(item):
            self._show_block(block)

    def _show_block(self, block: Block) -> None:
        match block:
            case Speech(role=Role.AGENT):
                self.handle(MessageChunk(text=text_of(block.blocks), message_id=block.id))
            case Speech(role=Role.THOUGHT):
                self.handle(ThoughtChunk(text=text_of(block.blocks), message_id=block.id))
            case ToolUse(call):
                self.show_call(call)
            case RawUpdate():
                pass
            case _:
                self.pause()
                for piece in block_pieces(block, self._detail, self._terminals()):
                    self.show(piece)

    # -- messages -----------------------------------------------------------------------

    def _add_text(self, kind: str, mark: str, event: MessageChunk | ThoughtChunk) -> None:
        this = (kind, event.message_id)
        if self._open != this or event.replaces:
            self.pause()
            self._printer.begin(kind, mark)
            self._open = this
        self._printer.add(event.text + text_of(event.blocks))

    # -- tool calls ---------------------------------------------------------------------

    def show_call(self, call: ToolCallLike) -> None:
        """Print a tool call: its line now, and its result when it has ended."""
        if self._detail.tools is False:
            return
        is_known = call.id in self._unfinished
        if is_over(call):
            self._unfold(call, with_line=True)
            self._unfinished.pop(call.id, None)
            return
        self._unfinished[call.id] = call
        if self._printer.can_replace and (not is_known or self._last_call == call.id):
            self._line(call)

    def show_permission(self, call: ToolCallLike | None, pieces: Iterable[Piece]) -> None:
        """Print a permission request, even if tool calls are hidden: the user has to decide."""
        if call is not None and self._detail.tools is not False and self._last_call != call.id:
            self._line(call)
        for piece in pieces:
            self.show(piece)
            if call is not None and piece.kind == "diff" and not self._detail.tools:
                self._unfolded.add(call.id)

    def _line(self, call: ToolCallLike) -> None:
        is_there = self._last_call == call.id
        if not is_there:
            self.pause()
        self._printer.show(tool_line(call, is_row=True), replacing=is_there)
        self._last_call = call.id

    def _unfold(self, call: ToolCallLike, *, with_line: bool) -> None:
        if with_line:
            self._line(call)
        if call.id not in self._unfolded:
            shown = list(tool_content(call, self._detail, self._terminals()))
            for piece in shown:
                self.show(piece)
            if shown:
                self._unfolded.add(call.id)

    # -- sub-agents ---------------------------------------------------------------------

    def _subagent(self, subagent: Subagent) -> None:
        """Print a sub-agent when it is new, and when its work ends."""
        is_over = subagent.state in {"idle", "unknown"}
        if self._subagents.get(subagent.id) == (subagent.title, is_over):
            return
        self._subagents[subagent.id] = (subagent.title, is_over)
        end = f" ({subagent.stop_reason or subagent.state})" if is_over else ""
        about = f": {subagent.description}" if subagent.description and not is_over else ""
        text = one_line(f"Sub-agent {subagent.title}{about}{end}")
        self.show(Piece(kind="tool", text=text, mark=SUBAGENT_MARK))

    # -- plans --------------------------------------------------------------------------

    def _plan(self, plan_id: str | None, entries: list[PlanEntry]) -> None:
        """Show a plan that is new or has changed."""
        known = self._plans.get(plan_id, [])
        self._plans[plan_id] = entries
        if self._show_pinned is not None:
            if entries != known:
                self._pin_plan(plan_id, entries)
            return
        changed = [entry for entry in entries if entry not in known]
        self._print_steps(changed)

    def _pin_plan(self, plan_id: str | None, entries: list[PlanEntry]) -> None:
        is_completed = all(entry.status == "completed" for entry in entries)
        self._pinned_plans -= {plan_id}
        if not is_completed:
            self._pinned_plans |= {plan_id}
        self._pin_steps()
        if is_completed:
            self._print_steps(entries)

    def _print_pinned_plans(self) -> None:
        pinned = [plan for plan_id, plan in self._plans.items() if plan_id in self._pinned_plans]
        if not pinned:
            return
        self._pinned_plans.clear()
        self._pin_steps()
        for entries in pinned:
            self._print_steps(entries)

    def _pin_steps(self) -> None:
        pinned = [plan for plan_id, plan in self._plans.items() if plan_id in self._pinned_plans]
        steps = [replace(_step(entry), is_row=True) for plan in pinned for entry in plan]
        if self._show_pinned is not None:
            self._show_pinned(steps)

    def _print_steps(self, entries: list[PlanEntry]) -> None:
        if entries:
            self.pause()
        for entry in entries:
            self._printer.show(_step(entry))


def _step(entry: PlanEntry) -> Piece:
    return plan_step(ChecklistStep(one_line(entry.content), entry.status))
