"""Examining an ACP agent from the client's side: whether it keeps the rules of sessions.

It needs no model: what needs a turn is skipped where the agent cannot run one. It knows nothing
of how a report is shown, and nothing of Rekindle's store.
"""

from rekindle.check.examiner import Settings
from rekindle.check.requirements import NOT_JUDGED, REQUIREMENTS, SCENARIOS, Level, Requirement
from rekindle.check.suite import Report, examine
from rekindle.check.verdicts import Evidence, Finding, Verdict, is_failure, is_warning

__all__ = [
    "NOT_JUDGED",
    "REQUIREMENTS",
    "SCENARIOS",
    "Evidence",
    "Finding",
    "Level",
    "Report",
    "Requirement",
    "Settings",
    "Verdict",
    "examine",
    "is_failure",
    "is_warning",
]
