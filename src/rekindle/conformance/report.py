"""What was found: a verdict on each requirement, with what shows it. Knows no agent."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from rekindle.conformance.requirements import Level, Requirement
from rekindle.conformance.trace import Line
from rekindle.text.redact.secrets import mask

_LONGEST = 600
_MOST_LINES = 8
_MOST_FAULTS = 10


class Verdict(StrEnum):
    """How an agent stands to a requirement."""

    PASS = "pass"  # noqa: S105 - it is no password
    FAIL = "fail"
    NOT_OFFERED = "not offered"
    NOT_SEEN = "not seen"
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


class Found(Struct, frozen=True):
    """One thing that is wrong, how often it was met with, and what shows it the first time."""

    words: str
    times: int
    evidence: tuple[Evidence, ...]


class Finding(Struct, frozen=True):
    """A verdict on one requirement. `words` say why, unless it is met, and may quote the agent."""

    requirement: Requirement
    verdict: Verdict
    words: str = ""
    faults: tuple[Found, ...] = ()
    """All that is wrong, each once."""
    unnamed: int = 0
    """How many more there are, of so many that they are not told."""


class _Faults:
    """What is wrong with one requirement: what was said once is counted."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[int, Fault]] = {}
        self.unnamed = 0

    def add(self, fault: Fault) -> None:
        times, first = self.found.get(fault.words, (0, fault))
        if times or len(self.found) < _MOST_FAULTS:
            self.found[fault.words] = times + 1, first
        else:
            self.unnamed += 1


class Ledger:
    """The verdicts of a run. What was found wrong once stays wrong."""

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self._requirements = {it.name: it for it in requirements}
        self._faults: dict[str, _Faults] = {}
        self._unjudged: dict[str, tuple[Verdict, str]] = {}

    def judge(self, name: str, faults: Iterable[Fault]) -> bool:
        """Note what is wrong with a requirement; nothing means that it is met. Tell if it is.

        Only for what was put to the test: what never came up is neither right nor wrong.
        """
        if name not in self._requirements:
            return True  # of the other version
        noted = self._faults.setdefault(name, _Faults())
        is_met = True
        for fault in faults:
            noted.add(fault)
            is_met = False
        return is_met

    def skip(self, name: str, reason: str) -> None:
        """Note why a requirement could not be judged."""
        self._unjudged.setdefault(name, (Verdict.SKIPPED, reason))

    def miss(self, name: str, reason: str) -> None:
        """Note that the agent does not offer what a requirement is about."""
        self._unjudged.setdefault(name, (Verdict.NOT_OFFERED, reason))

    def unseen(self, name: str, reason: str) -> None:
        """Note that what a requirement is about did not occur."""
        self._unjudged.setdefault(name, (Verdict.NOT_SEEN, reason))

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
        noted = self._faults.get(requirement.name)
        if noted is None:
            verdict, reason = self._unjudged[requirement.name]
            return Finding(requirement, verdict, mask(reason))
        if not noted.found:
            return Finding(requirement, Verdict.PASS)
        found = tuple(
            Found(mask(words), times, shown(fault.lines))
            for words, (times, fault) in noted.found.items()
        )
        more = [f"and {noted.unnamed} more"] if noted.unnamed else []
        words = "; ".join([*map(counted, found), *more])
        return Finding(requirement, Verdict.FAIL, words, found, noted.unnamed)


def counted(found: Found) -> str:
    """Say what is wrong, and how often if that is more than once."""
    return found.words if found.times == 1 else f"{found.words} ({found.times} times)"


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
