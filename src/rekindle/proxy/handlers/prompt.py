"""`session/prompt`: make sure that an agent knows the session, then forward the prompt."""

from contextlib import suppress
from typing import Any

from rekindle.acp import methods
from rekindle.acp.jsonrpc import (
    INTERNAL_ERROR,
    Envelope,
    error_response,
    read_envelope,
    update_line,
)
from rekindle.acp.translate.config import mode_option
from rekindle.jsonvalue import Json, as_array, as_object, as_str, encode
from rekindle.model import UNKNOWN_TO_AGENT, Kind, LeaseHolder, Opened, Session
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    Broadcast,
    ClientRequest,
    Flow,
    ForwardToAgent,
    GetLeaseHolder,
    GetSession,
    LoadTranscript,
    RecordChanges,
    RecordUndelivered,
    Refusal,
    SendToClient,
    SendToSession,
    SubFlow,
)
from rekindle.proxy.handlers.agent_start import ensure_agent
from rekindle.proxy.handlers.restore import RestoreResult, acquire_lease, restore
from rekindle.proxy.journal import agent_entry, opened_change
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.outbox import RUNNING
from rekindle.proxy.peers import NO_CLIENT, ClientConnection
from rekindle.proxy.session_clients import SuffixedIds, Translators
from rekindle.proxy.translation import translator_to_v2
from rekindle.proxy.validation import LeasedElsewhere, deleted_session, invalid, unknown_session
from rekindle.transcript.handover import as_block, handover_text
from rekindle.transcript.model import handover_notice
from rekindle.transcript.reducer import Transcript, suffix_of
from rekindle.transcript.titles import title_from_prompt


def prompt(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Forward a prompt to an agent that knows the session, or that receives the history with it."""
    session_id, line, client = str(request.session_id), request.line, request.client
    try:
        live = open_session(conn, client, session_id)
    except Refusal:
        yield from _refuse_if_taken_over(conn, session_id)
        raise
    yield from acquire_lease(conn, session_id)
    session = yield from _prepare_agent(conn, live, line)
    # Only now: a restarted agent may use another version than before.
    is_answered_here = client.protocol > 1 and conn.translates_for(client)
    if is_answered_here:
        check_blocks(methods.PROMPT, "prompt", request.params.get("prompt"))
    blocks = as_array(request.params.get("prompt"))
    is_handover = live.handover.is_history_due
    preface: Json | None = None
    if is_handover:
        preface = yield from _begin_handover(conn, live)
    elif live.handover.is_reminder_due and not _is_slash_command(blocks):
        preface = as_block(live.handover.reminder)
    is_v2_agent = conn.agent.capabilities.protocol > 1
    if not any(map(conn.translates_for, conn.audience(live))):
        # A client of the other version that comes later gets a new one, which knows the turn.
        live.translators = Translators()
    live.turn.prompt_sent(client.peer, is_acknowledged_later=is_v2_agent)
    yield ForwardToAgent(line, preface, is_answered=is_answered_here)
    result: Json | None = None
    if not is_v2_agent and (is_answered_here or len(live.clients) > 1):
        result = yield from _announce_prompt(conn, client, live, blocks)
    if is_handover:
        notice = update_line(session_id, handover_notice(conn.at_us, live.handover.reason))
        if is_v2_agent:
            # The clients show it after the prompt, which the agent has yet to echo.
            live.handover.notice, live.handover.notified = notice, NO_CLIENT
            if client.protocol == 1:
                live.handover.notified = client.peer
                yield SendToClient([notice])
        else:
            yield SendToSession(live, notice)
    _note_title(live, session, blocks)
    return result if is_answered_here else None


def _refuse_if_taken_over(conn: ConnectionState, session_id: str) -> SubFlow:
    """Raise Refusal with the name of the process that has taken a session over, if one has."""
    holder: LeaseHolder | None = None
    if conn.sessions.get_open(session_id) is None:
        with suppress(Refusal):
            holder = yield GetLeaseHolder(session_id)
    if holder is not None:
        raise LeasedElsewhere(session_id, holder, may_take_over=True)


def open_session(conn: ConnectionState, client: ClientConnection, session_id: str) -> LiveSession:
    """Return a session that a client has opened. Raises Refusal."""
    live = conn.opened_by(client, session_id)
    if live is None:
        raise unknown_session(
            session_id, "it is not open on this connection; load or resume it first"
        )
    return live


# -- the agent ----------------------------------------------------------------------------------


def _prepare_agent(conn: ConnectionState, live: LiveSession, line: bytes) -> SubFlow:
    """Return the recorded session, after an agent runs that knows it.

    A prompt that cannot be sent because the agent has exited is recorded with its error, as if
    the agent had exited a moment later. So no prompt is lost.
    """
    try:
        yield from ensure_agent(conn)
        return (yield from restore_if_missing(conn, live))
    except Refusal as refusal:
        if "agentEnded" in as_object(refusal.data):
            request_id = (read_envelope(line) or Envelope()).id or None
            answer = error_response(request_id, refusal.code, refusal.message, refusal.data)
            yield RecordUndelivered(live.id, line, answer)
        raise


def restore_if_missing(conn: ConnectionState, live: LiveSession) -> SubFlow:
    """Return the recorded session, after the agent knows it. Raises Refusal.

    Without a working store the result is None: the session can continue, but not be restored.
    """
    try:
        session: Session | None = yield GetSession(live.id)
    except Refusal:
        if live.memory.is_missing:
            raise
        return None
    if session is not None and session.deleted_us is not None:
        conn.drop(live.id)
        raise deleted_session(live.id)
    if session is None and not live.memory.is_missing:
        # Another process has forgotten it: it was unused, and its lease was lost.
        yield RecordChanges([opened_change(conn, live)])
        yield from acquire_lease(conn, live.id)
    if live.memory.is_missing:
        if session is None:
            raise unknown_session(live.id)
        restored: RestoreResult = yield from restore(conn, session, live.setup)
        is_unbound = session.agent_session_id == UNKNOWN_TO_AGENT
        if is_unbound and not live.handover.is_history_due:
            # No history is left after a rewind, so the agent knows all of it at once.
            yield RecordChanges([opened_change(conn, live)])
        yield from _send_changed_settings(conn, live, restored.answer, restored.transcript)
    return session


def _send_changed_settings(
    conn: ConnectionState, live: LiveSession, answer: Json, transcript: Transcript
) -> SubFlow:
    """Send the clients the settings that a restored agent did not accept.

    Raises Refusal if its mode has changed: the user may have chosen one with fewer rights.
    """
    before = transcript.current_mode
    option = mode_option(answer.get("configOptions"))
    mode = as_object(answer.get("modes")).get("currentModeId")
    mode = mode or as_object(option).get("currentValue")
    has_other_mode = before is not None and mode is not None and mode != before
    updates: list[Json] = []
    if has_other_mode and "modes" in answer:
        updates.append({"sessionUpdate": "current_mode_update", "currentModeId": mode})
    recorded = transcript.config_options
    options = answer.get("configOptions")
    if isinstance(options, list) and options != recorded:
        updates.append({"sessionUpdate": "config_option_update", "configOptions": options})
    lines = [update_line(live.id, update) for update in updates]
    yield RecordChanges([agent_entry(conn, live.id, Kind.UPDATE, line) for line in lines])
    for update in updates:
        yield Broadcast(live, update)
    if has_other_mode:
        raise Refusal(
            INTERNAL_ERROR,
            f"the agent was restarted and is now in mode {mode} instead of {before}: choose a "
            f"mode, or send the prompt again to continue in mode {mode}",
            {"sessionId": live.id, "modeId": mode},
        )


# -- the prompt -----------------------------------------------------------------------------------


def _begin_handover(conn: ConnectionState, live: LiveSession) -> SubFlow:
    """Return the block that carries the history.

    The binding is recorded before the prompt is sent: if everything is killed now, the record
    shows that this is where the agent received the history.
    """
    transcript: Transcript = yield LoadTranscript(live.id)
    text = handover_text(transcript, conn.settings.handover_budget)
    live.suffixed = SuffixedIds(transcript.ids, suffix_of(conn.at_us))
    bound = Opened(
        session_id=live.id,
        at_us=conn.at_us,
        agent_session_id=live.agent_id,
        agent=conn.agent.identity,
    )
    yield RecordChanges([bound])
    return as_block(text)


def _announce_prompt(
    conn: ConnectionState, client: ClientConnection, live: LiveSession, blocks: list[Any]
) -> SubFlow:
    """Send a prompt for a version 1 agent to the other clients; return the acknowledgement.

    Version 2 clients receive it too if it is their own. The record has the id of the message, so
    that a replay has the same.
    """
    if any(it.protocol > 1 for it in conn.audience(live)):
        message_id = translator_to_v2(conn, live).begin_turn()
    else:
        # Several prompts may come at one time.
        message_id = f"rekindle-{conn.at_us:x}-{live.turn.prompt_count}"
    result = {"messageId": message_id}
    answer = encode({"jsonrpc": "2.0", "result": result})
    yield RecordChanges([agent_entry(conn, live.id, Kind.ANSWER, answer, protocol=2)])
    whole = {"sessionUpdate": "user_message", "messageId": message_id, "content": blocks}
    state = {"sessionUpdate": "state_update", **RUNNING}
    for other in conn.audience(live):
        if other.protocol > 1:
            updates = [whole, state]
        elif other.peer == client.peer:
            continue
        else:
            chunk = {"sessionUpdate": "user_message_chunk", "messageId": message_id}
            info = {
                "sessionUpdate": "session_info_update",
                "_meta": {"rekindle": {"turn": RUNNING}},
            }
            updates = [*({**chunk, "content": block} for block in blocks), info]
        yield SendToClient([update_line(live.id, update) for update in updates], other.peer)
    return result


def check_blocks(method: str, name: str, blocks: object) -> None:
    """Refuse a prompt without valid blocks: after the acknowledgement no agent can refuse it."""
    parts = as_array(blocks)
    is_array = parts or blocks == []
    if not is_array or not all(as_str(as_object(part).get("type")) for part in parts):
        raise invalid(method, name, blocks, "must be an array of content blocks")


def _is_slash_command(blocks: list[Any]) -> bool:
    """Return whether a prompt is a slash command, which agents recognise by its first character."""
    first = next(iter(blocks), None)
    return (as_str(as_object(first).get("text")) or "").startswith("/")


def _note_title(live: LiveSession, session: Session | None, blocks: list[Any]) -> None:
    """Note a title that the client does not know: made from this prompt, or set elsewhere."""
    if session is not None:
        title = session.title if session.title is not None else title_from_prompt(blocks)
        live.title.prompted(title, is_users=session.title_source == "user")
