"""What the parts of the report are made of."""

import re
from collections.abc import Iterable, Sequence

from interop.outcome import Outcome, Result

_MARKS = {"ok": "✓", "not offered": "not offered", "failed": "✗", "not reached": "—"}
_MEANS = {"native": "by itself", "told": "told"}


def release(result: Result) -> str:
    """Return the agent's name and version."""
    name, _, more = result.agent.partition(",")
    version = re.split("@|==", result.releases[0])[-1]
    return f"{name} {version}{',' * bool(more)}{more}"


class Notes:
    """Cells of a table, and the notes below it."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def cell(self, outcome: Outcome | None) -> str:
        """Return what a table shows of an outcome."""
        if outcome is None:
            return "—"
        mark = _MARKS[outcome.status]
        if outcome.status != "failed":
            means = _MEANS.get(outcome.remark)
            return f"{mark} {means}" if means else mark
        number = self._numbers.setdefault(outcome.remark, len(self._numbers) + 1)
        return f"{mark} ({number})"

    @property
    def lines(self) -> list[str]:
        """The notes, each with the number that cells have."""
        notes = [f"{number}. {remark}" for remark, number in self._numbers.items()]
        return [*notes, ""] if notes else []


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
