"""Choose the flow that answers a request of the client."""

from collections.abc import Callable

from rekindle.acp import methods
from rekindle.proxy.agent_choice import is_agent_choice
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import ClientRequest, Flow
from rekindle.proxy.handlers.close import close, delete
from rekindle.proxy.handlers.fork import fork
from rekindle.proxy.handlers.host import release, status as status_of_host
from rekindle.proxy.handlers.initialize import initialize
from rekindle.proxy.handlers.list import list_sessions
from rekindle.proxy.handlers.open import load, new, resume, resume_v2
from rekindle.proxy.handlers.passthrough import (
    forward,
    forward_to_session,
    refuse,
    refuse_observer,
)
from rekindle.proxy.handlers.prompt import prompt
from rekindle.proxy.handlers.rewind import edit_prompt, rewind
from rekindle.proxy.handlers.session_info import archive, set_title, status, unarchive
from rekindle.proxy.handlers.switch_agent import switch_agent

Handler = Callable[[ConnectionState, ClientRequest], Flow]

HANDLERS: dict[str, Handler] = {
    methods.INITIALIZE: initialize,
    methods.NEW: new,
    methods.LOAD: load,
    methods.RESUME: resume,
    methods.LIST: list_sessions,
    methods.CLOSE: close,
    methods.DELETE: delete,
    methods.FORK: fork,
    methods.ARCHIVE: archive,
    methods.UNARCHIVE: unarchive,
    methods.SET_TITLE: set_title,
    methods.STATUS: status,
    methods.REWIND: rewind,
    methods.EDIT_PROMPT: edit_prompt,
    methods.HOST_STATUS: status_of_host,
    methods.HOST_RELEASE: release,
}
"""By method, in version 1."""

HANDLERS_V2: dict[str, Handler] = {**HANDLERS, methods.RESUME: resume_v2}
"""By method, in version 2."""


_FOR_OBSERVERS = (
    (methods.LIFECYCLE - methods.INFO_METHODS - methods.REWINDS)
    | methods.HOST_METHODS
    | {methods.STATUS}
)
"""The methods that a client may use for a session which it only observes."""


def start_flow(conn: ConnectionState, request: ClientRequest) -> Flow | None:
    """Return the flow that answers a request; None if it is simply forwarded to the agent."""
    method, session_id = request.method, request.session_id
    client = request.client
    is_v2_client = client.protocol > 1
    is_terminals = method.startswith("terminal/") and conn.translates_for(client)
    if is_v2_client and (methods.is_gone_in_v2(method) or is_terminals):
        return refuse(conn, request)
    live = None if method in _FOR_OBSERVERS else conn.opened_by(client, session_id)
    if live is not None and live.clients[client.peer].is_observer:
        return refuse_observer(conn, request)
    # Only the agent knows which requests it accepts for a sub-agent.
    is_subagent = conn.subagents.get(session_id) is not None
    handler = (HANDLERS_V2 if is_v2_client else HANDLERS).get(method)
    if method == methods.PROMPT and session_id is not None:
        handler = prompt
    if conn.settings.agents and is_agent_choice(request):
        handler = switch_agent
    if handler is not None and not is_subagent:
        return handler(conn, request)
    is_ready = conn.agent.is_usable and (live is None or not live.memory.is_missing)
    must_be_open = method in methods.SETS_CONFIG and session_id is not None and not is_subagent
    if is_ready and (live is not None or not must_be_open):
        return None
    if session_id and (live is not None or must_be_open):
        return forward_to_session(conn, request)
    return forward(conn, request)
