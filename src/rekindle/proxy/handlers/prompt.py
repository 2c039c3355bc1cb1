"""What a request that uses a session needs first: an agent, and one that remembers."""

from typing import Any

from rekindle.acp import methods
from rekindle.acp.jsonrpc import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    Envelope,
    error_response,
    read_envelope,
    update_line,
)
from rekindle.acp.translate.config import mode_option
from rekindle.jsonvalue import as_array, as_object, as_str, decode_object, encode
from rekindle.model import Kind, Opened, Session, Side
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    Flow,
    ForwardToAgent,
    GetSession,
    LoadTranscript,
    RecordChanges,
    RecordUndelivered,
    Refusal,
    SendToClient,
    SubFlow,
)
from rekindle.proxy.handlers.agent_start import awake
from rekindle.proxy.handlers.lease import claim
from rekindle.proxy.handlers.restore import restore
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.opening_entries import entry
from rekindle.proxy.translation import to_v2, update_for_client
from rekindle.proxy.validation import deleted_session, invalid, unknown_session
from rekindle.transcript.handover import as_block, handover_text
from rekindle.transcript.reducer import Transcript, suffix_of
from rekindle.transcript.replay_v1 import handover_notice
from rekindle.transcript.titles import title_from_prompt


def prompt(conn: ConnectionState, session_id: str, params: dict[str, Any], line: bytes) -> Flow:
    """Let a prompt go to an agent that remembers, or that is told now."""
    live = _open(conn, session_id)
    yield from claim(conn, session_id)
    session = yield from _with_an_agent(conn, live, line)
    # Not sooner: an agent that was started again may speak another version than before.
    is_ours_to_answer = conn.client_protocol > 1 and conn.is_translating
    if is_ours_to_answer:
        _check_blocks(params.get("prompt"))
    preface: dict[str, Any] | None = None
    is_handover = live.needs_handover
    if is_handover:
        transcript: Transcript = yield LoadTranscript(session_id)
        words = handover_text(transcript, conn.settings.handover_budget)
        preface = as_block(words)
        live.taken_ids, live.suffix = transcript.ids, suffix_of(conn.at_us)
        # On record before it is sent: if all is killed now, this is where the record was told.
        yield RecordChanges([_bound(conn, live)])
    elif live.reminder and not live.is_reminding and not _is_command(params):
        preface = as_block(live.reminder)
        live.is_reminding = True
    live.prompted = as_array(params.get("prompt"))
    live.awaiting += conn.agent.own.protocol > 1
    answer: dict[str, Any] | None = None
    if is_ours_to_answer:
        answer = yield from _inserted(conn, live, line, preface)
    else:
        yield ForwardToAgent(line, preface)
    live.needs_handover, live.is_handing_over = False, is_handover
    if is_handover:
        notice = update_line(session_id, handover_notice(conn.at_us))
        if conn.client_protocol > 1 and conn.agent.own.protocol > 1:
            live.notice = notice
        else:
            yield SendToClient([notice])
    _retitle(live, session, as_array(params.get("prompt")))
    return answer


def _with_an_agent(conn: ConnectionState, live: LiveSession, line: bytes) -> SubFlow:
    """Return the session as it is recorded, once there is an agent that remembers it."""
    try:
        yield from awake(conn)
        return (yield from _remembered(conn, live))
    except Refusal as refusal:
        if "agentEnded" in as_object(refusal.data):
            # As if it had died a moment later: what was asked is not to be lost.
            request_id = (read_envelope(line) or Envelope()).id or None
            answer = error_response(request_id, refusal.code, refusal.message, refusal.data)
            yield RecordUndelivered(live.id, line, answer)
        raise


def _is_command(params: dict[str, Any]) -> bool:
    """Tell whether a prompt is a slash command: agents know it by how it begins."""
    first = next(iter(as_array(params.get("prompt"))), None)
    return (as_str(as_object(first).get("text")) or "").startswith("/")


def _check_blocks(blocks: object) -> None:
    """Raise Refusal unless it can be a prompt: once it is taken, no agent can refuse it."""
    parts = as_array(blocks)
    is_array = parts or blocks == []
    if not is_array or not all(as_str(as_object(part).get("type")) for part in parts):
        raise invalid(methods.PROMPT, "prompt", blocks, "must be an array of content blocks")


def _inserted(
    conn: ConnectionState, live: LiveSession, line: bytes, preface: dict[str, Any] | None
) -> SubFlow:
    """Let a version 1 agent have a prompt, and tell a version 2 client that it has it."""
    message_id = to_v2(conn, live).begin_turn()
    answer = {"messageId": message_id}
    yield ForwardToAgent(line, preface, is_ours=True)
    named = encode({"jsonrpc": "2.0", "result": answer})
    yield RecordChanges([entry(conn, live.id, Side.AGENT, Kind.ANSWER, named, protocol=2)])
    blocks = as_array(as_object((decode_object(line) or {}).get("params")).get("prompt"))
    said = {"sessionUpdate": "user_message", "messageId": message_id, "content": blocks}
    running = {"sessionUpdate": "state_update", "state": "running"}
    yield SendToClient([update_line(live.id, update) for update in (said, running)])
    return answer


def _bound(conn: ConnectionState, live: LiveSession) -> Opened:
    """Return what says that the agent knows the session from now on: it is being told."""
    agent = conn.agent.identity
    return Opened(session_id=live.id, at_us=conn.at_us, agent_session_id=live.agent_id, agent=agent)


def use(conn: ConnectionState, session_id: str, line: bytes) -> Flow:
    """Let any other request go to an agent that knows the session."""
    live = _open(conn, session_id)
    yield from awake(conn)
    yield from _remembered(conn, live)
    yield ForwardToAgent(line)
    return None


def refuse(method: str) -> Flow:
    """Refuse a method that the client's version does not have."""
    raise Refusal(METHOD_NOT_FOUND, f"there is no method {method} here", {"method": method})
    yield  # a flow is a generator


def forward(conn: ConnectionState, line: bytes) -> Flow:
    """Let a request that has to do with no session go to an agent."""
    yield from awake(conn)
    yield ForwardToAgent(line)
    return None


def _open(conn: ConnectionState, session_id: str) -> LiveSession:
    live = conn.sessions.open(session_id)
    if live is None:
        raise unknown_session(session_id, "it is not open here; load or resume it first")
    return live


def _remembered(conn: ConnectionState, live: LiveSession) -> SubFlow:
    """Return the session as it is recorded, once the agent remembers it."""
    try:
        session: Session | None = yield GetSession(live.id)
    except Refusal:
        # Without the store a session can go on, but not come back.
        if live.needs_restore:
            raise
        return None
    if session is not None and session.deleted_us is not None:
        conn.sessions.drop(live.id)
        raise deleted_session(live.id)
    if live.needs_restore:
        if session is None:
            raise unknown_session(live.id)
        _, answer, transcript = yield from restore(conn, session, live.setup)
        yield from _tell_what_changed(conn, live, answer, transcript)
    return session


def _tell_what_changed(
    conn: ConnectionState, live: LiveSession, answer: dict[str, Any], transcript: Transcript
) -> SubFlow:
    """Tell the client what an agent that came back did not let itself be set to.

    Raises Refusal if it is in another mode: the user may have chosen one with fewer rights.
    """
    was = as_object(transcript.state.get("current_mode_update")).get("currentModeId")
    option = mode_option(answer.get("configOptions"))
    mode = as_object(answer.get("modes")).get("currentModeId") or as_object(option).get(
        "currentValue"
    )
    is_in_another_mode = was is not None and mode is not None and mode != was
    updates: list[dict[str, Any]] = []
    if is_in_another_mode and "modes" in answer:
        updates.append({"sessionUpdate": "current_mode_update", "currentModeId": mode})
    had = as_object(transcript.state.get("config_option_update")).get("configOptions")
    options = answer.get("configOptions")
    if isinstance(options, list) and options != had:
        updates.append({"sessionUpdate": "config_option_update", "configOptions": options})
    shown = updates
    if conn.is_translating:
        shown = [it for update in updates for it in update_for_client(conn, live, update).updates]
    lines = [update_line(live.id, update) for update in updates]
    yield RecordChanges([entry(conn, live.id, Side.AGENT, Kind.UPDATE, line) for line in lines])
    yield SendToClient([update_line(live.id, update) for update in shown])
    if is_in_another_mode:
        raise Refusal(
            INTERNAL_ERROR,
            f"the agent had to be started again, and is in mode {mode} instead of {was}: choose "
            "a mode, or send the prompt again to go on like this",
            {"sessionId": live.id, "modeId": mode},
        )


def _retitle(live: LiveSession, session: Session | None, blocks: list[Any]) -> None:
    """Note a title that the client does not know: made of this prompt, or given elsewhere."""
    if session is None:
        return
    title = session.title if session.title is not None else title_from_prompt(blocks)
    live.keeps_title = live.keeps_title or session.title_source == "user"
    live.new_title = title if title != live.title else None
