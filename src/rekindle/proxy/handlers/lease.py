"""One process drives a session: seeing to it that it is this one."""

from rekindle.model import LeaseResult
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import AcquireLease, SubFlow
from rekindle.proxy.validation import in_use


def claim(conn: ConnectionState, session_id: str, *, may_take_over: bool = False) -> SubFlow:
    """See to it that we drive a session. Raises Refusal."""
    claimed: LeaseResult = yield AcquireLease(session_id, may_take_over)
    if claimed.holder is not None:
        raise in_use(session_id, claimed.holder)
    live = conn.sessions.get(session_id)
    if live is not None and claimed.was_held_by_another:
        # What was said meanwhile, the agent here has not heard.
        live.is_outdated = live.needs_restore = True
