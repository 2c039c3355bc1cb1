"""Requests of other processes of the user to the host of sessions: describe it, free a session."""

from rekindle.acp import methods
from rekindle.acp.jsonrpc import METHOD_NOT_FOUND
from rekindle.jsonvalue import Json, as_object, as_str
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import ClientRequest, DescribeHost, Flow, Refusal, ReleaseLease
from rekindle.proxy.handlers.close import close_session
from rekindle.proxy.handlers.open import session_state
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.peers import ClientConnection
from rekindle.proxy.validation import read_session_id, unknown_session


def status(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Describe this process, its sessions and their clients."""
    _check_local(request)
    process: Json = yield DescribeHost()
    sessions = [_describe(conn, live) for live in conn.sessions.all() if not live.is_closed]
    identity = conn.agent.identity
    agent = {"name": identity.name, "version": identity.version, "command": list(identity.command)}
    return {**process, "agent": agent, "sessions": sessions}


def release(conn: ConnectionState, request: ClientRequest) -> Flow:
    """End the turn of a session, close it for all clients, and release its lease.

    The user has asked for it in another process.
    """
    _check_local(request)
    session_id = read_session_id(methods.HOST_RELEASE, request.params)
    live = conn.sessions.get(session_id)
    if live is None:
        raise unknown_session(session_id, "it is not open in this process")
    yield from close_session(conn, live)
    live.clients.clear()
    conn.sessions.forget_observers(session_id)
    yield ReleaseLease(session_id)
    return {}


def _check_local(request: ClientRequest) -> None:
    if not request.client.is_local_process:
        text = f"the method {request.method} is only for other processes of the user"
        raise Refusal(METHOD_NOT_FOUND, text, {"method": request.method})


def _describe(conn: ConnectionState, live: LiveSession) -> Json:
    return {
        "sessionId": live.id,
        "state": session_state(conn, live.id),
        "clients": [
            {
                **_client_info(conn.clients[peer]),
                "role": "observer" if attachment.is_observer else "controller",
            }
            for peer, attachment in live.clients.items()
            if peer in conn.clients
        ],
    }


def _client_info(client: ClientConnection) -> Json:
    params = client.initialize_params
    info = as_object(params.get("clientInfo")) or as_object(params.get("info"))
    return {"name": as_str(info.get("name")), "version": as_str(info.get("version"))}
