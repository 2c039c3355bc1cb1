"""Print the report of `rekindle check`, or describe it as JSON."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from rekindle.cli.formatting import one_line, plural, printable
from rekindle.cli.render.check_files import stderr_of, transcript_name
from rekindle.cli.terminal import columns, if_encodable, is_terminal, paint
from rekindle.conformance import (
    PAGES_REVISION,
    SCHEMA_REVISION,
    CheckReport,
    FaultSummary,
    RequirementLevel,
    RequirementResult,
    Verdict,
    format_fault,
    is_failure,
    is_warning,
    tck_ids,
)
from rekindle.text.redact.recorded_command import mask_command

_MARKS = {
    "pass": ("✓", "ok  ", "green"),
    "fail": ("✗", "FAIL", "red"),
    "warning": ("!", "warn", "yellow"),
    "not offered": ("–", "-   ", "dim"),  # noqa: RUF001 - a dash is intended
    "not seen": ("·", "-   ", "dim"),
    "skipped": ("?", "skip", "cyan"),
    "recorded": ("i", "info", "dim"),
}
_UNJUDGED = frozenset({Verdict.NOT_OFFERED, Verdict.NOT_SEEN, Verdict.SKIPPED, Verdict.RECORDED})
_LABELS = {Verdict.SKIPPED: "not tested"}
_STDERR_LINES = 5
_TITLE_WIDTH = 68
_MIN_ALIGNED_WIDTH = 102


def print_report(report: CheckReport, transcripts: Path | None = None) -> None:
    """Print a report for people. `transcripts` is the folder of the transcripts, if any."""
    for scenario, found in groupby(report.results, lambda it: it.requirement.scenario):
        findings = list(found)
        if _is_left_out(findings):
            mark, style = _mark(findings[0])
            why = one_line(findings[0].reason)
            if findings[0].verdict is Verdict.SKIPPED:
                why = f"{_LABELS[Verdict.SKIPPED]}: {why}"
            print(f"{paint(scenario, 'bold')}\n  {paint(f'{mark} {why}', style)}")
            continue
        print(paint(scenario, "bold"))
        for finding in findings:
            print(_line(finding))
    for heading, is_meant in (("Violated MUSTs", is_failure), ("Violated SHOULDs", is_warning)):
        _print_faults(heading, [it for it in report.results if is_meant(it)], report, transcripts)
    _print_summary(report)


def _is_left_out(findings: Sequence[RequirementResult]) -> bool:
    """Return whether no requirement of a scenario was judged, all for the same reason."""
    first = findings[0]
    is_common = all((it.verdict, it.reason) == (first.verdict, first.reason) for it in findings)
    return first.verdict in _UNJUDGED and is_common


def _line(finding: RequirementResult) -> str:
    mark, style = _mark(finding)
    name = paint(finding.requirement.name, "dim")
    # Names are aligned only on wide terminals: wrapped lines would consist of gaps.
    room = 0 if is_terminal() and columns() < _MIN_ALIGNED_WIDTH else _TITLE_WIDTH
    line = f"  {paint(mark, style)} {finding.requirement.title:{room}}  {name}"
    if finding.verdict in _UNJUDGED:
        label = _LABELS.get(finding.verdict, finding.verdict)
        line += paint(f"\n    {label}: {one_line(finding.reason)}", "dim")
    return line


def _mark(finding: RequirementResult) -> tuple[str, str]:
    shown, plain, style = _MARKS["warning" if is_warning(finding) else finding.verdict]
    return if_encodable(shown, plain), style


def _print_faults(
    heading: str,
    findings: Sequence[RequirementResult],
    report: CheckReport,
    transcripts: Path | None,
) -> None:
    if not findings:
        return
    print(f"\n{paint(heading, 'bold')}")
    for finding in findings:
        mark, style = _mark(finding)
        print(f"\n{paint(mark, style)} {paint(finding.requirement.name, 'bold')}")
        print(f"  {paint('rule ', 'dim')}  {finding.requirement.title}")
        for source in finding.sources:
            revision = f" ({source.revision})" if source.revision else ""
            print(f"  {paint('page ', 'dim')}  {source.address or source.name}{revision}")
        for found in finding.faults:
            print(f"  {paint('found', 'dim')}  {one_line(format_fault(found))}")
            for it in found.evidence:
                arrow = if_encodable("→", ">") if it.is_sent else if_encodable("←", "<")
                print(f"  {paint(f'{it.at:8.3f} {arrow}', 'dim')} {printable(it.line)}")
            if found.process and transcripts is not None:
                path = transcripts / transcript_name(found.process)
                print(f"  {paint('lines', 'dim')}  {path}, line {found.line + 1}")
        for line in stderr_of(finding, report)[-_STDERR_LINES:]:
            print(f"  {paint('stderr', 'dim')} {printable(line)}")
        if finding.omitted_faults:
            print(f"  {paint('found', 'dim')}  {finding.omitted_faults} more")


def _print_summary(report: CheckReport) -> None:
    heads = [_LABELS.get(it, str(it)) for it in Verdict]
    print(f"\n{'':8}" + "".join(f"{head:>13}" for head in heads))
    for level in RequirementLevel:
        counts = _counts(report, level)
        if level is RequirementLevel.RECORDED and not counts:
            continue
        print(f"{level:8}" + "".join(f"{counts[verdict]:>13}" for verdict in Verdict))
    print(f"\n{''.join(_conclusion(report))}")


def _conclusion(report: CheckReport) -> Iterator[str]:
    name = one_line(" ".join(filter(None, report.agent))) or "The agent"
    failed = sum(map(is_failure, report.results))
    warned = sum(map(is_warning, report.results))
    skipped = _counts(report, RequirementLevel.MUST)[Verdict.SKIPPED]
    yield f"{name}, ACP version {report.protocol}: "
    if report.obstacle:
        yield paint("the agent cannot be checked", "red")
        yield f", {plural(failed, 'MUST')} violated" if failed else ""
    elif failed:
        yield paint(f"{plural(failed, 'MUST')} violated", "red")
    elif skipped:
        yield paint("the agent meets every MUST that could be tested", "yellow")
    else:
        yield paint("the agent meets every MUST", "green")
    if warned:
        yield f", {plural(warned, 'warning')}"
    if skipped and not report.obstacle:
        yield from _unjudged(report, skipped)
    yield f" ({report.seconds:.1f} s)"


def _unjudged(report: CheckReport, skipped: int) -> Iterator[str]:
    musts = sum(_counts(report, RequirementLevel.MUST).values())
    yield f"; {skipped} of {plural(musts, 'MUST')} could not be tested"
    if report.no_turns:
        yield f": {one_line(report.no_turns)}"


def _counts(report: CheckReport, level: RequirementLevel) -> Counter[Verdict]:
    return Counter(it.verdict for it in report.results if it.requirement.level is level)


# -- for programs -----------------------------------------------------------------------

_NAMES = {"not offered": "notOffered", "not seen": "notSeen"}


def described(
    report: CheckReport, command: Sequence[str], transcripts: Path | None = None
) -> dict[str, object]:
    """Return a report as plain data. docs/reference/check.md documents the fields."""
    name, version = report.agent
    return {
        "ok": report.is_passed,
        "protocol": report.protocol,
        "agent": {"name": name or None, "version": version or None},
        "command": list(mask_command(tuple(command))),
        "seconds": round(report.seconds, 3),
        "obstacle": report.obstacle or None,
        "noTurn": report.no_turns or None,
        "revision": {"pages": PAGES_REVISION, "schema": SCHEMA_REVISION},
        "summary": {level.lower(): _summary(report, level) for level in RequirementLevel},
        "requirements": [_described(it, report, transcripts) for it in report.results],
    }


def _summary(report: CheckReport, level: RequirementLevel) -> dict[str, int]:
    counts = _counts(report, level)
    return {_NAMES.get(it, it): counts[it] for it in Verdict}


def _described(
    finding: RequirementResult, report: CheckReport, transcripts: Path | None
) -> dict[str, object]:
    requirement = finding.requirement
    return {
        "id": requirement.name,
        "scenario": requirement.scenario,
        "level": requirement.level,
        "checklist": list(requirement.numbers),
        "specification": [
            {"name": it.name, "address": it.address or None, "revision": it.revision or None}
            for it in finding.sources
        ],
        "tck": list(tck_ids(requirement.name)),
        "title": requirement.title,
        "verdict": _NAMES.get(finding.verdict, finding.verdict),
        "words": finding.reason or None,
        "evidence": _evidence(finding.faults[0]) if finding.faults else [],
        "faults": [
            {
                "words": it.message,
                "times": it.times,
                "evidence": _evidence(it),
                "transcript": _place(it, transcripts),
            }
            for it in finding.faults
        ],
        "stderr": stderr_of(finding, report),
    }


def _place(found: FaultSummary, transcripts: Path | None) -> dict[str, object] | None:
    if not found.process or transcripts is None:
        return None
    # The first line of the file describes the process.
    return {"file": str(transcripts / transcript_name(found.process)), "line": found.line + 1}


def _evidence(found: FaultSummary) -> list[dict[str, object]]:
    return [
        {"from": "client" if it.is_sent else "agent", "at": it.at, "line": it.line}
        for it in found.evidence
    ]
