"""`session/close` and `session/delete`: end the turn, free the session, keep the record.

A session that was never used has no record worth keeping: closing forgets it.
"""

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INVALID_REQUEST
from rekindle.model import UNKNOWN_TO_AGENT, AgentIdentity, Change, Deleted, Opened, Session
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    AnswerOpenPrompts,
    CallAgent,
    CancelTurn,
    ClientRequest,
    DetachClient,
    DropQueuedPrompts,
    Flow,
    GetSession,
    RecordChanges,
    Refusal,
    ReleaseLease,
    SubFlow,
    WaitForTurnEnd,
)
from rekindle.proxy.handlers.forget import forget_if_unused
from rekindle.proxy.handlers.restore import belongs_to_agent
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.peers import ClientConnection
from rekindle.proxy.validation import read_session_id

_CANCEL_TIMEOUT_US = 10_000_000
AGENT_TIMEOUT_US = 10_000_000


def close(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Cancel the turn, have the agent free the session, and keep the record of a used one."""
    session_id = read_session_id(methods.CLOSE, request.params)
    live = conn.opened_by(request.client, session_id)
    if live is not None and _goes_on_without(conn, live, request.client):
        yield DetachClient(live)
    elif live is not None:
        yield from _free(conn, live)
    conn.sessions.stop_observing(request.client.peer, session_id)
    return {}


def close_unattended(conn: ConnectionState, live: LiveSession) -> Flow:
    """Free a session that all clients have left. No client waits for the result."""
    yield from _free(conn, live)
    return None


def _free(conn: ConnectionState, live: LiveSession) -> SubFlow:
    yield from close_session(conn, live)
    if not (yield from forget_if_unused(conn, live)):
        yield ReleaseLease(live.id)


def delete(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Remove a session from the list. It can be undeleted until it is purged."""
    session_id = read_session_id(methods.DELETE, request.params)
    capabilities = conn.agent.capabilities
    session: Session | None = yield GetSession(session_id)
    live = conn.sessions.get_open(session_id)
    if live is not None:
        if live.is_open_without(request.client.peer):
            raise Refusal(
                INVALID_REQUEST,
                "other clients have this session open: close it there, then delete it",
                {"sessionId": session_id},
            )
        yield from close_session(conn, live)
        yield ReleaseLease(live.id)
    changes: list[Change] = [Deleted(session_id=session_id, at_us=conn.at_us)]
    if session is None and capabilities.offers(methods.LIST):
        # The agent may go on listing it, so the record remembers the deletion.
        changes.insert(0, Opened(session_id=session_id, at_us=conn.at_us))
    yield RecordChanges(changes)
    agent_id = session.agent_session_id if session else session_id
    is_agents = agent_id != UNKNOWN_TO_AGENT and not _is_another_agents(conn, session)
    if conn.agent.is_running and capabilities.offers(methods.DELETE) and is_agents:
        yield CallAgent(methods.DELETE, {"sessionId": agent_id}, AGENT_TIMEOUT_US)
    return {}


def _goes_on_without(conn: ConnectionState, live: LiveSession, client: ClientConnection) -> bool:
    """Return whether a session stays open when a client closes it.

    An observer never closes it, and other clients keep it open. The specification wants a close to
    cancel the turn. Editors close the sessions of a view that the user closes, so the turn goes on
    if the user wants turns to outlive their client.
    """
    settings = conn.settings
    has_lasting_turn = settings.outlives_clients and not settings.is_strict
    return (
        live.clients[client.peer].is_observer
        or live.is_open_without(client.peer)
        or (has_lasting_turn and conn.has_turn(live.id))
    )


def _is_another_agents(conn: ConnectionState, session: Session | None) -> bool:
    """Return whether another agent has the session: this one may use the same id differently."""
    is_known = session is not None and session.agent != AgentIdentity()
    return session is not None and is_known and not belongs_to_agent(conn, session)


def close_session(conn: ConnectionState, live: LiveSession) -> SubFlow:
    """Cancel the turn of a session, and have the agent free it. Its lease stays."""
    yield from end_turn(conn, live)
    if live.memory.is_missing:
        conn.drop(live.id)
    elif conn.agent.capabilities.offers(methods.CLOSE):
        yield CallAgent(methods.CLOSE, {"sessionId": live.agent_id}, AGENT_TIMEOUT_US)
        conn.drop(live.id)
        # After the response the client must receive nothing more about the session.
        conn.sessions.abandon(live.agent_id)
    else:
        # The agent keeps the session: its updates are ignored, and it must not load it twice.
        live.close()


def end_turn(conn: ConnectionState, live: LiveSession) -> SubFlow:
    """Cancel the turn of a session, and its queued prompts; return whether the agent obeyed."""
    yield DropQueuedPrompts(live.id)
    if not conn.has_turn(live.id):
        return True
    yield CancelTurn(live.id)
    yield WaitForTurnEnd(live.id, _CANCEL_TIMEOUT_US)
    has_ended = not conn.has_turn(live.id)
    yield AnswerOpenPrompts(live.id)
    return has_ended
