"""Examining an ACP agent from the client's side: whether it keeps the rules of sessions.

It needs no model: what needs a turn is skipped where the agent cannot run one. It knows nothing
of how a report is shown, and nothing of Rekindle's store.
"""

from rekindle.conformance.report import (
    Evidence,
    Finding,
    Found,
    Verdict,
    counted,
    is_failure,
    is_warning,
)
from rekindle.conformance.requirements import (
    NOT_JUDGED,
    NOT_WHOLE,
    REQUIREMENTS,
    SCENARIOS,
    Level,
    Requirement,
)
from rekindle.conformance.session_runner import LONG_PROMPT, PATIENCE, PROMPT, Settings
from rekindle.conformance.suite import Report, examine

__all__ = [
    "LONG_PROMPT",
    "NOT_JUDGED",
    "NOT_WHOLE",
    "PATIENCE",
    "PROMPT",
    "REQUIREMENTS",
    "SCENARIOS",
    "Evidence",
    "Finding",
    "Found",
    "Level",
    "Report",
    "Requirement",
    "Settings",
    "Verdict",
    "counted",
    "examine",
    "is_failure",
    "is_warning",
]
