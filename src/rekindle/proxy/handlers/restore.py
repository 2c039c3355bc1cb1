"""Restore the agent's memory of a session.

The ladder: the agent's own `session/resume`; its `session/load`, with the replay discarded; a new
session of the agent and a handover of the history with the next prompt. Capabilities prove little,
so each rung is judged by its result. An error leads to the next rung, and so do a response that
names another session and a load that replays too little. A session without turns has no memory to
lose.
"""

from enum import StrEnum
from typing import Any

from rekindle.acp import methods
from rekindle.acp.jsonrpc import AUTH_REQUIRED, INTERNAL_ERROR
from rekindle.acp.translate.config import config_id, mode_option, modes_to_v1
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.model import UNKNOWN_TO_AGENT, AgentIdentity, LeaseResult, Session
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    AcquireLease,
    AgentReply,
    CallAgent,
    LoadTranscript,
    Pause,
    Refusal,
    SubFlow,
)
from rekindle.proxy.live_session import LiveSession, SuffixedIds, UpdatePolicy
from rekindle.proxy.translation import setup_for_agent
from rekindle.proxy.validation import leased_session, refusal_of
from rekindle.transcript.handover import reminder_text
from rekindle.transcript.reducer import Transcript

RESTORE_TIMEOUT_US = 60_000_000
_POLL_US = 100_000
_QUIET_POLLS = 10
_QUIET_POLLS_AFTER_LATE = 5
_MAX_POLLS = 100


class Restored(StrEnum):
    """How a session was restored. The values are on the wire as `_meta.rekindle.restored`."""

    LIVE = "live"
    NATIVE = "native"
    HANDOVER = "handover"


def restore(conn: ConnectionState, session: Session, setup: dict[str, Any]) -> SubFlow:
    """Restore a session; return how, the agent's result, and the transcript. Raises Refusal."""
    generation = conn.agent.generation
    live = conn.bind(session.id, UNKNOWN_TO_AGENT)
    live.setup, live.is_closed = setup, False
    live.title.restored(session.title, is_locked=has_locked_title(session))
    live.updates.discard_history()
    live.memory.advance("restore")
    try:
        answer = yield from _restore_natively(conn, session, live)
        how = Restored.NATIVE
        if answer is None:
            answer = yield from _begin_again(conn, session, live)
            how = Restored.HANDOVER
            live.title.lock()
        # A restored agent starts with its defaults, which may have more rights than before.
        transcript: Transcript = yield LoadTranscript(session.id)
        answer = yield from _apply_settings(live.agent_id, answer, transcript)
        _check_survived(conn, generation)
        live.memory.advance("restored")
    except BaseException:
        live.memory.advance("restore_failed")
        raise
    is_complete = live.updates.stats.covers(session.turns)
    live.handover.require(
        history=how is Restored.HANDOVER and session.turns > 0,
        reminder="" if is_complete else reminder_for(conn, how, transcript),
    )
    live.suffixed = SuffixedIds(transcript.retired_ids, transcript.suffix)
    return how, answer, transcript


def acquire_lease(
    conn: ConnectionState, session_id: str, *, may_take_over: bool = False
) -> SubFlow:
    """Acquire the lease of a session. Raises Refusal if another process holds it."""
    result: LeaseResult = yield AcquireLease(session_id, may_take_over)
    if result.holder is not None:
        is_allowed = conn.settings.may_take_over
        raise leased_session(session_id, result.holder, may_take_over=is_allowed)
    live = conn.sessions.get(session_id)
    if live is not None and result.was_held_by_another:
        # The agent here has missed the turns that the other process recorded.
        live.memory.advance("used_elsewhere")


# -- the rungs ----------------------------------------------------------------------------------


def _restore_natively(conn: ConnectionState, session: Session, live: LiveSession) -> SubFlow:
    """Return the agent's result of a native resume or load; None if neither worked."""
    agent_id = session.agent_session_id
    is_possible = can_restore_natively(conn, session) and not live.memory.is_outdated
    if not is_possible or not conn.sessions.is_free(agent_id, session.id):
        return None
    conn.bind(session.id, agent_id)
    for method in (methods.RESUME, methods.LOAD):
        if not conn.agent.capabilities.offers(method):
            continue
        live.updates.expect_replay(UpdatePolicy.DISCARD)
        params = {"sessionId": agent_id, **setup_for_agent(conn, method, live.setup)}
        reply: AgentReply = yield CallAgent(method, params, RESTORE_TIMEOUT_US)
        refuse_if_login_required(reply)
        if not reply.is_success or names_another_session(reply, agent_id):
            continue
        if method == methods.LOAD:
            is_known: bool = yield from wait_for_replay(live, session.turns)
            if not is_known:
                continue
        return as_object(reply.result)
    # Further updates under this id are a replay of history that the record has.
    conn.sessions.abandon(agent_id)
    return None


def _begin_again(conn: ConnectionState, session: Session, live: LiveSession) -> SubFlow:
    """Bind the session to a new one of the agent; return the agent's result. Raises Refusal."""
    if session.turns > 0 and not conn.settings.may_hand_over:
        raise handover_forbidden(session.id)
    with conn.naming_session():
        agent_id, answer = yield from create_agent_session(conn, live.setup)
        conn.bind(session.id, agent_id)
    return answer


def create_agent_session(conn: ConnectionState, setup: dict[str, Any]) -> SubFlow:
    """Have the agent create a session; return its id and the result. Raises Refusal."""
    params = setup_for_agent(conn, methods.NEW, setup)
    reply: AgentReply = yield CallAgent(methods.NEW, params, RESTORE_TIMEOUT_US)
    answer = as_object(reply.result)
    agent_id = as_str(answer.get("sessionId"))
    if not reply.is_success or agent_id is None:
        raise refusal_of(reply, "begin a session")
    return agent_id, answer


def wait_for_replay(live: LiveSession, turns: int) -> SubFlow:
    """Wait for a replay that comes late; return whether the agent replayed enough of it.

    A late replay may come in bursts. It is over when no update came for some polls.
    """
    stats = live.updates.stats
    lines, quiet, is_late = stats.lines, 0, False
    for _ in range(_MAX_POLLS):
        is_settled = quiet == _QUIET_POLLS_AFTER_LATE or not is_late
        if (stats.covers(turns) and is_settled) or quiet == _QUIET_POLLS:
            break
        yield Pause(_POLL_US)
        has_new = stats.lines != lines
        is_late = is_late or has_new
        quiet = 0 if has_new else quiet + 1
        lines = stats.lines
    # A greeting or a warning is no memory. The user's own prompts must be in the replay.
    has_prompts = stats.user_messages >= turns > 0
    return stats.user_messages > 0 and (stats.has_answers or has_prompts)


def _apply_settings(agent_id: str, answer: dict[str, Any], transcript: Transcript) -> SubFlow:
    """Set the mode and options that the user had set; return the agent's result with them."""
    modes = as_object(answer.get("modes"))
    mode = transcript.current_mode
    offered = [as_object(it).get("id") for it in as_array(modes.get("availableModes"))]
    if mode in offered and mode != modes.get("currentModeId"):
        params = {"sessionId": agent_id, "modeId": mode}
        reply: AgentReply = yield CallAgent(methods.SET_MODE, params)
        if reply.is_success:
            answer = {**answer, "modes": {**modes, "currentModeId": mode}}
    recorded = transcript.config_options
    values = {
        config_id(option): option.get("currentValue")
        for option in map(as_object, as_array(recorded))
    }
    modes_now = modes_to_v1(answer.get("configOptions"))
    if modes_now is not None and mode in [it["id"] for it in modes_now["availableModes"]]:
        # The user may have chosen it when the session had modes and no option for them.
        values[config_id(as_object(mode_option(answer.get("configOptions"))))] = mode
    for option in map(as_object, as_array(answer.get("configOptions"))):
        name = config_id(option)
        value = values.get(name)
        if value is not None and value != option.get("currentValue"):
            params = {"sessionId": agent_id, "configId": name, "value": value}
            if isinstance(value, bool):
                params["type"] = "boolean"
            elif "configId" in option:
                params["type"] = "id"
            reply = yield CallAgent(methods.SET_CONFIG_OPTION, params)
            options = as_object(reply.result).get("configOptions")
            if isinstance(options, list):
                answer = {**answer, "configOptions": options}
    return answer


def _check_survived(conn: ConnectionState, generation: int) -> None:
    """Refuse a restore by an agent that exited meanwhile."""
    if conn.agent.generation != generation:
        raise Refusal(INTERNAL_ERROR, "the agent ended while it was to restore the session")


# -- judgements -----------------------------------------------------------------------------------


def can_restore_natively(conn: ConnectionState, session: Session) -> bool:
    """Return whether the agent may have the session, and the means to restore it."""
    capabilities = conn.agent.capabilities
    has_means = capabilities.offers(methods.RESUME) or capabilities.offers(methods.LOAD)
    is_bound = session.agent_session_id != UNKNOWN_TO_AGENT
    return has_means and is_bound and belongs_to_agent(conn, session)


def belongs_to_agent(conn: ConnectionState, session: Session) -> bool:
    """Return whether the agent has a session, or may have it."""
    agent = conn.agent.identity
    return is_same_agent(agent, session.agent) or _is_agent_of_tool(agent, session)


def _is_agent_of_tool(agent: AgentIdentity, session: Session) -> bool:
    """Return whether an agent may be that of the tool from which a session was imported.

    The files of a tool do not name its agent, but the agent's name contains the tool's name. If
    the agent does not have the session after all, it receives a handover like any other.
    """
    tool = session.origin.tool if session.origin is not None else None
    name = agent.name or agent.program or ""
    return tool is not None and session.agent.name == tool and tool in name.lower()


def is_same_agent(one: AgentIdentity, other: AgentIdentity) -> bool:
    """Return whether two identities are one agent: by their names, otherwise by their programs."""
    if one.name is not None and other.name is not None:
        return one.name == other.name
    return one.program == other.program


def names_another_session(reply: AgentReply, asked: str) -> bool:
    """Return whether the agent's response names another session than the request."""
    named = as_object(reply.result).get("sessionId")
    return named is not None and named != asked


def has_locked_title(session: Session) -> bool:
    """Return whether the agent's title must not replace the stored one.

    An agent that received a handover would name the session after that.
    """
    is_borrowed = session.agent_session_id != session.id and session.title is not None
    return session.title_source == "user" or is_borrowed


def reminder_for(conn: ConnectionState, how: Restored, transcript: Transcript) -> str:
    """Return the reminder for an agent that was restored natively.

    The agent may have saved nothing of an interrupted turn, and only a complete replay proves that
    it did. To receive the turn twice does less harm than not to know it.
    """
    is_allowed = how is Restored.NATIVE and conn.settings.may_hand_over
    return reminder_text(transcript, conn.settings.handover_budget) if is_allowed else ""


# -- refusals -------------------------------------------------------------------------------------


def handover_forbidden(session_id: str) -> Refusal:
    """Return the refusal of a session that would need a handover, which the user forbids."""
    return Refusal(
        INTERNAL_ERROR,
        "the agent does not remember this session, and --no-handover forbids to tell it",
        {"sessionId": session_id},
    )


def refuse_if_login_required(reply: AgentReply) -> None:
    """Forward the agent's demand to sign in: only the user can meet it. Raises Refusal."""
    if as_object(reply.error).get("code") == AUTH_REQUIRED:
        raise refusal_of(reply, "restore the session")
