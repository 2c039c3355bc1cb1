"""`session/fork`: a session whose record begins with another's.

The agent forks natively if it can and the whole session is wanted. Otherwise the agent creates a
new session, and receives the history with the first prompt.
"""

from msgspec import Struct
from msgspec.structs import replace

from rekindle.acp import methods
from rekindle.jsonvalue import Json, as_object, as_str
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    Change,
    Counted,
    Entry,
    Forked,
    Session,
)
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    AcquireLease,
    AgentReply,
    CallAgent,
    ClientRequest,
    Flow,
    GetSession,
    LoadTranscript,
    ReadEntries,
    RecordChanges,
    ReleaseLease,
    ReportToUser,
    SubFlow,
)
from rekindle.proxy.handlers.adopt import adopt
from rekindle.proxy.handlers.agent_start import ensure_agent
from rekindle.proxy.handlers.open import (
    check_has_folder,
    check_same_folder,
    opening_result,
    read_attachment,
    setup_of,
    unique_session_id,
)
from rekindle.proxy.handlers.restore import (
    RESTORE_TIMEOUT_US,
    Restored,
    RestoreResult,
    belongs_to_agent,
    create_agent_session,
    handover_forbidden,
)
from rekindle.proxy.journal import opening_changes, recorded_response
from rekindle.proxy.peers import ClientConnection
from rekindle.proxy.session_clients import Attachment, SessionSetup
from rekindle.proxy.system_prompt import PromptSource, check_system_prompt
from rekindle.proxy.translation import opening_for_client, setup_for_agent
from rekindle.proxy.validation import (
    deleted_session,
    invalid,
    read_session_id,
    read_setup,
    rekindle_meta,
)
from rekindle.transcript.forks import count_messages, count_turns, fork_changes
from rekindle.transcript.model import HandoverReason, TranscriptMessage
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.subagents import subagents_in


def fork(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Create a session that begins with the record of another."""
    session_id = read_session_id(methods.FORK, request.params)
    setup = read_setup(methods.FORK, request.params)
    client = request.client
    yield from ensure_agent(conn)
    check_system_prompt(conn, methods.FORK, setup)
    session: Session = yield from _parent(conn, client, session_id, setup)
    transcript: Transcript = yield LoadTranscript(session_id)
    point = _fork_point(request.params, transcript, session)
    until = point.until_seq
    is_whole = until == session.last_seq
    parent = conn.sessions.get(session_id)
    earlier = {} if parent is None else parent.setup.params
    prompts = PromptSource(conn, earlier, transcript.system_prompt)
    with conn.naming_session():
        how, agent_id, answer = yield from _fork_at_agent(
            conn, session, setup_of(client, setup), prompts, is_whole=is_whole
        )
        fork_id: str = yield from unique_session_id(conn, agent_id)
        live = conn.bind(fork_id, agent_id)
    is_native = how is Restored.NATIVE
    live.setup = setup_of(
        client, prompts.native_setup(setup) if is_native else prompts.new_setup(setup)
    )
    conn.attach(client.peer, live, read_attachment(request.params))
    problem = None if is_native else prompts.problem(setup)
    live.updates.discard_history()
    changes = fork_changes(fork_id, conn.at_us, session, transcript, until)
    changes += yield from _copy_subagents(conn, fork_id, transcript, point)
    live.handover.require(
        history=how is Restored.HANDOVER and count_turns(transcript, until) > 0,
        reason=HandoverReason.FORKED,
        # The agent lacks the same turns in both.
        reminder="" if parent is None else parent.handover.reminder,
    )
    if live.handover.is_history_due:
        # The agent would name the fork after the handover.
        live.title.lock()
    if problem is not None:
        yield ReportToUser(problem)
    restored = RestoreResult(how, answer, transcript, lacks_system_prompt=problem is not None)
    result = {"sessionId": fork_id, **opening_result(restored)}
    opening = opening_changes(conn, live, methods.FORK, recorded_response(result))
    yield RecordChanges([*changes, *opening])
    yield AcquireLease(fork_id)
    return opening_for_client(conn, client, live, result)


def _parent(
    conn: ConnectionState, client: ClientConnection, session_id: str, setup: Json
) -> SubFlow:
    """Return the session to fork. If only the agent has it, it is adopted first."""
    session: Session | None = yield GetSession(session_id)
    if session is not None and session.deleted_us is not None:
        raise deleted_session(session_id)
    if session is not None:
        check_has_folder(session)
    if session is not None and session.cwd is not None:
        yield from check_same_folder(methods.FORK, session, setup)
        return session
    adopted = setup_of(client, setup)
    yield from adopt(conn, methods.RESUME, session_id, adopted, Attachment())
    live = conn.bind(session_id, session_id)
    yield RecordChanges(opening_changes(conn, live, methods.RESUME, recorded_response({})))
    live.close()
    yield ReleaseLease(session_id)
    return (yield GetSession(session_id))


def _fork_at_agent(
    conn: ConnectionState,
    session: Session,
    setup: SessionSetup,
    prompts: PromptSource,
    *,
    is_whole: bool,
) -> SubFlow:
    """Have the agent create the fork; return how it knows the history, its id and the result."""
    if is_whole:
        native = replace(setup, params=prompts.native_setup(setup.params))
        agent_id, answer = yield from _fork_natively(conn, session, native)
        if agent_id is not None:
            return Restored.NATIVE, agent_id, answer
    if not conn.settings.may_hand_over:
        raise handover_forbidden(session.id)
    fresh = replace(setup, params=prompts.new_setup(setup.params))
    agent_id, answer = yield from create_agent_session(conn, fresh)
    return Restored.HANDOVER, agent_id, answer


def _fork_natively(conn: ConnectionState, session: Session, setup: SessionSetup) -> SubFlow:
    """Return the fork's id and the agent's result; no id if the agent cannot fork the session."""
    live = conn.sessions.get(session.id)
    if live is None or live.memory.is_missing:
        # The agent forks its own copy, and nothing shows whether that has all turns.
        is_informed = session.is_saved_by_agent
    else:
        is_informed = not live.handover.is_history_due
    is_known = session.agent_session_id != UNKNOWN_TO_AGENT and is_informed
    can_fork = conn.agent.capabilities.offers(methods.FORK)
    if not (can_fork and is_known and belongs_to_agent(conn, session)):
        return None, {}
    params = {
        "sessionId": session.agent_session_id,
        **setup_for_agent(conn, methods.FORK, setup),
    }
    reply: AgentReply = yield CallAgent(methods.FORK, params, RESTORE_TIMEOUT_US)
    named = as_str(as_object(reply.result).get("sessionId"))
    is_another = reply.error is None and named != session.agent_session_id
    return (named if is_another else None), as_object(reply.result)


class _ForkPoint(Struct, frozen=True):
    """The place at which a fork leaves its parent."""

    until_seq: int
    """The seq of the last entry that the fork keeps."""
    before_us: int | None = None
    """The time of the first item that the fork does not keep; None if it keeps all of them."""


def _fork_point(params: Json, transcript: Transcript, session: Session) -> _ForkPoint:
    wanted = rekindle_meta(params).get("messageId")
    if wanted is None:
        return _ForkPoint(session.last_seq)
    items = [item for turn in transcript.turns for item in turn.items]
    for index, item in enumerate(items):
        if isinstance(item, TranscriptMessage) and item.replay_id == wanted:
            following = min(items[index + 1 :], key=lambda it: it.seq, default=None)
            if following is None:
                return _ForkPoint(session.last_seq)
            return _ForkPoint(following.seq - 1, following.at_us)
    raise invalid(
        methods.FORK,
        "_meta.rekindle.messageId",
        wanted,
        "must be the id of a message in the session",
    )


# -- changes ------------------------------------------------------------------------------------


def _copy_subagents(
    conn: ConnectionState, owner_id: str, transcript: Transcript, point: _ForkPoint
) -> SubFlow:
    """Return the changes that copy the sub-agents of a session, and theirs, up to a point.

    The record of a sub-agent has its own numbers, so the time decides on its entries.
    """
    changes: list[Change] = []
    for item in subagents_in(transcript.turns):
        if item.child is None or item.seq > point.until_seq:
            continue
        until = item.child.last_seq
        if point.before_us is not None:
            entries: list[Entry] = yield ReadEntries(item.record_id, after=0)
            until = max((it.seq for it in entries if it.at_us < point.before_us), default=0)
        copy_id = item.copy_id(owner_id)
        changes += [
            Forked(
                session_id=copy_id,
                at_us=conn.at_us,
                parent_id=item.record_id,
                until_seq=until,
                owner_id=owner_id,
            ),
            Counted(
                session_id=copy_id,
                at_us=conn.at_us,
                turns=count_turns(item.child, until),
                messages=count_messages(item.child, until),
            ),
        ]
        own = _ForkPoint(until, point.before_us)
        changes += yield from _copy_subagents(conn, copy_id, item.child, own)
    return changes
