"""`session/rewind` and `session/edit_prompt`: continue a session from an earlier message.

The record keeps all entries. One more entry, `history_truncated`, removes everything after a
message from the transcript. Then the agent has to forget it too: by its own `session/rewind`, or by
a new session of the agent, which receives the remaining history with the next prompt.

The agent goes first, because only the record can be corrected after a kill: turns that the agent
has lost are sent to it again, and turns that it has too many would be recorded again.
"""

from msgspec import Struct

from rekindle.acp import methods, update_kinds
from rekindle.acp.jsonrpc import INVALID_PARAMS, RESOURCE_NOT_FOUND, update_line
from rekindle.jsonvalue import Json, decode_object, encode, without
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    Change,
    Counted,
    Entry,
    Kind,
    Opened,
    Session,
    Side,
    Titled,
    TitleSource,
)
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    AgentReply,
    CallAgent,
    ClientRequest,
    Flow,
    GetSession,
    LoadTranscript,
    RecordChanges,
    Refusal,
    SendToClient,
    SendToSession,
    SubFlow,
)
from rekindle.proxy.handlers.close import AGENT_TIMEOUT_US, end_turn
from rekindle.proxy.handlers.prompt import check_blocks, open_session, prompt
from rekindle.proxy.handlers.restore import (
    RESTORE_TIMEOUT_US,
    Restored,
    acquire_lease,
    handover_forbidden,
)
from rekindle.proxy.journal import agent_entry
from rekindle.proxy.live_session import HandoverState, LiveSession
from rekindle.proxy.validation import deleted_session, invalid, read_session_id, unknown_session
from rekindle.transcript.model import (
    PlanItem,
    ReplayContext,
    Role,
    TranscriptItem,
    TranscriptMessage,
    TranscriptTurn,
)
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.truncation import find_message, items_of, previous_message, used_ids

# -- the methods ------------------------------------------------------------------------------


def rewind(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Remove everything after a message from a session."""
    live = open_session(conn, request.client, read_session_id(methods.REWIND, request.params))
    wanted = _read_message_id(methods.REWIND, "toMessageId", request.params)
    yield from acquire_lease(conn, live.id)
    transcript: Transcript = yield LoadTranscript(live.id)
    own_id = _find(live, transcript, wanted).own_id
    how: Restored = yield from _rewind(conn, live, own_id, wanted)
    return {"lastMessageId": wanted, "_meta": {"rekindle": {"restored": how.value}}}


def edit_prompt(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Replace a message of the user: rewind to the message before it, and send another prompt."""
    params = request.params
    client = request.client
    live = open_session(conn, client, read_session_id(methods.EDIT_PROMPT, params))
    wanted = _read_message_id(methods.EDIT_PROMPT, "messageId", params)
    check_blocks(methods.EDIT_PROMPT, "content", params.get("content"))
    yield from acquire_lease(conn, live.id)
    transcript: Transcript = yield LoadTranscript(live.id)
    found = _find(live, transcript, wanted)
    if not found.is_prompt:
        raise _refusal(INVALID_PARAMS, "messageId", wanted, "not_a_user_message")
    yield from _rewind(conn, live, found.previous_id, found.previous_id)
    rest = without(params, "messageId", "content")
    asked = {**rest, "prompt": params["content"]}
    message = {**(decode_object(request.line) or {}), "method": methods.PROMPT, "params": asked}
    prompted = ClientRequest(client, methods.PROMPT, live.id, asked, encode(message))
    return (yield from prompt(conn, prompted))


# -- the message ------------------------------------------------------------------------------


class _FoundMessage(Struct, frozen=True):
    """A message of the transcript that a client has named."""

    own_id: str
    """Its id in the record."""
    is_prompt: bool
    """Whether it is the user's."""
    previous_id: str | None
    """The id of the message before it; None if it is the first one."""


def _read_message_id(method: str, name: str, params: Json) -> str:
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise invalid(method, name, value, "must be a message id")
    return value


def _find(live: LiveSession, transcript: Transcript, wanted: str) -> _FoundMessage:
    """Return the message that a client knows by an id. Raises Refusal."""
    # A version 1 client knows a message that the agent has replaced by another id.
    to_v1 = live.translators.to_v1
    own_id = wanted if to_v1 is None else to_v1.original_id(wanted)
    turns = transcript.turns
    place = find_message(turns, own_id)
    if place is None:
        raise _refusal(RESOURCE_NOT_FOUND, "messageId", wanted, "unknown_message_id")
    item = turns[place.turn].items[place.item]
    is_prompt = isinstance(item, TranscriptMessage) and item.role is Role.USER
    return _FoundMessage(own_id, is_prompt, previous_message(turns, place))


def _refusal(code: int, name: str, value: str, reason: str) -> Refusal:
    texts = {
        "unknown_message_id": f"the session has no message {value}; load it again for its ids",
        "not_a_user_message": f"message {value} is not a message of the user, so it has no prompt",
    }
    return Refusal(code, texts[reason], {"reason": reason, name: value})


# -- rewinding --------------------------------------------------------------------------------


def _rewind(
    conn: ConnectionState, live: LiveSession, last_id: str | None, shown_id: str | None
) -> SubFlow:
    """Rewind a session to a message; return how the agent follows. Raises Refusal.

    `last_id` is the id of the last message that stays, in the record; None removes everything.
    `shown_id` is the id by which the client knows it.
    """
    has_obeyed: bool = yield from end_turn(conn, live)
    session: Session | None = yield GetSession(live.id)
    if session is None or session.deleted_us is not None:
        raise unknown_session(live.id) if session is None else deleted_session(live.id)
    transcript: Transcript = yield LoadTranscript(live.id)
    is_unfinished = bool(transcript.turns) and transcript.turns[-1].ended_us is None
    native_id = _native_id(conn, live, transcript, last_id) if has_obeyed else None
    before = len(transcript.truncations.removed)
    update = {"sessionUpdate": update_kinds.HISTORY_TRUNCATED, "lastMessageId": last_id}
    line = update_line(live.id, update)
    transcript.add(
        Entry(
            seq=session.last_seq + 1,
            side=Side.AGENT,
            kind=Kind.UPDATE,
            at_us=conn.at_us,
            line=line,
        )
    )
    how = Restored.LIVE
    removed = transcript.truncations.removed[before:]
    if removed:
        how = yield from _rewind_agent(conn, live, transcript, native_id)
        changes: list[Change] = [agent_entry(conn, live.id, Kind.UPDATE, line)]
        if is_unfinished:
            # Its process was killed. The session would still count as interrupted.
            changes.insert(0, agent_entry(conn, live.id, Kind.ANSWER, _CANCELLED, protocol=1))
        changes += _corrections(conn, session, transcript, how)
        yield RecordChanges(changes)
        conn.remove_subagents(live.id, removed)
        freed = {item_id for _, item_id in used_ids(removed) - used_ids(transcript.turns)}
        live.translators.forget(freed)
    shown = {**update, "lastMessageId": shown_id}
    yield SendToSession(live, update_line(live.id, shown))
    plans = [update_line(live.id, it) for it in _plan_again(removed, transcript)]
    for client in conn.audience(live):
        if client.protocol > 1:
            yield SendToClient(plans, client.peer)
    return how


def _plan_again(removed: list[TranscriptTurn], transcript: Transcript) -> list[Json]:
    """Return the update that shows the remaining plan of a version 1 agent, if one was removed.

    A version 2 client has one plan for all turns of such an agent, and shows the last one.
    """
    if not any(_is_plan_of_turn(item) for item in items_of(removed)):
        return []
    for turn in reversed(transcript.turns):
        for item in filter(_is_plan_of_turn, turn.items):
            return list(item.replay_v2(ReplayContext(terminals={}, turn=turn)))
    return []


def _is_plan_of_turn(item: TranscriptItem) -> bool:
    return isinstance(item, PlanItem) and item.id is None


_CANCELLED = encode({"jsonrpc": "2.0", "result": {"stopReason": "cancelled"}})


_OWN_IDS = "rekindle-"
"""The ids that Rekindle makes. The agent does not know them."""


def _native_id(
    conn: ConnectionState, live: LiveSession, transcript: Transcript, last_id: str | None
) -> str | None:
    """Return the agent's own id of a message; None if the agent cannot rewind to it."""
    is_informed = live.handover.state is HandoverState.NONE and not live.memory.is_missing
    place = find_message(transcript.turns, last_id) if last_id is not None else None
    if not (conn.agent.is_usable and conn.agent.capabilities.offers(methods.REWIND)):
        return None
    if place is None or not is_informed or last_id in transcript.retired_ids:
        return None
    item = transcript.turns[place.turn].items[place.item]
    given = item.id if isinstance(item, TranscriptMessage) else None
    if given is None or given.startswith(_OWN_IDS):
        return None
    return given.removesuffix(transcript.suffix) if transcript.suffix else given


def _rewind_agent(
    conn: ConnectionState, live: LiveSession, transcript: Transcript, native_id: str | None
) -> SubFlow:
    """Make the agent forget the removed part; return how. Raises Refusal.

    `transcript` is the remaining one. Late updates of the removed part are discarded.
    """
    live.updates.discard_history()
    if native_id is not None:
        params = {"sessionId": live.agent_id, "toMessageId": native_id}
        reply: AgentReply = yield CallAgent(methods.REWIND, params, RESTORE_TIMEOUT_US)
        if reply.error is None and not live.memory.is_missing:
            return Restored.NATIVE
    if transcript.turns and not conn.settings.may_hand_over:
        raise handover_forbidden(live.id)
    agent_id = live.agent_id
    is_bound = agent_id != UNKNOWN_TO_AGENT and not live.memory.is_missing
    if is_bound and conn.agent.is_usable and conn.agent.capabilities.offers(methods.CLOSE):
        yield CallAgent(methods.CLOSE, {"sessionId": agent_id}, AGENT_TIMEOUT_US)
    conn.bind(live.id, UNKNOWN_TO_AGENT)
    for child_id in conn.subagents.drop(live.id):
        conn.sessions.abandon(child_id)
    if agent_id != UNKNOWN_TO_AGENT:
        conn.sessions.abandon(agent_id)
    # The next prompt restores the session, and only by a handover.
    live.memory.advance("rewound")
    return Restored.HANDOVER


def _corrections(
    conn: ConnectionState, session: Session, transcript: Transcript, how: Restored
) -> list[Change]:
    """Return the changes of the session's data that follow from a rewind."""
    messages = (message for turn in transcript.turns for message in turn.messages)
    counted = Counted(
        session_id=session.id,
        at_us=conn.at_us,
        turns=len(transcript.turns) - session.turns,
        messages=sum(it.role is not Role.THOUGHT for it in messages) - session.messages,
    )
    changes: list[Change] = [counted]
    if how is Restored.HANDOVER:
        unbound = Opened(session_id=session.id, at_us=conn.at_us, agent_session_id=UNKNOWN_TO_AGENT)
        changes.append(unbound)
    if not transcript.turns:
        # The next prompt is the first one again.
        untitled = Titled(
            session_id=session.id, at_us=conn.at_us, source=TitleSource.PROMPT, title=None
        )
        changes.append(untitled)
    return changes
