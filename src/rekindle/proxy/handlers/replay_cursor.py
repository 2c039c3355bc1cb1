"""Replay cursors of version 2: refuse bad ones, and report the current position to the client."""

from collections.abc import Generator
from contextlib import contextmanager, suppress

from rekindle.acp import methods, update_kinds
from rekindle.acp.jsonrpc import update_line
from rekindle.model import Session
from rekindle.proxy.flow import Flow, GetSession, Refusal, SendToClient
from rekindle.proxy.validation import invalid
from rekindle.transcript.replay_cursor import BadCursor


@contextmanager
def refusing_bad_cursors() -> Generator[None]:
    """Turn BadCursor into the refusal of the request that carried the cursor."""
    try:
        yield
    except BadCursor as bad:
        raise invalid(methods.RESUME, "replayFrom", bad.cursor, bad.reason) from bad


def send_position(session_id: str) -> Flow:
    """Send the client the seq of the next entry, from which it can ask for a replay later.

    A store that cannot be read sends nothing: the position is a convenience.
    """
    session: Session | None = None
    with suppress(Refusal):
        session = yield GetSession(session_id)
    if session is not None:
        meta = {"rekindle": {"seq": session.last_seq + 1}}
        update = {"sessionUpdate": update_kinds.SESSION_INFO_UPDATE, "_meta": meta}
        yield SendToClient([update_line(session_id, update)])
    return None
