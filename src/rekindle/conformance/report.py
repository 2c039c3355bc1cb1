"""The results of a check: a verdict on each requirement, with evidence. Knows no agent."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from rekindle.conformance.requirements import Requirement, RequirementLevel
from rekindle.conformance.specification import Source, find_sources
from rekindle.conformance.trace import TraceLine
from rekindle.text.redact.detect import mask

_MAX_LINE_LENGTH = 600
_MAX_LINES = 8
_MAX_FAULTS = 10


class Verdict(StrEnum):
    """The outcome for a requirement."""

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    NOT_OFFERED = "not offered"
    NOT_SEEN = "not seen"
    SKIPPED = "skipped"
    RECORDED = "recorded"


class Fault(Struct, frozen=True):
    """A description of an error of the agent, and the lines that show it."""

    message: str
    lines: tuple[TraceLine, ...] = ()


class Evidence(Struct, frozen=True):
    """A line of a report: shortened, and with secrets masked."""

    is_sent: bool
    at: float
    line: str


class FaultSummary(Struct, frozen=True):
    """A fault, how often it occurred, and the lines of its first occurrence."""

    message: str
    times: int
    evidence: tuple[Evidence, ...]
    process: int = 0
    """The number of the agent's process that it occurred in; 0 if there is none."""
    line: int = 0
    """The number of its last line in the transcript of that process."""


class RequirementResult(Struct, frozen=True):
    """The verdict on one requirement. Unless it is `pass`, `reason` explains it."""

    requirement: Requirement
    verdict: Verdict
    reason: str = ""
    faults: tuple[FaultSummary, ...] = ()
    """The faults, each once."""
    omitted_faults: int = 0
    """The number of faults beyond the limit."""
    sources: tuple[Source, ...] = ()
    """The pages and types of the specification."""


class ProcessLog(Struct, frozen=True):
    """One process of the agent."""

    number: int
    scenarios: tuple[str, ...]
    lines: tuple[TraceLine, ...]
    """Every line to and from it, and the members of batches."""
    stderr: tuple[str, ...]
    """The last lines of its stderr."""
    ending: str
    """How it ended by itself; empty if it did not."""

    def place(self, line: TraceLine) -> int:
        """Return the number of a line, or 0. A member has the number of its batch."""
        number = 0
        for it in self.lines:
            number += not it.is_member
            if it is line:
                return number
        return 0


class CheckReport(Struct, frozen=True, kw_only=True):
    """The results of a check."""

    protocol: int
    agent: tuple[str, str]
    """The agent's name and version; empty if it does not send them."""
    results: tuple[RequirementResult, ...]
    seconds: float
    obstacle: str = ""
    """Why the check ended early; empty if it did not."""
    no_turns: str = ""
    """Why the agent cannot run a turn; empty if it can."""
    processes: tuple[ProcessLog, ...] = ()

    @property
    def is_passed(self) -> bool:
        """Whether every MUST that applies was tested and met."""
        return self.is_met and not any(map(is_untested, self.results))

    @property
    def is_met(self) -> bool:
        """Whether the check was complete and no MUST failed. Some may not have been tested."""
        return not self.obstacle and not any(map(is_failure, self.results))


class _FaultCounter:
    """The faults of one requirement, by message."""

    def __init__(self) -> None:
        self.counts: dict[str, tuple[int, Fault]] = {}
        self.omitted = 0

    def add(self, fault: Fault) -> None:
        times, first = self.counts.get(fault.message, (0, fault))
        if times or len(self.counts) < _MAX_FAULTS:
            self.counts[fault.message] = times + 1, first
        else:
            self.omitted += 1


class CheckResults:
    """Collects the verdicts during a check. A requirement that failed once stays failed."""

    def __init__(self, requirements: Iterable[Requirement], protocol: int = 1) -> None:
        self._protocol = protocol
        self._requirements = {it.name: it for it in requirements}
        self._faults: dict[str, _FaultCounter] = {}
        self._unchecked: dict[str, tuple[Verdict, str]] = {}
        self._processes: tuple[ProcessLog, ...] = ()

    def check(self, name: str, faults: Iterable[Fault]) -> bool:
        """Add the faults of a requirement, and return whether there were none.

        Call it only for requirements that were tested: without faults, the requirement passes.
        Requirements of the other version are ignored.
        """
        if name not in self._requirements:
            return True
        counter = self._faults.setdefault(name, _FaultCounter())
        is_met = True
        for fault in faults:
            counter.add(fault)
            is_met = False
        return is_met

    def skip(self, name: str, reason: str) -> None:
        """Note why a requirement could not be checked."""
        self._unchecked.setdefault(name, (Verdict.SKIPPED, reason))

    def not_offered(self, name: str, reason: str) -> None:
        """Note that the agent does not offer what a requirement is about."""
        self._unchecked.setdefault(name, (Verdict.NOT_OFFERED, reason))

    def not_seen(self, name: str, reason: str) -> None:
        """Note that what a requirement is about did not occur."""
        self._unchecked.setdefault(name, (Verdict.NOT_SEEN, reason))

    def record(self, name: str, observation: str) -> None:
        """Note the behaviour that a requirement without a rule is about."""
        self._unchecked.setdefault(name, (Verdict.RECORDED, observation))

    def end_scenario(self, scenario: str, reason: str, verdict: Verdict = Verdict.SKIPPED) -> None:
        """Give the remaining requirements of a scenario a verdict."""
        for requirement in self._requirements.values():
            if requirement.scenario == scenario:
                self._unchecked.setdefault(requirement.name, (verdict, reason))

    def results(self, processes: Iterable[ProcessLog] = ()) -> list[RequirementResult]:
        """Return the results so far, in the order of the requirements.

        Faults name the process, of those given, in which they occurred.
        """
        self._processes = tuple(processes)
        known = self._faults.keys() | self._unchecked.keys()
        return [self._result(it) for name, it in self._requirements.items() if name in known]

    def _result(self, requirement: Requirement) -> RequirementResult:
        sources = find_sources(requirement.numbers, self._protocol)
        counter = self._faults.get(requirement.name)
        if counter is None:
            verdict, reason = self._unchecked[requirement.name]
            return RequirementResult(requirement, verdict, mask(reason), sources=sources)
        if not counter.counts:
            return RequirementResult(requirement, Verdict.PASS, sources=sources)
        faults = tuple(
            FaultSummary(mask(message), times, as_evidence(fault.lines), *self._place(fault))
            for message, (times, fault) in counter.counts.items()
        )
        more = [f"and {counter.omitted} more"] if counter.omitted else []
        reason = "; ".join([*map(format_fault, faults), *more])
        return RequirementResult(
            requirement, Verdict.FAIL, reason, faults, counter.omitted, sources
        )

    def _place(self, fault: Fault) -> tuple[int, int]:
        """Return the process and the place of the last line of a fault."""
        for line in reversed(fault.lines):
            for process in self._processes:
                if place := process.place(line):
                    return process.number, place
        return 0, 0


def format_fault(fault: FaultSummary) -> str:
    """Return the message of a fault, with its count if that is more than one."""
    return fault.message if fault.times == 1 else f"{fault.message} ({fault.times} times)"


def as_evidence(lines: Iterable[TraceLine]) -> tuple[Evidence, ...]:
    """Return lines as evidence. Of many, only the first and the last are kept."""
    whole = list(lines)
    half = _MAX_LINES // 2
    some = whole if len(whole) <= _MAX_LINES else [*whole[:half], *whole[-half:]]
    return tuple(Evidence(it.is_sent, round(it.at, 3), _shorten(it.data)) for it in some)


def _shorten(data: bytes) -> str:
    # Secrets are masked first, because half a secret is not recognised.
    text = mask(data.decode("utf-8", "replace"))
    if len(text) <= _MAX_LINE_LENGTH:
        return text
    half = _MAX_LINE_LENGTH // 2
    return f"{text[:half]} … {text[-half:]}"


def is_warning(result: RequirementResult) -> bool:
    """Return whether a result is a failed SHOULD."""
    return result.verdict is Verdict.FAIL and result.requirement.level is RequirementLevel.SHOULD


def is_untested(result: RequirementResult) -> bool:
    """Return whether a result is a MUST that could not be tested."""
    return result.verdict is Verdict.SKIPPED and result.requirement.level is RequirementLevel.MUST


def is_failure(result: RequirementResult) -> bool:
    """Return whether a result is a failed MUST."""
    return result.verdict is Verdict.FAIL and result.requirement.level is RequirementLevel.MUST
