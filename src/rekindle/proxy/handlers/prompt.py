"""What a request that uses a session needs first: an agent, and one that remembers."""

from typing import Any

from rekindle.acp import methods
from rekindle.acp.jsonrpc import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    Message,
    encode,
    error_response,
    members,
    peek,
    rows,
    table,
    text,
)
from rekindle.acp.translate.config import mode_option
from rekindle.model import Kind, Opened, Session, Side
from rekindle.proxy.connection_state import Connection
from rekindle.proxy.flow import Deliver, Find, Flow, Part, Recall, Refusal, Tell, Unheard, Write
from rekindle.proxy.handlers.agent_start import awake
from rekindle.proxy.handlers.lease import claim
from rekindle.proxy.handlers.restore import restore
from rekindle.proxy.live_session import Live
from rekindle.proxy.opening_entries import entry
from rekindle.proxy.translation import to_v2, update_for_client
from rekindle.proxy.validation import deleted_session, invalid, unknown_session
from rekindle.transcript.handover import as_block, compose
from rekindle.transcript.reducer import Transcript, suffix_of
from rekindle.transcript.replay_v1 import as_line, handover_notice
from rekindle.transcript.titles import title_from_prompt


def prompt(conn: Connection, session_id: str, params: dict[str, Any], line: bytes) -> Flow:
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
        transcript: Transcript = yield Recall(session_id)
        words = compose(transcript, conn.settings.handover_budget)
        preface = as_block(words)
        live.taken_ids, live.suffix = transcript.ids, suffix_of(conn.at_us)
        # On record before it is sent: if all is killed now, this is where the record was told.
        yield Write([_bound(conn, live)])
    elif live.reminder and not live.is_reminding and not _is_command(params):
        preface = as_block(live.reminder)
        live.is_reminding = True
    live.prompted = rows(params.get("prompt"))
    live.awaiting += conn.agent.own.protocol > 1
    answer: dict[str, Any] | None = None
    if is_ours_to_answer:
        answer = yield from _inserted(conn, live, line, preface)
    else:
        yield Deliver(line, preface)
    live.needs_handover, live.is_handing_over = False, is_handover
    if is_handover:
        notice = as_line(session_id, handover_notice(conn.at_us))
        if conn.client_protocol > 1 and conn.agent.own.protocol > 1:
            live.notice = notice
        else:
            yield Tell([notice])
    _retitle(live, session, rows(params.get("prompt")))
    return answer


def _with_an_agent(conn: Connection, live: Live, line: bytes) -> Part:
    """Return the session as it is recorded, once there is an agent that remembers it."""
    try:
        yield from awake(conn)
        return (yield from _remembered(conn, live))
    except Refusal as refusal:
        if "agentEnded" in table(refusal.data):
            # As if it had died a moment later: what was asked is not to be lost.
            request_id = (peek(line) or Message()).id or None
            answer = error_response(request_id, refusal.code, refusal.message, refusal.data)
            yield Unheard(live.id, line, answer)
        raise


def _is_command(params: dict[str, Any]) -> bool:
    """Tell whether a prompt is a slash command: agents know it by how it begins."""
    first = next(iter(rows(params.get("prompt"))), None)
    return (text(table(first).get("text")) or "").startswith("/")


def _check_blocks(blocks: object) -> None:
    """Raise Refusal unless it can be a prompt: once it is taken, no agent can refuse it."""
    parts = rows(blocks)
    is_array = parts or blocks == []
    if not is_array or not all(text(table(part).get("type")) for part in parts):
        raise invalid(methods.PROMPT, "prompt", blocks, "must be an array of content blocks")


def _inserted(conn: Connection, live: Live, line: bytes, preface: dict[str, Any] | None) -> Part:
    """Let a version 1 agent have a prompt, and tell a version 2 client that it has it."""
    message_id = to_v2(conn, live).begin_turn()
    answer = {"messageId": message_id}
    yield Deliver(line, preface, is_ours=True)
    named = encode({"jsonrpc": "2.0", "result": answer})
    yield Write([entry(conn, live.id, Side.AGENT, Kind.ANSWER, named, protocol=2)])
    blocks = rows(table((members(line) or {}).get("params")).get("prompt"))
    said = {"sessionUpdate": "user_message", "messageId": message_id, "content": blocks}
    running = {"sessionUpdate": "state_update", "state": "running"}
    yield Tell([as_line(live.id, update) for update in (said, running)])
    return answer


def _bound(conn: Connection, live: Live) -> Opened:
    """Return what says that the agent knows the session from now on: it is being told."""
    agent = conn.agent.identity
    return Opened(session_id=live.id, at_us=conn.at_us, agent_session_id=live.agent_id, agent=agent)


def use(conn: Connection, session_id: str, line: bytes) -> Flow:
    """Let any other request go to an agent that knows the session."""
    live = _open(conn, session_id)
    yield from awake(conn)
    yield from _remembered(conn, live)
    yield Deliver(line)
    return None


def refuse(method: str) -> Flow:
    """Refuse a method that the client's version does not have."""
    raise Refusal(METHOD_NOT_FOUND, f"there is no method {method} here", {"method": method})
    yield  # a flow is a generator


def forward(conn: Connection, line: bytes) -> Flow:
    """Let a request that has to do with no session go to an agent."""
    yield from awake(conn)
    yield Deliver(line)
    return None


def _open(conn: Connection, session_id: str) -> Live:
    live = conn.sessions.open(session_id)
    if live is None:
        raise unknown_session(session_id, "it is not open here; load or resume it first")
    return live


def _remembered(conn: Connection, live: Live) -> Part:
    """Return the session as it is recorded, once the agent remembers it."""
    try:
        session: Session | None = yield Find(live.id)
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
    conn: Connection, live: Live, answer: dict[str, Any], transcript: Transcript
) -> Part:
    """Tell the client what an agent that came back did not let itself be set to.

    Raises Refusal if it is in another mode: the user may have chosen one with fewer rights.
    """
    was = table(transcript.state.get("current_mode_update")).get("currentModeId")
    option = mode_option(answer.get("configOptions"))
    mode = table(answer.get("modes")).get("currentModeId") or table(option).get("currentValue")
    is_in_another_mode = was is not None and mode is not None and mode != was
    updates: list[dict[str, Any]] = []
    if is_in_another_mode and "modes" in answer:
        updates.append({"sessionUpdate": "current_mode_update", "currentModeId": mode})
    had = table(transcript.state.get("config_option_update")).get("configOptions")
    options = answer.get("configOptions")
    if isinstance(options, list) and options != had:
        updates.append({"sessionUpdate": "config_option_update", "configOptions": options})
    shown = updates
    if conn.is_translating:
        shown = [it for update in updates for it in update_for_client(conn, live, update).updates]
    lines = [as_line(live.id, update) for update in updates]
    yield Write([entry(conn, live.id, Side.AGENT, Kind.UPDATE, line) for line in lines])
    yield Tell([as_line(live.id, update) for update in shown])
    if is_in_another_mode:
        raise Refusal(
            INTERNAL_ERROR,
            f"the agent had to be started again, and is in mode {mode} instead of {was}: choose "
            "a mode, or send the prompt again to go on like this",
            {"sessionId": live.id, "modeId": mode},
        )


def _retitle(live: Live, session: Session | None, blocks: list[Any]) -> None:
    """Note a title that the client does not know: made of this prompt, or given elsewhere."""
    if session is None:
        return
    title = session.title if session.title is not None else title_from_prompt(blocks)
    live.keeps_title = live.keeps_title or session.title_source == "user"
    live.new_title = title if title != live.title else None
