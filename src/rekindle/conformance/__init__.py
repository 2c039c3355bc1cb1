"""Check from the client's side whether an ACP agent follows the protocol's rules for sessions.

No model is needed: requirements that need a turn are skipped if the agent cannot run one. The
package knows nothing of how a report is shown, and nothing of Rekindle's store.
"""

from rekindle.conformance.report import (
    CheckReport,
    Evidence,
    FaultSummary,
    ProcessLog,
    RequirementResult,
    Verdict,
    format_fault,
    is_failure,
    is_untested,
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
from rekindle.conformance.specification import PAGES_REVISION, SCHEMA_REVISION, SOURCES
from rekindle.conformance.suite import run_check
from rekindle.conformance.tck import TCK, TCK_NOT_JUDGED, tck_ids

__all__ = [
    "LONG_PROMPT",
    "NOT_JUDGED",
    "NOT_WHOLE",
    "PAGES_REVISION",
    "PROMPT",
    "REQUIREMENTS",
    "SCENARIOS",
    "SCHEMA_REVISION",
    "SOURCES",
    "TCK",
    "TCK_NOT_JUDGED",
    "TIMEOUT",
    "CheckReport",
    "CheckSettings",
    "Evidence",
    "FaultSummary",
    "ProcessLog",
    "Requirement",
    "RequirementLevel",
    "RequirementResult",
    "Verdict",
    "format_fault",
    "is_failure",
    "is_untested",
    "is_warning",
    "run_check",
    "tck_ids",
]
