"""One process drives a session: seeing to it that it is this one."""

from rekindle.model import Claimed
from rekindle.proxy.connection_state import Connection
from rekindle.proxy.flow import Claim, Part
from rekindle.proxy.validation import in_use


def claim(conn: Connection, session_id: str, *, may_take_over: bool = False) -> Part:
    """See to it that we drive a session. Raises Refusal."""
    claimed: Claimed = yield Claim(session_id, may_take_over)
    if claimed.holder is not None:
        raise in_use(session_id, claimed.holder)
    live = conn.sessions.get(session_id)
    if live is not None and claimed.was_anothers:
        # What was said meanwhile, the agent here has not heard.
        live.is_outdated = live.needs_restore = True
