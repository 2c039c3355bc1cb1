"""`session/new`, `session/load` and `session/resume`.

A recorded session is always replayed from the record, whatever the agent itself replays.
"""

from collections.abc import Iterable, Iterator
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, update_line
from rekindle.jsonvalue import Json, as_array, as_object, as_str, decode_object, encode
from rekindle.model import UNKNOWN_TO_AGENT, LeaseHolder, Session
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    AcquireLease,
    AgentReply,
    ClientRequest,
    Flow,
    FlushHeld,
    ForwardRequest,
    GetLeaseHolder,
    GetSession,
    LoadTranscript,
    LookupIds,
    ReadEntries,
    RecordChanges,
    Refusal,
    ReleaseLease,
    SameFolder,
    SendToClient,
    SubFlow,
)
from rekindle.proxy.handlers.adopt import adopt
from rekindle.proxy.handlers.agent_start import ensure_agent
from rekindle.proxy.handlers.attach import attach
from rekindle.proxy.handlers.replay_cursor import refusing_bad_cursors
from rekindle.proxy.handlers.restore import Restored, RestoreResult, acquire_lease, restore
from rekindle.proxy.host_connections import position
from rekindle.proxy.journal import opening_changes, recorded_response, response_entry
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.peers import ClientConnection
from rekindle.proxy.session_clients import Attachment, SessionSetup
from rekindle.proxy.system_prompt import check_system_prompt, reused_setup
from rekindle.proxy.translation import opening_for_client, seed_translator, setup_for_agent
from rekindle.proxy.validation import (
    LeasedElsewhere,
    deleted_session,
    read_session_id,
    read_setup,
    refusal_of,
    rekindle_meta,
    unknown_session,
)
from rekindle.transcript.model import HandoverItem, ReminderItem, TranscriptTurn
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_cursor import check_cursor, select_turns, truncation_since
from rekindle.transcript.replay_subagents import with_subagents, without_subagents
from rekindle.transcript.replay_v1 import replay_v1
from rekindle.transcript.replay_v2 import replay_v2

_SETUP_FIELDS = ("mcpServers", "additionalDirectories")
"""The params that the client chooses with which a session is opened first."""

# -- the methods ------------------------------------------------------------------------------


def new(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Have the agent create a session, and give it an id that no other session has."""
    client = request.client
    setup = setup_of(client, read_setup(methods.NEW, request.params))
    yield from ensure_agent(conn)
    check_system_prompt(conn, methods.NEW, setup.params)
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
    conn.attach(client.peer, live, read_attachment(request.params))
    named = {**result, "sessionId": session_id}
    yield RecordChanges(opening_changes(conn, live, methods.NEW, recorded_response(named)))
    yield AcquireLease(session_id)
    is_same = session_id == agent_id and not conn.translates_for(client)
    if is_same and not conn.settings.agents:
        return reply.line
    return opening_for_client(conn, client, live, named)


def load(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Restore a session and replay it whole, then respond."""
    client = request.client
    if (yield from _is_watched_without_host(conn, request)):
        return (yield from _replay_record(conn, request))
    try:
        opened: _OpenedSession = yield from _open(conn, request)
    except LeasedElsewhere as leased:
        return (yield from attach(conn, request, read_attachment(request.params), leased))
    session, transcript = opened.session, opened.transcript
    if session is not None:
        updates = replay_v1(
            transcript,
            transcript.take_turns(),
            title=session.title,
            is_running=conn.has_turn(session.id),
            with_booleans=client.takes_booleans or conn.agent.capabilities.protocol == 1,
        )
        yield SendToClient(_replay_lines(conn, client, session.id, updates, transcript.turns))
        yield from _join_live(client, opened)
        _announce_subagents(conn, client, session.id)
    return opened.for_client(conn, client)


def resume(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Restore a session without a replay, for a version 1 client."""
    if (yield from _is_watched_without_host(conn, request)):
        return (yield from _replay_record(conn, request))
    try:
        opened: _OpenedSession = yield from _open(conn, request)
    except LeasedElsewhere as leased:
        return (yield from attach(conn, request, read_attachment(request.params), leased))
    yield from _join_live(request.client, opened)
    _announce_subagents(conn, request.client, str(request.params["sessionId"]))
    return opened.for_client(conn, request.client)


def resume_v2(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Restore a session for a version 2 client: replay from its cursor, send its state, respond."""
    params, client = request.params, request.client
    cursor = params.get("replayFrom")
    if cursor is not None:
        with refusing_bad_cursors():
            check_cursor(cursor)
    if (yield from _is_watched_without_host(conn, request)):
        return (yield from _replay_record(conn, request))
    before = _UseBefore.of(conn, client, as_str(params.get("sessionId")))
    try:
        opened: _OpenedSession = yield from _open(conn, request)
    except LeasedElsewhere as leased:
        return (yield from attach(conn, request, read_attachment(params), leased))
    session, result, transcript = opened.session, opened.result, opened.transcript
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
            yield from before.restore(conn, client, session_id)
            raise
        title = session.title if session is not None else None
        truncation = truncation_since(cursor, transcript)
        if truncation is not None:
            yield SendToClient([update_line(session_id, truncation)])
        updates = replay_v2(turns, transcript, title=title, is_running=is_running)
        yield SendToClient(_replay_lines(conn, client, session_id, updates, turns))
    yield from _join_live(client, opened)
    yield FlushHeld(session_id)
    _announce_subagents(conn, client, session_id)
    state = {"sessionUpdate": "state_update", "state": session_state(conn, session_id)}
    yield SendToClient([update_line(session_id, state)])
    meta = result["_meta"]
    ours = {**meta["rekindle"], "seq": transcript.last_seq + 1}
    return {**opened.for_client(conn, client), "_meta": {**meta, "rekindle": ours}}


def _join_live(client: ClientConnection, opened: "_OpenedSession") -> SubFlow:
    """Let a client that has the history receive live updates from now on."""
    opened.joined()
    if client.wants_positions:
        yield SendToClient([position({opened.live.id: opened.transcript.last_seq}, lines=0)])


def _replay_lines(
    conn: ConnectionState,
    client: ClientConnection,
    session_id: str,
    updates: Iterable[Json],
    turns: list[TranscriptTurn],
) -> Iterator[bytes]:
    """Yield the lines of a replay, with those of sub-agents if the client knows these."""
    if client.takes_subagents:
        running = {it.id for it in conn.subagents.of(session_id) if it.is_working}
        replay = with_subagents(session_id, updates, turns, client.protocol, running=running)
    else:
        replay = without_subagents(session_id, updates)
    return (update_line(own_id, update) for own_id, update in replay)


def _announce_subagents(conn: ConnectionState, client: ClientConnection, session_id: str) -> None:
    """Let the announcements of the sub-agents that the agent still has follow the response."""
    is_v2 = client.protocol > 1 and not conn.translates_for(client)
    for line in conn.subagents.announcements(session_id, with_states=is_v2):
        conn.queues.hold(session_id, line)


# -- watching ---------------------------------------------------------------------------------


def _is_watched_without_host(conn: ConnectionState, request: ClientRequest) -> SubFlow:
    """Return whether an observer opens a session that neither a client nor the agent has open.

    It receives the record. No agent restores the session for it, and no lease is acquired.
    """
    if not _is_observer(request.params):
        return False
    session_id = read_session_id(request.method, request.params)
    live = conn.sessions.get_open(session_id)
    if live is not None and (live.clients or not live.memory.is_missing):
        return False
    holder: LeaseHolder | None = yield GetLeaseHolder(session_id)
    return holder is None


def _replay_record(conn: ConnectionState, request: ClientRequest) -> SubFlow:
    """Replay a session from the store; return the result of the request."""
    params, client = request.params, request.client
    session_id = str(params["sessionId"])
    session: Session | None = yield GetSession(session_id)
    if session is None:
        raise unknown_session(session_id)
    if session.deleted_us is not None:
        raise deleted_session(session_id)
    # It may have watched the session until that was freed. Now it receives the record alone.
    conn.sessions.stop_observing(client.peer, session_id)
    transcript: Transcript = yield LoadTranscript(session_id)
    ours: Json = {"restored": Restored.RECORD.value}
    if client.protocol == 1:
        turns = transcript.turns
        with_booleans = client.takes_booleans or conn.agent.capabilities.protocol == 1
        updates = replay_v1(transcript, title=session.title, with_booleans=with_booleans)
        wants_replay = request.method == methods.LOAD
    else:
        with refusing_bad_cursors():
            turns = select_turns(params.get("replayFrom") or {"type": "start"}, transcript)
        updates = replay_v2(turns, transcript, title=session.title, is_running=False)
        wants_replay = params.get("replayFrom") is not None
        ours["seq"] = transcript.last_seq + 1
    if wants_replay:
        yield SendToClient(_replay_lines(conn, client, session_id, updates, turns))
    if client.protocol > 1:
        state = {"sessionUpdate": "state_update", "state": "idle"}
        yield SendToClient([update_line(session_id, state)])
    return {"_meta": {"rekindle": ours}}


# -- opening ----------------------------------------------------------------------------------


def setup_of(client: ClientConnection, params: Json) -> SessionSetup:
    """Return the params with which a client opens a session, with the client."""
    return SessionSetup(params, client.protocol, client.peer)


def read_attachment(params: Json) -> Attachment:
    """Return how a client wants to use the session that it opens."""
    ours = rekindle_meta(params)
    return Attachment(
        wants_permissions=ours.get("permissions") is True,
        is_observer=ours.get("role") == "observer",
    )


def _is_observer(params: Json) -> bool:
    """Return whether a client only wants to watch the session that it opens."""
    return "_meta" in params and read_attachment(params).is_observer


class _OpenedSession(Struct, frozen=True):
    """A session that a client has opened."""

    session: Session | None
    """None if the record did not have it. Then it was adopted."""
    live: LiveSession
    result: Json
    transcript: Transcript
    attachment: Attachment | None = None
    """Set if the client joins a session that continues."""

    def joined(self) -> None:
        """Let the client receive live updates: it has the history."""
        if self.attachment is not None:
            self.attachment.is_joining = False

    def for_client(self, conn: ConnectionState, client: ClientConnection) -> Json:
        """Return the result in the client's version."""
        return opening_for_client(conn, client, self.live, self.result)


def _open(conn: ConnectionState, request: ClientRequest) -> SubFlow:
    """Open a session; return an _OpenedSession."""
    method, params, client = request.method, request.params, request.client
    session_id = read_session_id(method, params)
    setup = read_setup(method, params)
    if not _is_observer(params) or conn.sessions.get_open(session_id) is None:
        yield from ensure_agent(conn)
    check_system_prompt(conn, method, setup)
    session: Session | None = yield from _usable_session(conn, method, session_id, setup)
    if session is None:
        reply: AgentReply = yield from adopt(
            conn, method, session_id, setup_of(client, setup), read_attachment(params)
        )
        adopted = RestoreResult(Restored.NATIVE, as_object(reply.result), Transcript())
        result = opening_result(adopted)
        live = conn.bind(session_id, session_id)
        yield RecordChanges(opening_changes(conn, live, method, recorded_response(result)))
        return _OpenedSession(None, live, result, Transcript())
    before = _UseBefore.of(conn, client, session_id)
    wants_replay = method == methods.LOAD or params.get("replayFrom") is not None
    try:
        restored: RestoreResult = yield from _restore_or_reuse(
            conn, request, session, setup, is_load=wants_replay
        )
    except Refusal:
        yield from before.restore(conn, client, session_id)
        raise
    result = opening_result(restored)
    if client.protocol == 1 and restored.how is Restored.LIVE and conn.has_turn(session_id):
        result["_meta"]["rekindle"]["turn"] = {"state": session_state(conn, session_id)}
    live = conn.sessions[session_id]
    yield from _record_opening(conn, method, live, result, restored.transcript)
    return _OpenedSession(session, live, result, restored.transcript, restored.attachment)


class _UseBefore(Struct, frozen=True):
    """How a session was used before a client tried to open it."""

    is_open: bool
    is_attached: bool

    @classmethod
    def of(cls, conn: ConnectionState, client: ClientConnection, session_id: str | None) -> Self:
        """Return the present use of a session."""
        live = conn.sessions.get_open(session_id)
        return cls(live is not None, live is not None and client.peer in live.clients)

    def restore(self, conn: ConnectionState, client: ClientConnection, session_id: str) -> SubFlow:
        """Undo an attempt that failed. A session that was not open loses its lease."""
        if not self.is_open:
            conn.drop(session_id)
            yield ReleaseLease(session_id)
            return
        live = conn.sessions.get(session_id)
        attachment = None if live is None else live.clients.pop(client.peer, None)
        if live is not None and attachment is not None and self.is_attached:
            attachment.is_joining = False
            live.clients[client.peer] = attachment


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
    conn: ConnectionState, request: ClientRequest, session: Session, setup: Json, *, is_load: bool
) -> SubFlow:
    """Restore a session unless it is live; return a RestoreResult.

    No agent restores a session for an observer of it.
    """
    client = request.client
    is_observer = _is_observer(request.params)
    # Agents find their sessions by the folder as it was spelled when they were created.
    opened = setup_of(client, {**setup, "cwd": session.cwd})
    live = conn.sessions.get(session.id)
    is_watched = is_observer and conn.sessions.get_open(session.id) is not None
    if live is not None and (is_watched or not live.memory.is_missing):
        return (yield from _join(conn, request, live, opened))
    if live is None:
        live = conn.bind(session.id, UNKNOWN_TO_AGENT)
    elif live.is_open_without(client.peer):
        opened = live.setup
    conn.attach(client.peer, live, read_attachment(request.params))
    return (yield from restore(conn, session, opened, is_load=is_load))


def _join(
    conn: ConnectionState, request: ClientRequest, live: LiveSession, opened: SessionSetup
) -> SubFlow:
    """Let a client join a session that the agent has open; return a RestoreResult.

    The session continues meanwhile. The client receives no live updates until it has the history:
    entries that are recorded while the transcript is read are added to it at the end.
    """
    client = request.client
    reused = reused_setup(live, opened.params)
    if not live.clients:
        live.setup = replace(opened, params=reused)
    attachment = read_attachment(request.params)
    attachment.is_joining = True
    conn.attach(client.peer, live, attachment)
    transcript: Transcript = yield LoadTranscript(live.id, is_shared=True)
    for entry in (yield ReadEntries(live.id, transcript.last_seq)):
        transcript.add(entry)
    transcript.settle()
    if conn.sessions.get_open(live.id) is not live or client.peer not in live.clients:
        conn.sessions.stop_observing(client.peer, live.id)
        text = f"{request.method}: the session was closed meanwhile: open it again"
        raise Refusal(INVALID_REQUEST, text, {"sessionId": live.id})
    if client.protocol > 1 or client.peer != live.turn.prompter:
        _remove_unacknowledged(transcript, live.turn.unacknowledged)
    if conn.translates_for(client):
        seed_translator(conn, live, transcript)
    ignored = tuple(
        name
        for name in _SETUP_FIELDS
        if name in request.params
        and as_array(reused.get(name)) != as_array(live.setup.params.get(name))
    )
    return RestoreResult(
        Restored.LIVE, {}, transcript, ignored_setup=ignored, attachment=attachment
    )


def _remove_unacknowledged(transcript: Transcript, count: int) -> None:
    """Leave out prompts that a version 2 agent has not accepted: it will send them with ids.

    The client then has the record up to the first of them.
    """
    turns = transcript.turns
    while count and turns and _is_unanswered(turns[-1]):
        transcript.last_seq = turns.pop().items[0].seq - 1
        count -= 1


def _is_unanswered(turn: TranscriptTurn) -> bool:
    """Return whether a turn has nothing of the agent, and its prompt no id of the agent."""
    return turn.unnamed_prompt is not None and all(
        isinstance(it, HandoverItem | ReminderItem) for it in turn.items[1:]
    )


def _record_opening(
    conn: ConnectionState,
    method: str,
    live: LiveSession,
    result: Json,
    transcript: Transcript,
) -> SubFlow:
    """Record the opening of a session, also in the transcript that is replayed next."""
    line = recorded_response(result)
    transcript.add(response_entry(line, conn.at_us))
    if result["_meta"]["rekindle"]["restored"] != Restored.LIVE:
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
    if restored.ignored_setup:
        ours["ignoredSetup"] = list(restored.ignored_setup)
    if restored.lacks_system_prompt:
        ours["systemPromptApplied"] = False
    meta = {**as_object(answer.get("_meta")), "rekindle": ours}
    return {**known, **given, "_meta": meta}


def session_state(conn: ConnectionState, session_id: str) -> str:
    """Return the state of an open session, as version 2 names it."""
    if conn.requests.is_user_asked(session_id):
        return "requires_action"
    return "running" if conn.has_turn(session_id) else "idle"
