"""Which requests of the client are answered by a flow, and by which."""

from typing import Any

from rekindle.acp import methods
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import Flow
from rekindle.proxy.handlers.close import close, delete
from rekindle.proxy.handlers.fork import fork
from rekindle.proxy.handlers.initialize import initialize
from rekindle.proxy.handlers.list import list_sessions
from rekindle.proxy.handlers.open import load, new, resume, resume_v2
from rekindle.proxy.handlers.prompt import forward, prompt, refuse, use

_FLOWS = {
    methods.INITIALIZE: initialize,
    methods.NEW: new,
    methods.LOAD: load,
    methods.RESUME: resume,
    methods.LIST: list_sessions,
    methods.CLOSE: close,
    methods.DELETE: delete,
    methods.FORK: fork,
}


def flow_for(
    conn: ConnectionState, method: str, session_id: str | None, params: dict[str, Any], line: bytes
) -> Flow | None:
    """Return what answers a request; None if it simply goes to the agent."""
    if conn.client_protocol > 1:
        if methods.is_gone_in_v2(method) or (
            conn.is_translating and method.startswith("terminal/")
        ):
            return refuse(method)
        if method == methods.RESUME:
            return resume_v2(conn, params, line)
    if method in _FLOWS:
        return _FLOWS[method](conn, params, line)
    if method == methods.PROMPT and session_id is not None:
        return prompt(conn, session_id, params, line)
    live = conn.sessions.open(session_id)
    is_there = conn.agent.is_running and conn.agent.is_ready
    is_ready = is_there and (live is None or not live.needs_restore)
    must_be_open = method in methods.SETS_CONFIG and session_id is not None
    if is_ready and (live is not None or not must_be_open):
        return None
    return (
        use(conn, session_id, line)
        if session_id and (live or must_be_open)
        else forward(conn, line)
    )
