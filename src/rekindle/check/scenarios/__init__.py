"""What is done with an agent to judge it: each scenario judges several requirements in order."""

from collections.abc import Awaitable, Callable

from rekindle.check.examiner import Examiner
from rekindle.check.scenarios.deleting import delete
from rekindle.check.scenarios.forking import fork
from rekindle.check.scenarios.greeting import greeting
from rekindle.check.scenarios.listing import list_sessions
from rekindle.check.scenarios.reopening import replay, resume
from rekindle.check.scenarios.rooting import roots
from rekindle.check.scenarios.stopping import cancel, close
from rekindle.check.scenarios.talking import session, turn

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
