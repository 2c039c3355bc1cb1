"""What was found: a verdict on each requirement, with what shows it. Knows no agent."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from rekindle.check.requirements import Level, Requirement
from rekindle.check.traffic import Line
from rekindle.core.secrets import mask

_LONGEST = 600
_MOST_LINES = 8


class Verdict(StrEnum):
    """How an agent stands to a requirement."""

    PASS = "pass"  # noqa: S105 - it is no password
    FAIL = "fail"
    NOT_OFFERED = "not offered"
    SKIPPED = "skipped"


class Fault(Struct, frozen=True):
    """What is wrong, in words, and the lines that show it."""

    words: str
    lines: tuple[Line, ...] = ()


class Evidence(Struct, frozen=True):
    """A line as it is shown: cut, and with secrets hidden."""

    is_sent: bool
    at: float
    line: str


class Finding(Struct, frozen=True):
    """A verdict on one requirement. `words` say why, unless it is met, and may quote the agent."""

    requirement: Requirement
    verdict: Verdict
    words: str = ""
    evidence: tuple[Evidence, ...] = ()


class Ledger:
    """The verdicts of a run. What was found wrong once stays wrong."""

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self._requirements = {it.name: it for it in requirements}
        self._faults: dict[str, list[Fault]] = {}
        self._unjudged: dict[str, tuple[Verdict, str]] = {}

    def judge(self, name: str, faults: Iterable[Fault]) -> bool:
        """Note what is wrong with a requirement; nothing means that it is met. Tell if it is."""
        if name not in self._requirements:
            return True  # of the other version
        noted = self._faults.setdefault(name, [])
        before = len(noted)
        noted.extend(faults)
        return len(noted) == before

    def skip(self, name: str, reason: str) -> None:
        """Note why a requirement could not be judged."""
        self._unjudged.setdefault(name, (Verdict.SKIPPED, reason))

    def miss(self, name: str, reason: str) -> None:
        """Note that the agent does not offer what a requirement is about."""
        self._unjudged.setdefault(name, (Verdict.NOT_OFFERED, reason))

    def end(self, scenario: str, reason: str, verdict: Verdict = Verdict.SKIPPED) -> None:
        """Note why the rest of a scenario was not judged."""
        for requirement in self._requirements.values():
            if requirement.scenario == scenario:
                self._unjudged.setdefault(requirement.name, (verdict, reason))

    def findings(self) -> list[Finding]:
        """Return a verdict on everything that was met with, in the order of the requirements."""
        known = self._faults.keys() | self._unjudged.keys()
        return [self._finding(it) for name, it in self._requirements.items() if name in known]

    def _finding(self, requirement: Requirement) -> Finding:
        faults = self._faults.get(requirement.name)
        if faults is None:
            verdict, reason = self._unjudged[requirement.name]
            return Finding(requirement, verdict, mask(reason))
        if not faults:
            return Finding(requirement, Verdict.PASS)
        first, *others = faults
        more = f" (and {len(others)} more like it)" if others else ""
        return Finding(requirement, Verdict.FAIL, mask(first.words) + more, shown(first.lines))


def shown(lines: Iterable[Line]) -> tuple[Evidence, ...]:
    """Return lines as evidence; of many, the first and the last."""
    whole = list(lines)
    half = _MOST_LINES // 2
    some = whole if len(whole) <= _MOST_LINES else [*whole[:half], *whole[-half:]]
    return tuple(Evidence(it.is_sent, round(it.at, 3), _cut(it.data)) for it in some)


def _cut(data: bytes) -> str:
    # Masked before it is cut: half a key looks like none.
    words = mask(data.decode("utf-8", "replace"))
    if len(words) <= _LONGEST:
        return words
    half = _LONGEST // 2
    return f"{words[:half]} … {words[-half:]}"


def is_warning(finding: Finding) -> bool:
    """Tell whether a finding is wrong, but no reason to fail."""
    return finding.verdict is Verdict.FAIL and finding.requirement.level is Level.SHOULD


def is_failure(finding: Finding) -> bool:
    """Tell whether a finding is a reason to fail."""
    return finding.verdict is Verdict.FAIL and finding.requirement.level is Level.MUST
