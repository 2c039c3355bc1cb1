"""What a run tells: a line for each failure, a table at the end, and docs/reliability.md."""

from collections import Counter
from pathlib import Path

from .episodes import Outcome

DOCUMENT = Path(__file__).parents[2] / "docs" / "reliability.md"


def failure(outcome: Outcome, root: Path) -> str:
    """Say what was violated, and how to see it again."""
    name = f"{outcome.seed}-{outcome.number}"
    return (
        f"\nepisode {outcome.number} ({outcome.kind}): {outcome.violation}\n"
        f"  kept: {root / name}\n"
        f"  again: make torture SEED={outcome.seed} EPISODE={outcome.number}"
    )


def progress(outcomes: list[Outcome], seconds: float) -> str:
    faults = sum(outcome.faults.total() for outcome in outcomes)
    return f"\r{seconds:.0f} s: {len(outcomes)} episodes, {faults} faults "


def summary(outcomes: list[Outcome], seconds: float) -> str:
    """Return the table of faults, and what was found."""
    faults = _faults(outcomes)
    width = max(map(len, faults), default=0)
    rows = [f"{name:{width}}  {count:6}" for name, count in sorted(faults.items())]
    broken = sum(outcome.violation is not None for outcome in outcomes)
    updates = sum(outcome.updates for outcome in outcomes)
    sessions = sum(outcome.sessions for outcome in outcomes)
    return "\n".join(
        [
            *rows,
            f"{faults.total()} faults in {len(outcomes)} episodes and {seconds:.0f} s; "
            f"{updates} updates and {sessions} sessions checked; {broken} episodes failed",
        ]
    )


def write(outcomes: list[Outcome], seconds: float, seed: int) -> None:
    """Write the document."""


def _faults(outcomes: list[Outcome]) -> Counter[str]:
    return sum((outcome.faults for outcome in outcomes), Counter())
