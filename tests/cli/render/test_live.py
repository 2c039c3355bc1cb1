"""Events of a turn as they are printed: plans and sub-agents."""

from collections.abc import Sequence

from rekindle.cli.render.detail import FOLDED
from rekindle.cli.render.live import LiveRenderer
from rekindle.cli.render.transcript import Piece
from rekindle.client.events import PlanUpdated, SubagentUpdated
from rekindle.client.models import Plan, PlanEntry, Subagent


class Output:
    """A printer that keeps what it prints and pins."""

    can_replace = True

    def __init__(self) -> None:
        self.printed: list[str] = []
        self.pinned: list[str] = []

    def show(self, piece: Piece, *, replacing: bool = False) -> None:
        assert not replacing
        self.printed.append(f"{piece.mark}{piece.text}".strip())

    def begin(self, kind: str, mark: str) -> None:
        raise NotImplementedError

    def add(self, text: str) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError

    def pin_plan(self, pieces: Sequence[Piece]) -> None:
        """Pin the steps of a plan."""
        self.pinned = [f"{piece.mark}{piece.text}".strip() for piece in pieces]


def plan(*statuses: str, plan_id: str | None = None) -> PlanUpdated:
    entries = tuple(
        PlanEntry(content=f"step {number}", status=status, priority="medium")
        for number, status in enumerate(statuses, 1)
    )
    return PlanUpdated(Plan(id=plan_id, entries=entries))


def renderer(output: Output) -> LiveRenderer:
    return LiveRenderer(output, FOLDED, dict, pin_plan=output.pin_plan)


def test_plan_is_pinned_while_it_changes_and_printed_once_it_is_completed() -> None:
    output = Output()
    live = renderer(output)
    live.handle(plan("in_progress", "pending"))
    live.handle(plan("completed", "in_progress"))
    assert output.pinned == ["[x] step 1", "[>] step 2"]
    assert output.printed == []
    live.handle(plan("completed", "completed"))
    live.handle(plan("completed", "completed"))
    live.settle()
    assert output.pinned == []
    assert output.printed == ["[x] step 1", "[x] step 2"]


def test_plan_that_is_not_completed_is_printed_at_the_end() -> None:
    output = Output()
    live = renderer(output)
    live.handle(plan("in_progress", plan_id="a"))
    live.handle(plan("pending", plan_id="b"))
    assert output.pinned == ["[>] step 1", "[ ] step 1"]
    live.settle()
    assert output.pinned == []
    assert output.printed == ["[>] step 1", "[ ] step 1"]


def test_plan_that_is_removed_is_not_printed() -> None:
    output = Output()
    live = renderer(output)
    live.handle(plan("in_progress"))
    live.handle(plan())
    live.settle()
    assert (output.pinned, output.printed) == ([], [])


def test_changed_steps_are_printed_where_plans_are_not_pinned() -> None:
    output = Output()
    live = LiveRenderer(output, FOLDED, dict)
    live.handle(plan("in_progress", "pending"))
    live.handle(plan("completed", "pending"))
    live.settle()
    assert output.pinned == []
    assert output.printed == ["[>] step 1", "[ ] step 2", "[x] step 1"]


def test_a_sub_agent_is_printed_when_it_is_new_and_when_its_work_ends() -> None:
    output = Output()
    live = renderer(output)
    for state, reason in (
        (None, None),
        ("running", None),
        ("requires_action", None),
        ("idle", "cancelled"),
        ("running", None),
        ("unknown", None),
    ):
        subagent = Subagent(
            id="c",
            title="Tester",
            description="Runs the tests",
            state=state,
            stop_reason=reason,
            can_cancel=False,
            history=(),
        )
        live.handle(SubagentUpdated(subagent))
    assert output.printed == [
        "◇ Sub-agent Tester: Runs the tests",
        "◇ Sub-agent Tester (cancelled)",
        "◇ Sub-agent Tester: Runs the tests",
        "◇ Sub-agent Tester (unknown)",
    ]
