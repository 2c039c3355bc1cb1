"""What happens in a turn, printed as it happens: in a chat, and while following a session."""

from collections.abc import Callable, Iterable

from rekindle.cli.formatting import one_line
from rekindle.cli.render.detail import Detail
from rekindle.cli.render.printer import Paper
from rekindle.cli.render.transcript import (
    Piece,
    end_of,
    handover,
    item_pieces,
    plan_step,
    said_in,
    tool_content,
    tool_line,
    turn_heading,
)
from rekindle.client.events import Called, Event, Planned, Said, Thought
from rekindle.client.models import PlanEntry
from rekindle.export.content import Call, Terminals, is_over
from rekindle.export.labels import Step
from rekindle.transcript import model
from rekindle.transcript.model import Role


class Live:
    """Prints events. A tool call has one line, which changes as long as it is the last."""

    def __init__(self, paper: Paper, detail: Detail, terminals: Callable[[], Terminals]) -> None:
        self._paper = paper
        self._detail = detail
        self._terminals = terminals
        self._open: tuple[str, str | None] | None = None
        """The message that is being said: its kind and its id."""
        self._last_call: str | None = None
        """The tool call whose line is the last that was printed."""
        self._pending: dict[str, Call] = {}
        """Tool calls whose end is still to be told."""
        self._unfolded: set[str] = set()
        """Tool calls whose content was shown already."""
        self._plans: dict[str | None, list[PlanEntry]] = {}

    def take(self, event: Event) -> None:
        """Print what happens."""
        match event:
            case Said() if "rekindle" in event.meta:
                self.show(handover())
            case Said():
                self._say("agent", "", event)
            case Thought():
                if self._detail.thoughts is not False:
                    self._say("thought", "~ ", event)
            case Called(call):
                self.call(call)
            case Planned(plan):
                self._plan(plan.id, list(plan.entries))
            case _:
                pass

    def show(self, piece: Piece) -> None:
        """Print a piece, after all that was being said."""
        self.pause()
        self._paper.show(piece)

    def pause(self) -> None:
        """End what is being said; what comes after it begins anew."""
        if self._open is not None:
            self._paper.finish()
        self._open = self._last_call = None

    # -- turns --------------------------------------------------------------------------

    def begin(self, turn: model.TranscriptTurn) -> None:
        """Print that a turn has begun, and what is known of it already."""
        self.show(turn_heading(turn))
        for item in turn.items:
            self.catch_up(item)

    def end(self, turn: model.TranscriptTurn) -> None:
        """Print how a turn ended."""
        self.settle()
        for piece in end_of(turn):
            self.show(piece)

    def settle(self) -> None:
        """Print what is left to tell of a turn that is over."""
        self.pause()
        for call in list(self._pending.values()):
            if not self._paper.can_replace:
                self._unfold(call, with_line=True)
        self._pending.clear()
        self._plans.clear()

    def catch_up(self, item: model.TranscriptItem) -> None:
        """Print a thing as it is by now."""
        match item:
            case (
                model.TranscriptMessage(role=Role.USER)
                | model.GapItem()
                | model.HandoverItem()
                | model.ReminderItem()
            ):
                for piece in item_pieces(item, self._detail, self._terminals()):
                    self.show(piece)
            case model.TranscriptMessage():
                make = Thought if item.role is Role.THOUGHT else Said
                self.take(make(text=said_in(item.blocks), message_id=item.id))
            case model.ToolCallItem():
                self.call(item)
            case model.PlanItem():
                self.pause()
                for piece in item_pieces(item, self._detail, self._terminals()):
                    self.show(piece)
            case model.OtherItem():
                pass

    # -- messages -----------------------------------------------------------------------

    def _say(self, kind: str, mark: str, event: Said | Thought) -> None:
        this = (kind, event.message_id)
        if self._open != this or event.anew:
            self.pause()
            self._paper.begin(kind, mark)
            self._open = this
        self._paper.add(event.text + said_in(event.blocks))

    # -- tool calls ---------------------------------------------------------------------

    def call(self, call: Call) -> None:
        """Print a tool call: one line now, and what it has brought at its end."""
        if self._detail.tools is False:
            return
        is_known = call.id in self._pending
        if is_over(call):
            self._unfold(call, with_line=True)
            self._pending.pop(call.id, None)
            return
        self._pending[call.id] = call
        if self._paper.can_replace and (not is_known or self._last_call == call.id):
            self._line(call)

    def ask(self, call: Call | None, asked: Iterable[Piece]) -> None:
        """Print what is asked for, however little is shown of tools: somebody has to decide."""
        if call is not None and self._detail.tools is not False and self._last_call != call.id:
            self._line(call)
        for piece in asked:
            self.show(piece)
            if call is not None and piece.kind == "diff" and not self._detail.tools:
                self._unfolded.add(call.id)

    def _line(self, call: Call) -> None:
        is_there = self._last_call == call.id
        if not is_there:
            self.pause()
        self._paper.show(tool_line(call, is_row=True), replacing=is_there)
        self._last_call = call.id

    def _unfold(self, call: Call, *, with_line: bool) -> None:
        if with_line:
            self._line(call)
        if call.id not in self._unfolded:
            shown = list(tool_content(call, self._detail, self._terminals()))
            for piece in shown:
                self.show(piece)
            if shown:
                self._unfolded.add(call.id)

    # -- plans --------------------------------------------------------------------------

    def _plan(self, plan_id: str | None, entries: list[PlanEntry]) -> None:
        """Print a plan when it is new, and then what has changed in it."""
        known = self._plans.get(plan_id, [])
        self._plans[plan_id] = entries
        changed = [entry for entry in entries if entry not in known]
        if changed:
            self.pause()
        for entry in changed:
            self._paper.show(plan_step(Step(one_line(entry.content), entry.status)))
