"""The scenarios: each uses the agent in one way, and checks several requirements in order."""

from collections.abc import Awaitable, Callable

from rekindle.conformance.scenarios.archive import check_archive
from rekindle.conformance.scenarios.batch import check_batch
from rekindle.conformance.scenarios.delete import check_delete
from rekindle.conformance.scenarios.directories import check_directories
from rekindle.conformance.scenarios.fork import check_fork
from rekindle.conformance.scenarios.initialize import check_greeting
from rekindle.conformance.scenarios.list import check_list
from rekindle.conformance.scenarios.prompt import check_sessions, check_turn
from rekindle.conformance.scenarios.recorded import check_recorded
from rekindle.conformance.scenarios.reopen import check_replay, check_resume
from rekindle.conformance.scenarios.rewind import check_rewind
from rekindle.conformance.scenarios.status import check_status
from rekindle.conformance.scenarios.stop import check_cancel, check_close
from rekindle.conformance.scenarios.system_prompt import check_system_prompt
from rekindle.conformance.scenarios.title import check_title
from rekindle.conformance.session_runner import SessionRunner

SCENARIOS: dict[str, Callable[[SessionRunner], Awaitable[None]]] = {
    "greeting": check_greeting,
    "session": check_sessions,
    "turn": check_turn,
    "cancel": check_cancel,
    "list": check_list,
    "replay": check_replay,
    "resume": check_resume,
    "close": check_close,
    "fork": check_fork,
    "delete": check_delete,
    "roots": check_directories,
    "archive": check_archive,
    "title": check_title,
    "status": check_status,
    "system": check_system_prompt,
    "rewind": check_rewind,
    "batch": check_batch,
    "recorded": check_recorded,
}

__all__ = ["SCENARIOS"]
