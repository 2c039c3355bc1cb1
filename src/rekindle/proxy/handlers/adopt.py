"""A session that only the agent has: heard from it and recorded, so that afterwards it is ours."""

from typing import Any

from rekindle.acp import methods
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.model import Opened
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    AgentReply,
    CallAgent,
    EraseSession,
    LookupIds,
    RecordChanges,
    Refusal,
    SubFlow,
)
from rekindle.proxy.handlers.lease import claim
from rekindle.proxy.handlers.restore import (
    PATIENCE_US,
    names_another,
    pass_on_what_only_the_user_can_solve,
    settle,
)
from rekindle.proxy.live_session import LiveSession, ReplayStats, UpdatePolicy
from rekindle.proxy.translation import setup_for_agent
from rekindle.proxy.validation import refusal_of, unknown_session

_PATIENCE_FOR_LIST_US = 2_000_000


def adopt(conn: ConnectionState, method: str, session_id: str, setup: dict[str, Any]) -> SubFlow:
    """Open a session that only the agent has; return its answer. Raises Refusal."""
    known: set[str] = yield LookupIds((session_id,))
    own = conn.agent.own
    # A load tells us the history, even if the client does not want to hear it.
    means = methods.LOAD if own.offers(methods.LOAD) else methods.RESUME
    if not own.offers(means):
        raise unknown_session(session_id)
    if known:
        # What there is of it was not told to its end, or is a sub-agent's: no history.
        yield from claim(conn, session_id, may_take_over=conn.settings.may_take_over)
        yield EraseSession(session_id)
    yield RecordChanges([Opened(session_id=session_id, at_us=conn.at_us)])
    yield from claim(conn, session_id)
    live = conn.sessions.bind(session_id, session_id)
    live.setup = setup
    live.told = ReplayStats()
    live.hearing = UpdatePolicy.FORWARD if method == methods.LOAD else UpdatePolicy.RECORD_ONLY
    live.is_restoring = True
    try:
        return (yield from _heard(conn, live, means))
    except Refusal:
        conn.sessions.drop(session_id)
        yield EraseSession(session_id)
        raise
    finally:
        live.is_restoring = False


def _heard(conn: ConnectionState, live: LiveSession, means: str) -> SubFlow:
    """Have the agent open the session; return its answer, once it has told of it."""
    params = {"sessionId": live.id, **setup_for_agent(conn, means, live.setup)}
    tells_all = means == methods.LOAD
    reply: AgentReply
    if conn.agent.own.protocol > 1:
        tells_all = True
        reply = yield CallAgent(means, {**params, "replayFrom": {"type": "start"}}, PATIENCE_US)
    else:
        reply = yield CallAgent(means, params, PATIENCE_US)
    pass_on_what_only_the_user_can_solve(reply)
    if not conn.agent.is_running:
        raise refusal_of(reply, "open the session")
    if not reply.is_success or names_another(reply, live.id):
        # Agents have many ways to say that they do not know a session.
        raise unknown_session(live.id, "" if reply.is_success else _reason(reply))
    if tells_all:
        has_told: bool = yield from settle(live, 0)
        if not has_told and not (yield from _is_listed(conn, live)):
            raise unknown_session(live.id)
    return reply


def _reason(reply: AgentReply) -> str:
    """Return why the agent says that it cannot, as far as it does."""
    refusal = refusal_of(reply, "open it")
    details = as_str(as_object(refusal.data).get("details")) or as_str(refusal.data)
    return f"{refusal.message}: {details}" if details else refusal.message


def _is_listed(conn: ConnectionState, live: LiveSession) -> SubFlow:
    """Tell whether the agent itself says that it has the session: one without a word yet."""
    if not conn.agent.own.offers(methods.LIST):
        return False
    params = {"cwd": live.setup["cwd"]}
    reply: AgentReply = yield CallAgent(methods.LIST, params, _PATIENCE_FOR_LIST_US)
    listed = as_array(as_object(reply.result).get("sessions"))
    return any(as_object(info).get("sessionId") == live.id for info in listed)
