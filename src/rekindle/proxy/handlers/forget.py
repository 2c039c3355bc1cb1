"""Forget the sessions that a client opens and leaves without using them.

Editors create a session for each window, and most of these are never prompted. The engine removes
an unused session from the record when its client closes it or leaves. The agent may go on listing
its own copy, so the store remembers the agent's id of it for a while (`list`). A session that was
opened again, or that the agent had before, is forgotten as well, but the agent's copy stays listed:
it may have a history.
"""

from collections.abc import Sequence

from rekindle.model import UNKNOWN_TO_AGENT, Entry, LeaseResult, Session
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    AcquireLease,
    Flow,
    GetSession,
    ReadEntries,
    RecordChanges,
    Refusal,
    SubFlow,
)
from rekindle.proxy.live_session import LiveSession
from rekindle.transcript.unused import forgotten_if_empty


def forget_all(conn: ConnectionState, sessions: Sequence[LiveSession]) -> Flow:
    """Forget those of some sessions that are unused. No client waits for the result."""
    for live in sessions:
        yield from forget_if_unused(conn, live)
    return None


def forget_if_unused(conn: ConnectionState, live: LiveSession) -> SubFlow:
    """Remove a session that was never used from the record; return whether it was removed.

    If the store fails, the session stays. It is hidden, and a later process removes it.
    """
    try:
        session: Session | None = yield GetSession(live.id)
        if session is None or not session.is_unused:
            return False
        lease: LeaseResult = yield AcquireLease(live.id)
        entries: list[Entry] = yield ReadEntries(live.id, 0)
    except Refusal:
        return False
    forgotten = forgotten_if_empty(live.id, entries, conn.at_us)
    if lease.holder is not None or forgotten is None:
        return False
    yield RecordChanges([forgotten])
    conn.drop(live.id)
    if live.agent_id != UNKNOWN_TO_AGENT:
        # A late update must not record it again.
        conn.sessions.abandon(live.agent_id)
    return True
