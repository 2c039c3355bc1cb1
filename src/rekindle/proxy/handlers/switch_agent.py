"""`session/set_config_option` for the option that chooses the agent.

All sessions of a connection have one agent process, so the switch is refused while another session
is open. The old process is ended. The next request that needs an agent starts the new one, which
then receives the history with the next prompt, like any agent that does not know a session.
"""

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST
from rekindle.acp.translate.config import options_to_v1
from rekindle.proxy.agent_choice import find_choice, setting_in
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    ClientRequest,
    Flow,
    LoadTranscript,
    Refusal,
    ReportToUser,
    SwitchAgent,
)
from rekindle.proxy.handlers.prompt import open_session
from rekindle.proxy.validation import invalid
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_state import current_options


def switch_agent(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Replace the agent; respond with the options of the session."""
    live = open_session(conn, str(request.session_id))
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
        yield ReportToUser(f"the agent {choice.name} continues the session with the next prompt")
    transcript: Transcript = yield LoadTranscript(live.id)
    if conn.client.protocol > 1:
        return {"configOptions": current_options(transcript)}
    options = transcript.config_options
    shown = options_to_v1(options, with_booleans=conn.client.takes_booleans)
    return {"configOptions": shown}


def _check_can_switch(conn: ConnectionState, session_id: str) -> None:
    """Raise Refusal if the switch would disturb a turn or another session, or is forbidden."""
    others = [it for it in conn.sessions.besides(session_id) if conn.sessions.get_open(it)]
    if conn.has_turn(session_id):
        problem = "a turn is running; cancel it, or wait for its end"
    elif others:
        problem = f"other sessions use the agent; close them first: {', '.join(others)}"
    elif not conn.settings.may_hand_over:
        problem = "the new agent needs the history, and --no-handover forbids to send it"
    else:
        return
    raise Refusal(INVALID_REQUEST, f"cannot switch the agent: {problem}", {"sessionId": session_id})
