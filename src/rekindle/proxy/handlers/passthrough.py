"""Requests that the agent itself answers, once it runs and knows the session."""

from rekindle.acp.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import ClientRequest, Flow, ForwardToAgent, Refusal
from rekindle.proxy.handlers.agent_start import ensure_agent
from rekindle.proxy.handlers.prompt import open_session, restore_if_missing


def forward(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Forward a request that concerns no session."""
    yield from ensure_agent(conn)
    yield ForwardToAgent(request.line)
    return None


def forward_to_session(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Forward a request that concerns a session to an agent that knows the session."""
    live = open_session(conn, request.client, str(request.session_id))
    yield from ensure_agent(conn)
    yield from restore_if_missing(conn, live)
    yield ForwardToAgent(request.line)
    return None


def refuse_observer(_: ConnectionState, request: ClientRequest) -> Flow:
    """Refuse a request that only clients may send which have opened the session to use it."""
    raise Refusal(
        INVALID_REQUEST,
        f"{request.method}: this client only observes the session; load or resume it without "
        "the role observer to use it",
        {"sessionId": request.session_id},
    )
    yield  # Makes this function a generator.


def refuse(_: ConnectionState, request: ClientRequest) -> Flow:
    """Refuse a method that the client's protocol version does not have."""
    method = request.method
    raise Refusal(
        METHOD_NOT_FOUND,
        f"the method {method} does not exist in this protocol version",
        {"method": method},
    )
    yield  # Makes this function a generator.
