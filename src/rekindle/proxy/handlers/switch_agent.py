"""`session/set_config_option` for the option that chooses the agent.

All sessions of a connection have one agent process, so the switch concerns all of them, and it is
refused while a turn runs in any of them. The old process is ended. The next request that needs an
agent starts the new one, which then receives the history of each session with its next prompt, like
any agent that does not know a session. The client learns the new value of the option in every open
session.
"""

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, update_line
from rekindle.acp.translate.config import options_to_v1
from rekindle.jsonvalue import Json
from rekindle.proxy.agent_choice import find_choice, setting_in
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    ClientRequest,
    Flow,
    LoadTranscript,
    Refusal,
    ReportToUser,
    SendToClient,
    SubFlow,
    SwitchAgent,
)
from rekindle.proxy.handlers.prompt import open_session
from rekindle.proxy.peers import ClientConnection
from rekindle.proxy.validation import invalid
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_state import current_options


def switch_agent(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Replace the agent; respond with the options of the session."""
    live = open_session(conn, request.client, str(request.session_id))
    name = setting_in(request.line).get("value")
    choice = find_choice(conn, name)
    if choice is None:
        known = ", ".join(it.name for it in conn.settings.agents)
        raise invalid(methods.SET_CONFIG_OPTION, "value", name, f"must be one of {known}")
    if choice.name != conn.agent.chosen:
        _check_can_switch(conn, live.id)
        reason: str | None = yield SwitchAgent(choice.command)
        if reason is not None:
            raise Refusal(INTERNAL_ERROR, f"cannot switch to {choice.name}: {reason}")
        conn.agent.switch(choice)
        others = [it for it in conn.sessions.besides(live.id) if conn.sessions.get_open(it)]
        more = f"; it also continues {', '.join(others)}" if others else ""
        yield ReportToUser(
            f"the agent {choice.name} continues the session with the next prompt{more}"
        )
        for other in others:
            yield from _announce(conn, other)
        yield from _announce(conn, live.id, but=request.client)
    return (yield from _options(request.client, live.id))


def _announce(
    conn: ConnectionState, session_id: str, but: ClientConnection | None = None
) -> SubFlow:
    """Send the options of a session to its clients, except to the client that has them already."""
    for peer in conn.sessions.clients_of(session_id):
        client = conn.clients[peer]
        if client is not but:
            options: Json = yield from _options(client, session_id)
            update = {"sessionUpdate": "config_option_update", **options}
            yield SendToClient([update_line(session_id, update)], peer)


def _options(client: ClientConnection, session_id: str) -> SubFlow:
    """Return the options of a session. The one of the agent is added on the way to the client."""
    transcript: Transcript = yield LoadTranscript(session_id)
    if client.protocol > 1:
        return {"configOptions": current_options(transcript)}
    options = transcript.config_options
    shown = options_to_v1(options, with_booleans=client.takes_booleans)
    return {"configOptions": shown}


def _check_can_switch(conn: ConnectionState, session_id: str) -> None:
    """Raise Refusal if the switch would disturb a turn of any session, or is forbidden."""
    others = conn.sessions.besides(session_id)
    busy = [it for it in others if conn.has_turn(it) or conn.sessions.is_in_transition(it)]
    if conn.has_turn(session_id):
        problem = "a turn is running; cancel it, or wait for its end"
    elif busy:
        problem = f"it works in other sessions; wait for the end of that: {', '.join(busy)}"
    elif not conn.settings.may_hand_over:
        problem = "the new agent needs the history, and --no-handover forbids to send it"
    else:
        return
    raise Refusal(INVALID_REQUEST, f"cannot switch the agent: {problem}", {"sessionId": session_id})
