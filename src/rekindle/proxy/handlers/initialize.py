"""`initialize`: which version each side speaks, and what the client is told that it can do.

The agent is asked for the version that the client asks for, because nothing is better than not to
translate. What it then speaks is known by the body of its answer: the number proves nothing.
"""

from typing import Any

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INVALID_REQUEST, UNSUPPORTED_VERSION
from rekindle.acp.translate.initialize import (
    request_to_v1,
    request_to_v2,
    response_to_v1,
    response_to_v2,
)
from rekindle.jsonvalue import as_object, decode_object, encode
from rekindle.proxy.advertising import advertise_v1, advertise_v2
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import AgentReply, CallAgent, Flow, ForwardRequest, Refusal, SubFlow
from rekindle.proxy.handlers.agent_start import awake, identify, may_take_another
from rekindle.proxy.validation import invalid, our_meta, refusal_of

SUPPORTED = (1, 2)


def initialize(conn: ConnectionState, params: dict[str, Any], line: bytes) -> Flow:
    """Answer `initialize` in the client's version, whatever the agent speaks."""
    version = _asked_for(params)
    is_agreed = conn.agent.is_initialized and conn.agent.is_running
    is_another = is_agreed or version != conn.client_protocol
    if is_another and (conn.openings or conn.sessions.are_there):
        # What is open was begun in the versions that were agreed on, or taken for granted.
        raise Refusal(INVALID_REQUEST, "initialize: this connection has sessions open already")
    conn.client_protocol = version
    session = as_object(as_object(params.get("clientCapabilities")).get("session"))
    options = as_object(session.get("configOptions"))
    conn.client_takes_booleans = options.get("boolean") is not None
    conn.client_wants_seq = our_meta(as_object(params.get("capabilities"))).get("seq") is True
    yield from awake(conn)
    conn.agent.is_initializing = True
    try:
        reply: AgentReply = yield from _greeted(conn, params, line)
    finally:
        conn.agent.is_initializing = False
    result = as_object(reply.result)
    if not reply.is_success or (not result and reply.result != {}):
        if reply.line:
            return reply.line
        raise refusal_of(reply, "initialize")
    identify(conn, result)
    return _answer(conn, result)


def _asked_for(params: dict[str, Any]) -> int:
    version = params.get("protocolVersion", 1)
    if not isinstance(version, int) or isinstance(version, bool):
        raise invalid(methods.INITIALIZE, "protocolVersion", version, "must be a whole number")
    if version < min(SUPPORTED):
        data = {"requested": version, "supported": list(SUPPORTED)}
        raise Refusal(UNSUPPORTED_VERSION, f"there is no version {version} of the protocol", data)
    return min(version, max(SUPPORTED))


def _greeted(conn: ConnectionState, params: dict[str, Any], line: bytes) -> SubFlow:
    """Greet the agent in the client's version, and if it does not take that, in the other."""
    asked = {**params, "protocolVersion": conn.client_protocol}
    if "protocolVersion" in params and asked != params:
        line = encode({**(decode_object(line) or {}), "params": asked})
    other = request_to_v1(params) if conn.client_protocol > 1 else request_to_v2(params)
    conn.agent.greetings = [params, other]
    reply: AgentReply = yield ForwardRequest(methods.INITIALIZE, line)
    if reply.is_success or not may_take_another(conn.agent, asked, reply):
        return reply
    again: AgentReply = yield CallAgent(methods.INITIALIZE, other)
    if again.is_success:
        conn.agent.greetings = [other, params]
        return again
    return reply


def _answer(conn: ConnectionState, result: dict[str, Any]) -> dict[str, Any]:
    own, version = conn.agent.own, conn.settings.version
    if conn.client_protocol == 1:
        answer = result if own.protocol == 1 else response_to_v1(result)
        return advertise_v1({**answer, "protocolVersion": 1}, own, version)
    answer = result if own.protocol > 1 else response_to_v2(result)
    return advertise_v2({**answer, "protocolVersion": 2}, own, version)
