"""`session/close` and `session/delete`: what is let go, and what is kept."""

from typing import Any

from rekindle.acp import methods
from rekindle.model import UNKNOWN_TO_AGENT, AgentIdentity, Change, Deleted, Opened, Session
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    AnswerOpenPrompts,
    CallAgent,
    CancelTurn,
    DropQueuedPrompts,
    Flow,
    GetSession,
    RecordChanges,
    ReleaseLease,
    SubFlow,
    WaitForTurnEnd,
)
from rekindle.proxy.handlers.open import is_at_work
from rekindle.proxy.handlers.restore import is_its_own
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.validation import read_session_id

_PATIENCE_FOR_CANCEL_US = 10_000_000
_PATIENCE_US = 10_000_000


def close(conn: ConnectionState, params: dict[str, Any], _: bytes) -> Flow:
    """Cancel what runs, let the agent free the session, and keep the record."""
    session_id = read_session_id(methods.CLOSE, params)
    live = conn.sessions.open(session_id)
    if live is not None:
        yield from _closed(conn, live)
    return {}


def delete(conn: ConnectionState, params: dict[str, Any], _: bytes) -> Flow:
    """Take a session from the list; it can be brought back until it is purged."""
    session_id = read_session_id(methods.DELETE, params)
    own = conn.agent.own
    session: Session | None = yield GetSession(session_id)
    live = conn.sessions.open(session_id)
    if live is not None:
        yield from _closed(conn, live)
    changes: list[Change] = [Deleted(session_id=session_id, at_us=conn.at_us)]
    if session is None and own.offers(methods.LIST):
        # The agent may list it, and go on doing so: remember that it is not wanted.
        changes.insert(0, Opened(session_id=session_id, at_us=conn.at_us))
    yield RecordChanges(changes)
    agent_id = session.agent_session_id if session else session_id
    is_its = agent_id != UNKNOWN_TO_AGENT and _is_nobody_elses(conn, session)
    if conn.agent.is_running and own.offers(methods.DELETE) and is_its:
        yield CallAgent(methods.DELETE, {"sessionId": agent_id}, _PATIENCE_US)
    return {}


def _is_nobody_elses(conn: ConnectionState, session: Session | None) -> bool:
    """Tell whether no other agent has a session: this one may have another under the same id."""
    is_known = session is not None and session.agent != AgentIdentity()
    return session is None or not is_known or is_its_own(conn, session)


def _closed(conn: ConnectionState, live: LiveSession) -> SubFlow:
    yield DropQueuedPrompts(live.id)
    if is_at_work(conn, live.id):
        yield CancelTurn(live.id)
        yield WaitForTurnEnd(live.id, _PATIENCE_FOR_CANCEL_US)
        yield AnswerOpenPrompts(live.id)
    if live.needs_restore:
        conn.sessions.drop(live.id)
    elif conn.agent.own.offers(methods.CLOSE):
        yield CallAgent(methods.CLOSE, {"sessionId": live.agent_id}, _PATIENCE_US)
        conn.sessions.drop(live.id)
        # After the answer nothing more may be told of it, whatever the agent still says.
        conn.sessions.abandon(live.agent_id)
    else:
        # The agent has it still; it must neither be heard nor be asked to load it twice.
        live.is_closed = True
    yield ReleaseLease(live.id)
