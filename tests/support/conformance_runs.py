"""Run `rekindle check` on the test agents, bare or behind Rekindle, with short timeouts."""

import asyncio
import sys
from pathlib import Path

from rekindle.conformance import CheckReport, CheckSettings, Verdict, run_check
from stdio_client import EXAMPLE_AGENT, REKINDLE

IMITATIONS = Path(__file__).parents[1] / "agents" / "agent_imitations.py"
EVERYTHING = "think plan read edit run title usage"
"""A prompt that makes the example agent use all of its features."""


def imitation(name: str, folder: Path) -> tuple[str, ...]:
    """Return the command of an agent that imitates a real one."""
    return (sys.executable, str(IMITATIONS), name, str(folder / "memory"))


def example(folder: Path, *options: str) -> tuple[str, ...]:
    """Return the command of the example agent."""
    return (*EXAMPLE_AGENT, "--memory", str(folder / "memory"), *options)


def behind_rekindle(folder: Path, command: tuple[str, ...], *options: str) -> tuple[str, ...]:
    """Return the command of an agent behind Rekindle."""
    return (*REKINDLE, "run", "--store", str(folder / "s.db"), *options, "--", *command)


def check(
    command: tuple[str, ...], folder: Path, *, only: tuple[str, ...] = (), **settings: object
) -> CheckReport:
    """Check an agent with short timeouts."""
    projects = folder / "projects"
    projects.mkdir()
    usual: dict[str, object] = {
        "prompt": "tool",
        "long_prompt": "slow",
        "timeout": 20.0,
        "quiet_seconds": 0.05,
        "grace": 10.0,
    }
    given = CheckSettings(command=command, folder=projects.resolve(), **(usual | settings))  # type: ignore[arg-type]
    return asyncio.run(run_check(given, only))


def failed(report: CheckReport) -> set[str]:
    """Return the names of the failed requirements, MUST or SHOULD."""
    return {it.requirement.name for it in report.results if it.verdict is Verdict.FAIL}


def describe_failures(report: CheckReport) -> str:
    """Describe the failed requirements, for the message of an assertion."""
    wrong = [it for it in report.results if it.verdict is Verdict.FAIL]
    return "\n".join(
        f"{it.requirement.name}: {found.message}\n  "
        + "\n  ".join(line.line for line in found.evidence)
        for it in wrong
        for found in it.faults
    )
