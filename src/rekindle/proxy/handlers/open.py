"""`session/new`, `session/load` and `session/resume`.

A recorded session is always replayed from the record, whatever the agent itself replays.
"""

from collections.abc import Iterable, Iterator

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INVALID_PARAMS, update_line
from rekindle.jsonvalue import Json, as_array, as_object, as_str, decode_object, encode
from rekindle.model import Session
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    AcquireLease,
    AgentReply,
    ClientRequest,
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
from rekindle.proxy.handlers.agent_start import ensure_agent
from rekindle.proxy.handlers.replay_cursor import refusing_bad_cursors
from rekindle.proxy.handlers.restore import Restored, RestoreResult, acquire_lease, restore
from rekindle.proxy.journal import opening_changes, recorded_response, response_entry
from rekindle.proxy.system_prompt import check_system_prompt, reused_setup
from rekindle.proxy.translation import opening_for_client, setup_for_agent
from rekindle.proxy.validation import (
    deleted_session,
    read_session_id,
    read_setup,
    refusal_of,
    unknown_session,
)
from rekindle.transcript.model import TranscriptTurn
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_cursor import check_cursor, select_turns, truncation_since
from rekindle.transcript.replay_subagents import with_subagents, without_subagents
from rekindle.transcript.replay_v1 import replay_v1
from rekindle.transcript.replay_v2 import replay_v2

# -- the methods ------------------------------------------------------------------------------


def new(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Have the agent create a session, and give it an id that no other session has."""
    setup = read_setup(methods.NEW, request.params)
    yield from ensure_agent(conn)
    check_system_prompt(conn, methods.NEW, setup)
    params, line = setup_for_agent(conn, methods.NEW, setup), request.line
    if params != request.params:
        line = encode({**(decode_object(line) or {}), "params": params})
    with conn.naming_session():
        reply: AgentReply = yield ForwardRequest(methods.NEW, line)
        result = as_object(reply.result)
        agent_id = as_str(result.get("sessionId"))
        if agent_id is None:
            if reply.line:
                return reply.line
            raise refusal_of(reply, "create a session")
        session_id: str = yield from unique_session_id(conn, agent_id)
        live = conn.bind(session_id, agent_id)
    live.setup = setup
    named = {**result, "sessionId": session_id}
    yield RecordChanges(opening_changes(conn, live, methods.NEW, recorded_response(named)))
    yield AcquireLease(session_id)
    if session_id == agent_id and not (conn.is_translating or conn.settings.agents):
        return reply.line
    return opening_for_client(conn, live, named)


def load(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Restore a session and replay it whole, then respond."""
    session, result, transcript = yield from _open(conn, methods.LOAD, request.params)
    if session is not None:
        updates = replay_v1(
            transcript,
            transcript.take_turns(),
            title=session.title,
            is_running=conn.has_turn(session.id),
            with_booleans=conn.client.takes_booleans or not conn.is_translating,
        )
        yield SendToClient(_replay_lines(conn, session.id, updates, transcript.turns))
        _announce_subagents(conn, session.id)
    return _for_client(conn, request, result)


def resume(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Restore a session without a replay, for a version 1 client."""
    _, result, _ = yield from _open(conn, methods.RESUME, request.params)
    _announce_subagents(conn, str(request.params["sessionId"]))
    return _for_client(conn, request, result)


def resume_v2(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Restore a session for a version 2 client: replay from its cursor, send its state, respond."""
    params = request.params
    cursor = params.get("replayFrom")
    if cursor is not None:
        with refusing_bad_cursors():
            check_cursor(cursor)
    was_open = conn.sessions.get_open(as_str(params.get("sessionId"))) is not None
    session, result, transcript = yield from _open(conn, methods.RESUME, params)
    session_id = str(params["sessionId"])
    if session is None:
        transcript = yield LoadTranscript(session_id)
        session = yield GetSession(session_id)
    is_running = conn.has_turn(session_id)
    if cursor is not None:
        try:
            with refusing_bad_cursors():
                turns = select_turns(cursor, transcript)
        except Refusal:
            if not was_open:
                yield from _let_go(conn, session_id)
            raise
        title = session.title if session is not None else None
        truncation = truncation_since(cursor, transcript)
        if truncation is not None:
            yield SendToClient([update_line(session_id, truncation)])
        updates = replay_v2(turns, transcript, title=title, is_running=is_running)
        yield SendToClient(_replay_lines(conn, session_id, updates, turns))
    yield FlushHeld(session_id)
    _announce_subagents(conn, session_id)
    state = {"sessionUpdate": "state_update", "state": session_state(conn, session_id)}
    yield SendToClient([update_line(session_id, state)])
    meta = result["_meta"]
    ours = {**meta["rekindle"], "seq": transcript.last_seq + 1}
    return {**_for_client(conn, request, result), "_meta": {**meta, "rekindle": ours}}


def _replay_lines(
    conn: ConnectionState, session_id: str, updates: Iterable[Json], turns: list[TranscriptTurn]
) -> Iterator[bytes]:
    """Yield the lines of a replay, with those of sub-agents if the client knows these."""
    client = conn.client
    if client.takes_subagents:
        running = {it.id for it in conn.subagents.of(session_id) if it.is_working}
        replay = with_subagents(session_id, updates, turns, client.protocol, running=running)
    else:
        replay = without_subagents(session_id, updates)
    return (update_line(own_id, update) for own_id, update in replay)


def _announce_subagents(conn: ConnectionState, session_id: str) -> None:
    """Let the announcements of the sub-agents that the agent still has follow the response."""
    is_v2 = conn.client.protocol > 1 and not conn.is_translating
    for line in conn.subagents.announcements(session_id, with_states=is_v2):
        conn.queues.hold(session_id, line)


# -- opening ----------------------------------------------------------------------------------


def _open(conn: ConnectionState, method: str, params: Json) -> SubFlow:
    """Open a session; return it, the result for the client, and the transcript.

    The session is None if the record did not have it. In this case it was adopted.
    """
    session_id = read_session_id(method, params)
    setup = read_setup(method, params)
    yield from ensure_agent(conn)
    check_system_prompt(conn, method, setup)
    session: Session | None = yield from _usable_session(conn, method, session_id, setup)
    if session is None:
        reply: AgentReply = yield from adopt(conn, method, session_id, setup)
        adopted = RestoreResult(Restored.NATIVE, as_object(reply.result), Transcript())
        result = opening_result(adopted)
        live = conn.bind(session_id, session_id)
        yield RecordChanges(opening_changes(conn, live, method, recorded_response(result)))
        return None, result, Transcript()
    was_open = conn.sessions.get_open(session_id) is not None
    wants_replay = method == methods.LOAD or params.get("replayFrom") is not None
    try:
        restored: RestoreResult = yield from _restore_or_reuse(
            conn, session, setup, is_load=wants_replay
        )
    except Refusal:
        if not was_open:
            yield from _let_go(conn, session_id)
        raise
    result = opening_result(restored)
    yield from _record_opening(conn, method, session_id, result, restored.transcript)
    return session, result, restored.transcript


def _let_go(conn: ConnectionState, session_id: str) -> SubFlow:
    """Forget a session that could not be opened, and release its lease."""
    conn.drop(session_id)
    yield ReleaseLease(session_id)


def _usable_session(conn: ConnectionState, method: str, session_id: str, setup: Json) -> SubFlow:
    """Return the recorded session, with its lease held; None if the record does not have it.

    Raises Refusal if it cannot be opened.
    """
    session: Session | None = yield GetSession(session_id)
    if session is None:
        return None
    if session.deleted_us is not None:
        raise deleted_session(session_id)
    check_has_folder(session)
    if session.cwd is None:
        return None
    yield from check_same_folder(method, session, setup)
    yield from acquire_lease(conn, session_id, may_take_over=conn.settings.may_take_over)
    return session


def _restore_or_reuse(
    conn: ConnectionState, session: Session, setup: Json, *, is_load: bool
) -> SubFlow:
    """Restore a session unless it is live; return a RestoreResult."""
    # Agents find their sessions by the folder as it was spelled when they were created.
    setup = {**setup, "cwd": session.cwd}
    live = conn.sessions.get(session.id)
    if live is not None and not live.memory.is_missing:
        live.setup, live.is_closed = reused_setup(live, setup), False
        return RestoreResult(Restored.LIVE, {}, (yield LoadTranscript(session.id)))
    return (yield from restore(conn, session, setup, is_load=is_load))


def _record_opening(
    conn: ConnectionState, method: str, session_id: str, result: Json, transcript: Transcript
) -> SubFlow:
    """Record the opening of a session, also in the transcript that is replayed next."""
    line = recorded_response(result)
    transcript.add(response_entry(line, conn.at_us))
    live = conn.sessions.get(session_id)
    if live is not None and result["_meta"]["rekindle"]["restored"] != Restored.LIVE:
        yield RecordChanges(opening_changes(conn, live, method, line))


def unique_session_id(conn: ConnectionState, agent_id: str) -> SubFlow:
    """Return the agent's id of a new session, with a suffix if the record has that id already.

    Some agents number their sessions from one in each process.
    """
    known: set[str] = yield LookupIds((agent_id,))
    return agent_id if agent_id not in known else f"{agent_id}-{conn.at_us:x}"


# -- checks -----------------------------------------------------------------------------------


def check_has_folder(session: Session) -> None:
    """Refuse a session that was imported without its folder: no agent knows it."""
    if session.cwd is None and (session.is_imported or session.is_subagent):
        reason = (
            f"it belongs to a sub-agent; `rekindle show {session.id}` shows it"
            if session.is_subagent
            else f"its folder is unknown; set it with `rekindle relocate {session.id} DIR`"
        )
        raise unknown_session(session.id, reason)


def check_same_folder(method: str, session: Session, setup: Json) -> SubFlow:
    """Refuse a session that belongs to another folder than the request names."""
    is_same: bool = yield SameFolder(str(session.cwd), setup["cwd"])
    if not is_same:
        raise Refusal(
            INVALID_PARAMS,
            f"{method}: cwd is {setup['cwd']}, but this session belongs to {session.cwd}; if the "
            f"folder was moved, run `rekindle relocate {session.id} DIR`",
            {"field": "cwd", "value": setup["cwd"], "expected": session.cwd},
        )


# -- results ----------------------------------------------------------------------------------


def opening_result(restored: RestoreResult) -> Json:
    """Return the result of a load, resume or fork: the agent's fields, completed by the record."""
    transcript, answer = restored.transcript, restored.answer
    known: Json = dict(transcript.offered)
    mode = transcript.current_mode
    if mode is not None and "modes" in known:
        known["modes"] = {**known["modes"], "currentModeId": mode}
    options = transcript.config_options
    if as_array(options):
        known["configOptions"] = options
    hidden = {"sessionId", "_meta"}
    given = {k: v for k, v in answer.items() if k not in hidden and v is not None}
    ours: Json = {"restored": restored.how.value}
    if restored.missing_turns:
        ours["missingTurns"] = restored.missing_turns
    if restored.lacks_system_prompt:
        ours["systemPromptApplied"] = False
    meta = {**as_object(answer.get("_meta")), "rekindle": ours}
    return {**known, **given, "_meta": meta}


def _for_client(conn: ConnectionState, request: ClientRequest, result: Json) -> Json:
    live = conn.sessions.get(as_str(request.params.get("sessionId")))
    return result if live is None else opening_for_client(conn, live, result)


def session_state(conn: ConnectionState, session_id: str) -> str:
    """Return the state of an open session, as version 2 names it."""
    if conn.requests.is_user_asked(session_id):
        return "requires_action"
    return "running" if conn.has_turn(session_id) else "idle"
