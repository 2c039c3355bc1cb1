"""`session/new`, `load` and `resume`: what a client must be able to rely on.

A session of ours is told from our record, whatever the agent has to say of it.
"""

from typing import Any

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INVALID_PARAMS, update_line
from rekindle.jsonvalue import as_array, as_object, as_str, decode_object, encode
from rekindle.model import Session
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    AcquireLease,
    AgentReply,
    Flow,
    FlushHeld,
    ForwardRequest,
    GetSession,
    LoadTranscript,
    LookupIds,
    RecordChanges,
    Refusal,
    ReleaseLease,
    SameFolder,
    SendToClient,
    SubFlow,
)
from rekindle.proxy.handlers.adopt import adopt
from rekindle.proxy.handlers.agent_start import awake
from rekindle.proxy.handlers.cursor import refusing_bad_cursors
from rekindle.proxy.handlers.lease import claim
from rekindle.proxy.handlers.restore import (
    Restored,
    restore,
)
from rekindle.proxy.opening_entries import ready_entry, ready_line, written_opening
from rekindle.proxy.translation import opening_for_client, setup_for_agent
from rekindle.proxy.validation import (
    deleted_session,
    read_session_id,
    read_setup,
    refusal_of,
    unknown_session,
)
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_cursor import check_cursor, select_turns
from rekindle.transcript.replay_v1 import replay_v1
from rekindle.transcript.replay_v2 import replay_v2


def new(conn: ConnectionState, params: dict[str, Any], line: bytes) -> Flow:
    """Have the agent make a session, and see to it that its id is like no other."""
    setup = read_setup(methods.NEW, params)
    yield from awake(conn)
    told = setup_for_agent(conn, methods.NEW, setup)
    if told != params:
        line = encode({**(decode_object(line) or {}), "params": told})
    with conn.naming():
        reply: AgentReply = yield ForwardRequest(methods.NEW, line)
        result = as_object(reply.result)
        agent_id = as_str(result.get("sessionId"))
        if agent_id is None:
            if reply.line:
                return reply.line
            raise refusal_of(reply, "make a session")
        session_id: str = yield from unique_id(conn, agent_id)
        live = conn.sessions.bind(session_id, agent_id)
    live.setup = setup
    named = {**result, "sessionId": session_id}
    yield RecordChanges(written_opening(conn, live, methods.NEW, ready_line(named)))
    yield AcquireLease(session_id)
    if session_id == agent_id and not conn.is_translating:
        return reply.line
    return opening_for_client(conn, live, named)


def is_at_work(conn: ConnectionState, session_id: str) -> bool:
    """Tell whether a turn is running in a session."""
    live = conn.sessions.get(session_id)
    is_working = live is not None and (live.is_working or live.open_prompt is not None)
    return is_working or conn.requests.is_open(methods.PROMPT, session_id)


def unique_id(conn: ConnectionState, agent_id: str) -> SubFlow:
    """Return what the client calls a session: as the agent does, if no other is called so.

    Some agents number their sessions anew in each process.
    """
    known: set[str] = yield LookupIds((agent_id,))
    return agent_id if agent_id not in known else f"{agent_id}-{conn.at_us:x}"


def load(conn: ConnectionState, params: dict[str, Any], _: bytes) -> Flow:
    """Restore a session, and tell the client all that was said in it."""
    session, result, transcript = yield from _open(conn, methods.LOAD, params)
    if session is not None:
        is_running = is_at_work(conn, session.id)
        updates = replay_v1(
            transcript,
            transcript.take_turns(),
            title=session.title,
            is_running=is_running,
            with_booleans=conn.client_takes_booleans or not conn.is_translating,
        )
        yield SendToClient(update_line(session.id, update) for update in updates)
    return _for_client(conn, params, result)


def resume_v2(conn: ConnectionState, params: dict[str, Any], _: bytes) -> Flow:
    """Restore a session; tell the client of it from where it asks to, and what it is doing."""
    cursor = params.get("replayFrom")
    if cursor is not None:
        with refusing_bad_cursors():
            check_cursor(cursor)
    was_open = conn.sessions.open(as_str(params.get("sessionId"))) is not None
    session, result, transcript = yield from _open(conn, methods.RESUME, params)
    session_id = str(params["sessionId"])
    if session is None:
        transcript = yield LoadTranscript(session_id)
        session = yield GetSession(session_id)
    is_running = is_at_work(conn, session_id)
    if cursor is not None:
        try:
            with refusing_bad_cursors():
                turns = select_turns(cursor, transcript)
        except Refusal:
            if not was_open:
                conn.sessions.drop(session_id)
                yield ReleaseLease(session_id)
            raise
        title = session.title if session is not None else None
        updates = replay_v2(turns, transcript, title=title, is_running=is_running)
        yield SendToClient(update_line(session_id, update) for update in updates)
    yield FlushHeld(session_id)
    state = {"sessionUpdate": "state_update", "state": _state(conn, session_id)}
    yield SendToClient([update_line(session_id, state)])
    ours = {**result["_meta"]["rekindle"], "seq": transcript.last_seq + 1}
    meta = {**result["_meta"], "rekindle": ours}
    return {**_for_client(conn, params, result), "_meta": meta}


def _state(conn: ConnectionState, session_id: str) -> str:
    if conn.requests.is_asked(session_id):
        return "requires_action"
    return "running" if is_at_work(conn, session_id) else "idle"


def _for_client(
    conn: ConnectionState, params: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    live = conn.sessions.get(as_str(params.get("sessionId")))
    return result if live is None else opening_for_client(conn, live, result)


def resume(conn: ConnectionState, params: dict[str, Any], _: bytes) -> Flow:
    """Restore a session, and tell the client nothing of it."""
    _, result, _ = yield from _open(conn, methods.RESUME, params)
    return _for_client(conn, params, result)


def _open(conn: ConnectionState, method: str, params: dict[str, Any]) -> SubFlow:
    """Open a session; return it if we had it, the answer, and what was said in it."""
    session_id = read_session_id(method, params)
    setup = read_setup(method, params)
    yield from awake(conn)
    session: Session | None = yield from _entitled(conn, method, session_id, setup)
    if session is None:
        reply: AgentReply = yield from adopt(conn, method, session_id, setup)
        result = opened(as_object(reply.result), Restored.NATIVE, Transcript())
        live = conn.sessions.bind(session_id, session_id)
        yield RecordChanges(written_opening(conn, live, method, ready_line(result)))
        return None, result, Transcript()
    was_open = conn.sessions.open(session_id) is not None
    try:
        how, answer, transcript = yield from _restored(conn, session, setup)
    except Refusal:
        if not was_open:
            conn.sessions.drop(session_id)
            yield ReleaseLease(session_id)
        raise
    result = opened(answer, how, transcript)
    yield from _noted(conn, method, session_id, result, transcript)
    return session, result, transcript


def _entitled(
    conn: ConnectionState, method: str, session_id: str, setup: dict[str, Any]
) -> SubFlow:
    """Return the session, if we have it, once nothing speaks against opening it."""
    session: Session | None = yield GetSession(session_id)
    if session is None:
        return None
    if session.deleted_us is not None:
        raise deleted_session(session_id)
    check_has_folder(session)
    if session.cwd is None:
        return None
    yield from check_same_folder(method, session, setup)
    yield from claim(conn, session_id, may_take_over=conn.settings.may_take_over)
    return session


def check_has_folder(session: Session) -> None:
    """Raise Refusal if a session was imported without its folder: no agent knows such a one."""
    if session.cwd is None and session.is_imported:
        why = (
            f"it is that of a sub-agent; `rekindle show {session.id}` shows it"
            if session.parent_id is not None
            else f"nobody knows its folder; `rekindle relocate {session.id} DIR` says which it is"
        )
        raise unknown_session(session.id, why)


def check_same_folder(method: str, session: Session, setup: dict[str, Any]) -> SubFlow:
    """Raise Refusal unless a session belongs to the folder that was named, however spelled."""
    is_same: bool = yield SameFolder(str(session.cwd), setup["cwd"])
    if not is_same:
        raise Refusal(
            INVALID_PARAMS,
            f"{method}: cwd is {setup['cwd']}, but this session belongs to {session.cwd}; if the "
            "folder was moved, `rekindle relocate` tells Rekindle so",
            {"field": "cwd", "value": setup["cwd"], "expected": session.cwd},
        )


def _restored(conn: ConnectionState, session: Session, setup: dict[str, Any]) -> SubFlow:
    """Restore a session; return how, the agent's answer, and the transcript."""
    # Agents find their sessions by the folder, as it was spelled when they were made.
    setup = {**setup, "cwd": session.cwd}
    live = conn.sessions.get(session.id)
    if live is not None and not live.needs_restore:
        live.setup, live.is_closed = setup, False
        return Restored.LIVE, {}, (yield LoadTranscript(session.id))
    return (yield from restore(conn, session, setup))


def _noted(
    conn: ConnectionState,
    method: str,
    session_id: str,
    result: dict[str, Any],
    transcript: Transcript,
) -> SubFlow:
    """Record what the client is answered; the transcript then knows it too."""
    ready = ready_line(result)
    transcript.add(ready_entry(ready, conn.at_us))
    live = conn.sessions.get(session_id)
    if live is not None and result["_meta"]["rekindle"]["restored"] != Restored.LIVE:
        yield RecordChanges(written_opening(conn, live, method, ready))


def opened(answer: dict[str, Any], how: Restored, transcript: Transcript) -> dict[str, Any]:
    """Return the answer to a load, resume or fork: the agent's words, else those on record."""
    known: dict[str, Any] = dict(transcript.offered)
    mode = as_object(transcript.state.get("current_mode_update")).get("currentModeId")
    if mode is not None and "modes" in known:
        known["modes"] = {**known["modes"], "currentModeId": mode}
    options = as_object(transcript.state.get("config_option_update")).get("configOptions")
    if as_array(options):
        known["configOptions"] = options
    told = {k: v for k, v in answer.items() if k not in {"sessionId", "_meta"} and v is not None}
    result = {**known, **told}
    meta = {**as_object(answer.get("_meta")), "rekindle": {"restored": how.value}}
    return {**result, "_meta": meta}
