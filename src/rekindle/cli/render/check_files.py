"""The files of `rekindle check`: a JUnit report, and the transcripts of the agent's processes."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from rekindle.conformance import (
    CheckReport,
    ProcessLog,
    RequirementResult,
    Verdict,
    format_fault,
    is_failure,
    is_untested,
    is_warning,
)
from rekindle.errors import UsageError
from rekindle.text.redact.detect import mask
from rekindle.text.redact.recorded_command import mask_command

# XML 1.0 has no characters but these.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def transcript_name(process: int) -> str:
    """Return the name of the file for a process of the agent."""
    return f"process-{process:02}.jsonl"


def stderr_of(finding: RequirementResult, report: CheckReport) -> list[str]:
    """Return the end of the stderr of the process in which the first fault occurred."""
    first = finding.faults[0].process if finding.faults else 0
    return [mask(it) for log in report.processes if log.number == first for it in log.stderr]


# -- transcripts ------------------------------------------------------------------------


def prepare_folder(folder: Path) -> None:
    """Create the folder for transcripts. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot create the folder {folder}: {error.strerror}") from None


def write_transcripts(report: CheckReport, command: Sequence[str], folder: Path) -> None:
    """Write a file for each process of the agent. Raises UsageError."""
    for process in report.processes:
        lines = (json.dumps(it, ensure_ascii=False) for it in _transcript(process, command))
        write_text(folder / transcript_name(process.number), "\n".join(lines) + "\n")


def _transcript(process: ProcessLog, command: Sequence[str]) -> Iterator[dict[str, object]]:
    """Yield the process, its lines, and its end. Secrets are masked."""
    yield {
        "process": process.number,
        "command": list(mask_command(tuple(command))),
        "scenarios": list(process.scenarios),
    }
    for line in process.lines:
        if not line.is_member:
            text = mask(line.data.decode("utf-8", "replace"))
            sender = "client" if line.is_sent else "agent"
            yield {"at": round(line.at, 3), "from": sender, "line": text}
    yield {"stderr": list(map(mask, process.stderr)), "ended": mask(process.ending) or None}


def write_text(path: Path, text: str) -> None:
    """Write a file. Raises UsageError."""
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


# -- JUnit ------------------------------------------------------------------------------


def check_writable(path: Path) -> None:
    """Check that a report can be written, before the check takes its time. Raises UsageError."""
    try:
        with path.open("ab"):
            pass
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def write_junit(report: CheckReport, path: Path) -> None:
    """Write the report as JUnit XML. Raises UsageError."""
    write_text(path, as_junit(report))


def as_junit(report: CheckReport) -> str:
    """Return the report as JUnit XML.

    A violated MUST is a failure, and a MUST that could not be tested is an error. Everything else
    that did not pass is skipped, so that only MUSTs fail a build.
    """
    cases = [_test_case(it, report) for it in report.results]
    agent = " ".join(filter(None, report.agent)) or "agent"
    attributes = {
        "name": _xml(f"{agent}, ACP version {report.protocol}"),
        "tests": str(len(cases)),
        "failures": _count(cases, "failure"),
        "errors": _count(cases, "error"),
        "skipped": _count(cases, "skipped"),
        "time": f"{report.seconds:.3f}",
    }
    suite = ET.Element("testsuite", attributes)
    suite.extend(cases)
    if report.obstacle:
        ET.SubElement(suite, "system-err").text = _xml(report.obstacle)
    names = ("tests", "failures", "errors", "time")
    totals = {name: attributes[name] for name in names}
    root = ET.Element("testsuites", {"name": "rekindle check", **totals})
    root.append(suite)
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _count(cases: Iterable[ET.Element], name: str) -> str:
    return str(sum(it.find(name) is not None for it in cases))


def _test_case(finding: RequirementResult, report: CheckReport) -> ET.Element:
    requirement = finding.requirement
    case = ET.Element(
        "testcase",
        {"classname": f"rekindle.check.{requirement.scenario}", "name": requirement.name},
    )
    reason = _xml(finding.reason)
    if is_failure(finding):
        attributes = {"message": reason, "type": requirement.level}
        ET.SubElement(case, "failure", attributes).text = _xml(_details(finding, report))
    elif is_untested(finding):
        attributes = {"message": reason, "type": "not tested"}
        ET.SubElement(case, "error", attributes).text = _xml(requirement.title)
    elif is_warning(finding):
        ET.SubElement(case, "skipped", {"message": f"warning: {reason}"})
        ET.SubElement(case, "system-out").text = _xml(_details(finding, report))
    elif finding.verdict is not Verdict.PASS:
        label = "not tested" if finding.verdict is Verdict.SKIPPED else finding.verdict
        ET.SubElement(case, "skipped", {"message": f"{label}: {reason}"})
    return case


def _details(finding: RequirementResult, report: CheckReport) -> str:
    lines = [f"rule: {finding.requirement.title}"]
    for source in finding.sources:
        place = " ".join(filter(None, (source.name, source.address, source.revision)))
        lines.append(f"specification: {place}")
    for fault in finding.faults:
        lines.append(f"found: {format_fault(fault)}")
        lines += [f"  {'>' if it.is_sent else '<'} {it.line}" for it in fault.evidence]
    lines += [f"stderr: {it}" for it in stderr_of(finding, report)]
    return "\n".join(lines)


def _xml(text: str) -> str:
    """Return a text without the characters that XML does not have."""
    return _NOT_XML.sub("\ufffd", text)
