"""Adopt a session that only the agent has: have it replayed, and record the replay."""

from rekindle.acp import methods
from rekindle.jsonvalue import as_object, as_str
from rekindle.model import Change, Opened, Titled
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    AgentReply,
    CallAgent,
    EraseSession,
    GetSession,
    LookupIds,
    RecordChanges,
    Refusal,
    SubFlow,
)
from rekindle.proxy.handlers.placeholders import marks_of, placeholder_changes
from rekindle.proxy.handlers.restore import (
    RESTORE_TIMEOUT_US,
    acquire_lease,
    is_listed,
    names_another_session,
    refuse_if_login_required,
    wait_for_replay,
)
from rekindle.proxy.live_session import LiveSession, UpdatePolicy
from rekindle.proxy.session_clients import Attachment, SessionSetup
from rekindle.proxy.translation import setup_for_agent
from rekindle.proxy.validation import refusal_of, unknown_session


def adopt(
    conn: ConnectionState,
    method: str,
    session_id: str,
    setup: SessionSetup,
    attachment: Attachment,
) -> SubFlow:
    """Open a session that only the agent has; return the agent's reply. Raises Refusal."""
    known: set[str] = yield LookupIds((session_id,))
    capabilities = conn.agent.capabilities
    # A load replays the history, even if the client did not ask for it.
    means = methods.LOAD if capabilities.offers(methods.LOAD) else methods.RESUME
    if not capabilities.offers(means):
        raise unknown_session(session_id)
    marks: list[Change] = []
    if known:
        marks = marks_of((yield GetSession(session_id)), conn.at_us)
        # The record is incomplete, or a sub-agent's. It is no history to build on.
        yield from acquire_lease(conn, session_id, may_take_over=conn.settings.may_take_over)
        yield EraseSession(session_id)
    yield RecordChanges([Opened(session_id=session_id, at_us=conn.at_us), *marks])
    yield from acquire_lease(conn, session_id)
    live = conn.bind(session_id, session_id)
    live.setup = setup
    conn.attach(setup.client, live, attachment)
    if any(isinstance(mark, Titled) for mark in marks):
        live.title.lock()
    is_load = method == methods.LOAD
    live.updates.expect_replay(UpdatePolicy.FORWARD if is_load else UpdatePolicy.RECORD_ONLY)
    live.memory.advance("adopt")
    try:
        reply: AgentReply = yield from _open_at_agent(conn, live, means)
    except Refusal:
        conn.drop(session_id)
        yield EraseSession(session_id)
        if marks:
            yield RecordChanges(placeholder_changes(conn, session_id, marks))
        raise
    finally:
        live.memory.advance("adopted")
    return reply


def _open_at_agent(conn: ConnectionState, live: LiveSession, means: str) -> SubFlow:
    """Have the agent open the session; return its reply after its replay has come."""
    params = {"sessionId": live.id, **setup_for_agent(conn, means, live.setup)}
    replays = means == methods.LOAD
    if conn.agent.capabilities.protocol > 1:
        replays = True
        params["replayFrom"] = {"type": "start"}
    reply: AgentReply = yield CallAgent(means, params, RESTORE_TIMEOUT_US)
    refuse_if_login_required(reply)
    if not conn.agent.is_running:
        raise refusal_of(reply, "open the session")
    if reply.error is not None or names_another_session(reply, live.id):
        # Agents have many ways to report an unknown session.
        raise unknown_session(live.id, "" if reply.error is None else _reason(reply))
    if replays:
        has_replayed: bool = yield from wait_for_replay(live, 0)
        if not has_replayed and not (yield from is_listed(conn, live)):
            raise unknown_session(live.id)
    return reply


def _reason(reply: AgentReply) -> str:
    """Return the reason that the agent gives for its error."""
    refusal = refusal_of(reply, "open it")
    details = as_str(as_object(refusal.data).get("details")) or as_str(refusal.data)
    return f"{refusal.message}: {details}" if details else refusal.message
