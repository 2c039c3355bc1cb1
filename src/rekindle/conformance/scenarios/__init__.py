"""What is done with an agent to judge it: each scenario judges several requirements in order."""

from collections.abc import Awaitable, Callable

from rekindle.conformance.scenarios.delete import delete
from rekindle.conformance.scenarios.directories import roots
from rekindle.conformance.scenarios.fork import fork
from rekindle.conformance.scenarios.initialize import greeting
from rekindle.conformance.scenarios.list import list_sessions
from rekindle.conformance.scenarios.prompt import session, turn
from rekindle.conformance.scenarios.reopen import replay, resume
from rekindle.conformance.scenarios.stop import cancel, close
from rekindle.conformance.session_runner import Examiner

SCENARIOS: dict[str, Callable[[Examiner], Awaitable[None]]] = {
    "greeting": greeting,
    "session": session,
    "turn": turn,
    "cancel": cancel,
    "list": list_sessions,
    "replay": replay,
    "resume": resume,
    "close": close,
    "fork": fork,
    "delete": delete,
    "roots": roots,
}

__all__ = ["SCENARIOS"]
