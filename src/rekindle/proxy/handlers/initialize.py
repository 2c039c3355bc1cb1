"""`initialize`: agree on protocol versions, and advertise the whole session lifecycle.

The agent is asked for the client's version first, because no translation is the best translation.
The version that it uses is read from the body of its response: its version number alone proves
nothing. The agent is initialized once, with the capabilities of the first client. Further clients
receive the same response in their own versions.
"""

from typing import Any

from rekindle.acp import methods
from rekindle.acp.capabilities import read_capabilities
from rekindle.acp.jsonrpc import INVALID_REQUEST, UNSUPPORTED_VERSION
from rekindle.acp.translate.initialize import (
    request_to_v1,
    request_to_v2,
    response_to_v1,
    response_to_v2,
)
from rekindle.jsonvalue import as_object, decode_object, encode, without
from rekindle.proxy.advertising import advertise_v1, advertise_v2
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    AgentReply,
    CallAgent,
    ClientRequest,
    Flow,
    ForwardRequest,
    Refusal,
    SubFlow,
)
from rekindle.proxy.handlers.agent_start import ensure_agent, may_accept_other_version
from rekindle.proxy.peers import ClientConnection
from rekindle.proxy.validation import invalid, refusal_of, rekindle_meta

SUPPORTED = (1, 2)


def initialize(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Answer `initialize` in the client's version, whatever version the agent uses."""
    params, client = request.params, request.client
    version = _requested_version(params)
    if conn.agent.was_ready and client.peer != conn.primary:
        if client.protocol != version and conn.sessions.opened_by(client.peer):
            raise _open_sessions()
        _note_client(client, params, version)
        return advertise(conn, client, conn.agent.initialize_result)
    conn.primary = client.peer
    is_agreed = conn.agent.was_ready and conn.agent.is_running
    is_change = is_agreed or version != client.protocol
    if is_change and (conn.unnamed_sessions or conn.sessions):
        raise _open_sessions()
    _note_client(client, params, version)
    yield from ensure_agent(conn)
    conn.agent.begin_initialize()
    try:
        reply: AgentReply = yield from _initialize_agent(conn, request)
        result = as_object(reply.result)
        if reply.error is not None or (not result and reply.result != {}):
            if reply.line:
                return reply.line
            raise refusal_of(reply, "initialize")
        conn.agent.initialize_succeeded(read_capabilities(result), result)
    finally:
        conn.agent.end_initialize()
    return advertise(conn, client, result)


def _open_sessions() -> Refusal:
    """Return the refusal of a change: open sessions depend on the versions agreed on before."""
    return Refusal(
        INVALID_REQUEST, "initialize: this connection has open sessions; use a new connection"
    )


def _note_client(client: ClientConnection, params: dict[str, Any], version: int) -> None:
    client.protocol, client.initialize_params = version, params
    client.wants_positions = rekindle_meta(params).get("positions") is True
    capabilities = as_object(params.get("clientCapabilities"))
    session = as_object(capabilities.get("session"))
    options = as_object(session.get("configOptions"))
    client.takes_booleans = options.get("boolean") is not None
    client.takes_subagents = version > 1 or capabilities.get("subagents") is not None
    client.wants_seq = rekindle_meta(as_object(params.get("capabilities"))).get("seq") is True


def _requested_version(params: dict[str, Any]) -> int:
    version = params.get("protocolVersion", 1)
    if not isinstance(version, int) or isinstance(version, bool):
        raise invalid(methods.INITIALIZE, "protocolVersion", version, "must be an integer")
    if version < min(SUPPORTED):
        data = {"requested": version, "supported": list(SUPPORTED)}
        raise Refusal(UNSUPPORTED_VERSION, f"protocol version {version} does not exist", data)
    return min(version, max(SUPPORTED))


def _initialize_agent(conn: ConnectionState, request: ClientRequest) -> SubFlow:
    """Forward `initialize` in the client's version; if the agent refuses it, try the other."""
    params, line, agent = request.params, request.line, conn.agent
    version = request.client.protocol
    if conn.hides_client_tools(request.client):
        params = _without_client_tools(params)
    asked = {**params, "protocolVersion": version}
    sent = asked if "protocolVersion" in params else params
    if sent != request.params:
        line = encode({**(decode_object(line) or {}), "params": sent})
    other = request_to_v1(params) if version > 1 else request_to_v2(params)
    agent.initialize_params = [params, other]
    reply: AgentReply = yield ForwardRequest(methods.INITIALIZE, line)
    if reply.error is None or not may_accept_other_version(agent, asked, reply):
        return reply
    second: AgentReply = yield CallAgent(methods.INITIALIZE, other)
    if second.error is None:
        agent.initialize_params = [other, params]
        # The line has the id of the engine's own request.
        return AgentReply(result=second.result)
    return reply


def _without_client_tools(params: dict[str, Any]) -> dict[str, Any]:
    """Return the params without files and terminals: the client may leave before the agent."""
    capabilities = as_object(params.get("clientCapabilities"))
    if not capabilities:
        return params
    return {**params, "clientCapabilities": without(capabilities, "fs", "terminal")}


def advertise(
    conn: ConnectionState, client: ClientConnection, result: dict[str, Any]
) -> dict[str, Any]:
    """Return the agent's result of `initialize` as a client receives it."""
    capabilities, version = conn.agent.capabilities, conn.settings.version
    if client.protocol == 1:
        answer = result if capabilities.protocol == 1 else response_to_v1(result)
        return advertise_v1({**answer, "protocolVersion": 1}, capabilities, version)
    answer = result if capabilities.protocol > 1 else response_to_v2(result)
    return advertise_v2({**answer, "protocolVersion": 2}, capabilities, version)
