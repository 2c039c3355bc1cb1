"""Making the agent remember a session: the ladder.

By its own means, if it has them: `session/resume`, else `session/load` with its replay
swallowed. Else, or when that fails, a new session and the record handed over with the next
prompt. What an agent advertises proves little, so each step is judged by what happens: an
error leads to the next one, an answer that names another session too, and so does a load
after which too little was told. (If nothing was said yet, there is nothing to lose by that.)
"""

from enum import StrEnum
from typing import Any

from rekindle.acp import methods
from rekindle.acp.jsonrpc import AUTH_REQUIRED, INTERNAL_ERROR
from rekindle.acp.translate.config import config_id, mode_option, modes_to_v1
from rekindle.jsonvalue import as_array, as_object, as_str
from rekindle.model import UNKNOWN_TO_AGENT, AgentIdentity, Session
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import AgentReply, CallAgent, LoadTranscript, Pause, Refusal, SubFlow
from rekindle.proxy.live_session import LiveSession, ReplayStats, UpdatePolicy
from rekindle.proxy.translation import setup_for_agent
from rekindle.proxy.validation import refusal_of
from rekindle.transcript.handover import reminder_text
from rekindle.transcript.reducer import Transcript

PATIENCE_US = 60_000_000
_LOOK_AGAIN_US = 100_000
_LOOKS_WITHOUT_NEWS = 10
_LOOKS_AFTER_LATE = 5
_MOST_LOOKS = 100


class Restored(StrEnum):
    """How a session came back."""

    LIVE = "live"
    NATIVE = "native"
    HANDOVER = "handover"


def restore(conn: ConnectionState, session: Session, setup: dict[str, Any]) -> SubFlow:
    """Restore `session`; return how, the agent's answer, and the transcript. Raises Refusal."""
    generation = conn.agent.generation
    live = conn.sessions.bind(session.id, UNKNOWN_TO_AGENT)
    live.setup = setup
    live.title, live.keeps_title = session.title, has_title_of_its_own(session)
    live.hearing, live.is_restoring, live.is_closed = UpdatePolicy.DISCARD, True, False
    live.needs_restore = True
    try:
        answer = yield from _natively(conn, session, live)
        if answer is not None:
            how = Restored.NATIVE
        else:
            answer = yield from _anew(conn, session, live)
            how = Restored.HANDOVER
        # An agent that comes back begins as it always does: perhaps with more rights than it had.
        transcript: Transcript = yield LoadTranscript(session.id)
        answer = yield from _as_it_was_set(live.agent_id, answer, transcript)
        if conn.agent.generation != generation:
            raise Refusal(INTERNAL_ERROR, "the agent ended while it was to restore the session")
        live.keeps_title = live.keeps_title or how is Restored.HANDOVER
        live.needs_handover = how is Restored.HANDOVER and session.turns > 0
        is_known = _is_whole(live.told, session.turns)
        live.reminder = "" if is_known else what_it_may_lack(conn, how, transcript)
        live.is_reminding = False
        live.needs_restore = live.is_outdated = False
        live.taken_ids, live.suffix = transcript.retired_ids, transcript.suffix
        return how, answer, transcript
    finally:
        live.is_restoring = False


def what_it_may_lack(conn: ConnectionState, how: Restored, transcript: Transcript) -> str:
    """Return what is to be told to an agent that came back by its own means.

    It may have saved nothing of a turn that did not end, and only a history that it tells proves
    that it has: to be told twice does less harm than not to know what was asked.
    """
    may_tell = how is Restored.NATIVE and conn.settings.may_hand_over
    return reminder_text(transcript, conn.settings.handover_budget) if may_tell else ""


def has_title_of_its_own(session: Session) -> bool:
    """Tell whether an agent's title may not replace the session's.

    One that was told the record would name the session after that.
    """
    is_borrowed = session.agent_session_id != session.id and session.title is not None
    return session.title_source == "user" or is_borrowed


def settle(live: LiveSession, turns: int) -> SubFlow:
    """Wait for a history that is told late; return whether enough of it was told."""
    told, quiet, is_late = live.told.lines, 0, False
    for _ in range(_MOST_LOOKS):
        # What comes late may come in bursts: it is over when there was quiet for a while.
        is_told = _is_whole(live.told, turns) and (quiet == _LOOKS_AFTER_LATE or not is_late)
        if is_told or quiet == _LOOKS_WITHOUT_NEWS:
            break
        yield Pause(_LOOK_AGAIN_US)
        is_news = live.told.lines != told
        is_late = is_late or is_news
        quiet = 0 if is_news else quiet + 1
        told = live.told.lines
    # A greeting or a warning is no memory: the user's own words must be in it.
    told = live.told
    return told.user_messages > 0 and (told.has_answers or told.user_messages >= turns > 0)


def can_restore_natively(conn: ConnectionState, session: Session) -> bool:
    """Tell whether the agent may have that session, and the means to bring it back."""
    own = conn.agent.own
    has_means = own.offers(methods.RESUME) or own.offers(methods.LOAD)
    return has_means and session.agent_session_id != UNKNOWN_TO_AGENT and is_its_own(conn, session)


def is_its_own(conn: ConnectionState, session: Session) -> bool:
    """Tell whether a session is one of those that the agent has, or may have."""
    agent = conn.agent.identity
    return is_same_agent(agent, session.agent) or _is_of_tool(agent, session)


def _is_of_tool(agent: AgentIdentity, session: Session) -> bool:
    """Tell whether an agent may be that of the tool which a session was imported from.

    Tools do not say what their agents are called; but each has the tool's name in its own. If one
    does not have the session after all, it is told the record as any other.
    """
    tool = session.origin.tool if session.origin is not None else None
    called = agent.name or agent.program or ""
    return tool is not None and session.agent.name == tool and tool in called.lower()


def is_same_agent(one: AgentIdentity, other: AgentIdentity) -> bool:
    """Tell whether two are one agent, by what they call themselves, else by their program."""
    if one.name is not None and other.name is not None:
        return one.name == other.name
    return one.program == other.program


def _natively(conn: ConnectionState, session: Session, live: LiveSession) -> SubFlow:
    agent_id = session.agent_session_id
    is_there = can_restore_natively(conn, session) and not live.is_outdated
    if not is_there or not conn.sessions.is_free(agent_id, session.id):
        return None
    conn.sessions.bind(session.id, agent_id)
    for method in (methods.RESUME, methods.LOAD):
        if not conn.agent.own.offers(method):
            continue
        live.told = ReplayStats()
        told = setup_for_agent(conn, method, live.setup)
        reply: AgentReply = yield CallAgent(method, {"sessionId": agent_id, **told}, PATIENCE_US)
        pass_on_what_only_the_user_can_solve(reply)
        if not reply.is_success or names_another(reply, agent_id):
            continue
        if method == methods.LOAD:
            remembers: bool = yield from settle(live, session.turns)
            if not remembers:
                continue
        return as_object(reply.result)
    # What it still tells under this id is history that we have.
    conn.sessions.abandon(agent_id)
    return None


def _anew(conn: ConnectionState, session: Session, live: LiveSession) -> SubFlow:
    if session.turns > 0 and not conn.settings.may_hand_over:
        raise no_handover(session.id)
    with conn.naming():
        agent_id, answer = yield from begin(conn, live.setup)
        conn.sessions.bind(session.id, agent_id)
    return answer


def begin(conn: ConnectionState, setup: dict[str, Any]) -> SubFlow:
    """Have the agent make a session; return its id, and the answer. Raises Refusal."""
    told = setup_for_agent(conn, methods.NEW, setup)
    reply: AgentReply = yield CallAgent(methods.NEW, told, PATIENCE_US)
    answer = as_object(reply.result)
    agent_id = as_str(answer.get("sessionId"))
    if not reply.is_success or agent_id is None:
        raise refusal_of(reply, "begin a session")
    return agent_id, answer


def no_handover(session_id: str) -> Refusal:
    """Return the refusal of a session that the agent would have to be told of."""
    return Refusal(
        INTERNAL_ERROR,
        "the agent does not remember this session, and --no-handover forbids to tell it",
        {"sessionId": session_id},
    )


def _as_it_was_set(agent_id: str, answer: dict[str, Any], transcript: Transcript) -> SubFlow:
    """Set the mode and the options to what they were; return the answer as it is then."""
    modes = as_object(answer.get("modes"))
    mode = as_object(transcript.state.get("current_mode_update")).get("currentModeId")
    offered = [as_object(it).get("id") for it in as_array(modes.get("availableModes"))]
    if mode in offered and mode != modes.get("currentModeId"):
        reply: AgentReply = yield CallAgent(
            methods.SET_MODE, {"sessionId": agent_id, "modeId": mode}
        )
        if reply.is_success:
            answer = {**answer, "modes": {**modes, "currentModeId": mode}}
    wanted = map(
        as_object,
        as_array(as_object(transcript.state.get("config_option_update")).get("configOptions")),
    )
    values = {config_id(option): option.get("currentValue") for option in wanted}
    modes_now = modes_to_v1(answer.get("configOptions"))
    if modes_now is not None and mode in [it["id"] for it in modes_now["availableModes"]]:
        # It may have been chosen when the session had modes, and no option for them.
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


def _is_whole(told: ReplayStats, turns: int) -> bool:
    return told.has_answers and told.user_messages >= max(turns, 1)


def names_another(reply: AgentReply, asked: str) -> bool:
    """Tell whether the agent speaks of another session than it was asked for."""
    named = as_object(reply.result).get("sessionId")
    return named is not None and named != asked


def pass_on_what_only_the_user_can_solve(reply: AgentReply) -> None:
    """Raise Refusal if the agent wants the user to sign in."""
    if as_object(reply.error).get("code") == AUTH_REQUIRED:
        raise refusal_of(reply, "restore the session")
