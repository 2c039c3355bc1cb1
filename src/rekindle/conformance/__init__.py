"""Check from the client's side whether an ACP agent follows the protocol's rules for sessions.

No model is needed: requirements that need a turn are skipped if the agent cannot run one. The
package knows nothing of how a report is shown, and nothing of Rekindle's store.
"""

from rekindle.conformance.report import (
    CheckReport,
    Evidence,
    FaultSummary,
    RequirementResult,
    Verdict,
    format_fault,
    is_failure,
    is_warning,
)
from rekindle.conformance.requirements import (
    NOT_JUDGED,
    NOT_WHOLE,
    REQUIREMENTS,
    SCENARIOS,
    Requirement,
    RequirementLevel,
)
from rekindle.conformance.session_runner import LONG_PROMPT, PROMPT, TIMEOUT, CheckSettings
from rekindle.conformance.suite import run_check

__all__ = [
    "LONG_PROMPT",
    "NOT_JUDGED",
    "NOT_WHOLE",
    "PROMPT",
    "REQUIREMENTS",
    "SCENARIOS",
    "TIMEOUT",
    "CheckReport",
    "CheckSettings",
    "Evidence",
    "FaultSummary",
    "Requirement",
    "RequirementLevel",
    "RequirementResult",
    "Verdict",
    "format_fault",
    "is_failure",
    "is_warning",
    "run_check",
]
