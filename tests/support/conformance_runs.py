"""Run the conformance suite against test agents, bare or behind Rekindle, with short waits."""

import asyncio
import sys
from pathlib import Path

from rekindle.conformance import Report, Settings, Verdict, examine
from stdio_client import EXAMPLE_AGENT, REKINDLE

QUIRKY = Path(__file__).parents[1] / "agents" / "quirky.py"
EVERYTHING = "think plan read edit run title usage"
"""A prompt that makes the example agent use every feature it has."""


def quirky(name: str, folder: Path) -> tuple[str, ...]:
    """Return the command of a test agent with the quirks of a real one."""
    return (sys.executable, str(QUIRKY), name, str(folder / "memory"))


def example(folder: Path, *options: str) -> tuple[str, ...]:
    """Return the command of the example agent."""
    return (*EXAMPLE_AGENT, "--memory", str(folder / "memory"), *options)


def behind_rekindle(folder: Path, command: tuple[str, ...], *options: str) -> tuple[str, ...]:
    """Return the command that runs an agent behind Rekindle."""
    return (*REKINDLE, "run", "--store", str(folder / "s.db"), *options, "--", *command)


def examined(
    command: tuple[str, ...], folder: Path, *, only: tuple[str, ...] = (), **settings: object
) -> Report:
    """Run the suite against an agent; return the report."""
    projects = folder / "projects"
    projects.mkdir()
    usual: dict[str, object] = {
        "prompt": "tool",
        "long_prompt": "slow",
        "patience": 20.0,
        "settling": 0.05,
        "grace": 0.3,
    }
    given = Settings(command=command, folder=projects.resolve(), **(usual | settings))  # type: ignore[arg-type]
    return asyncio.run(examine(given, only))


def failed(report: Report) -> set[str]:
    """Return the names of the requirements that the agent fails, MUST and SHOULD."""
    return {it.requirement.name for it in report.findings if it.verdict is Verdict.FAIL}


def reasons(report: Report) -> str:
    """Describe the failed requirements with evidence, for the message of a failing test."""
    wrong = [it for it in report.findings if it.verdict is Verdict.FAIL]
    return "\n".join(
        f"{it.requirement.name}: {found.words}\n  "
        + "\n  ".join(line.line for line in found.evidence)
        for it in wrong
        for found in it.faults
    )
