"""`session/fork`: a session that begins with another's record.

By the agent's own means if it has them and the whole of the session is wanted; else by ours: a
new session of the agent's, which is told with the first prompt what was said before.
"""

from typing import Any

from rekindle.acp import methods
from rekindle.jsonvalue import as_object, as_str
from rekindle.model import UNKNOWN_TO_AGENT, Change, Counted, Forked, Session, Titled, TitleSource
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    AcquireLease,
    AgentReply,
    CallAgent,
    Flow,
    GetSession,
    LoadTranscript,
    RecordChanges,
    ReleaseLease,
    SubFlow,
)
from rekindle.proxy.handlers.adopt import adopt
from rekindle.proxy.handlers.agent_start import awake
from rekindle.proxy.handlers.open import (
    check_has_folder,
    check_same_folder,
    is_at_work,
    opened,
    unique_id,
)
from rekindle.proxy.handlers.restore import (
    PATIENCE_US,
    Restored,
    begin,
    is_its_own,
    no_handover,
    what_it_may_lack,
)
from rekindle.proxy.live_session import UpdatePolicy
from rekindle.proxy.opening_entries import ready_line, written_opening
from rekindle.proxy.translation import opening_for_client, setup_for_agent
from rekindle.proxy.validation import (
    deleted_session,
    invalid,
    our_meta,
    read_session_id,
    read_setup,
)
from rekindle.transcript.model import Role, TranscriptMessage
from rekindle.transcript.reducer import Transcript
from rekindle.transcript.replay_v1 import message_id

_FORK = " (fork)"


def fork(conn: ConnectionState, params: dict[str, Any], _: bytes) -> Flow:
    """Make a session that begins with another's record."""
    session_id = read_session_id(methods.FORK, params)
    setup = read_setup(methods.FORK, params)
    yield from awake(conn)
    session: Session = yield from _parent(conn, session_id, setup)
    transcript: Transcript = yield LoadTranscript(session_id)
    until = _fork_point(params, transcript, session)
    is_whole = until == session.last_seq
    with conn.naming():
        how, agent_id, answer = yield from _made(conn, session, setup, is_whole=is_whole)
        fork_id: str = yield from unique_id(conn, agent_id)
        live = conn.sessions.bind(fork_id, agent_id)
    live.setup = setup
    live.hearing = UpdatePolicy.DISCARD
    changes = forked(fork_id, conn.at_us, session, transcript, until)
    live.needs_handover = how is Restored.HANDOVER and _count_turns(transcript, until) > 0
    # A turn that goes on in the original was not cut off: the agent knows what it copies.
    if not is_at_work(conn, session_id):
        live.reminder = what_it_may_lack(conn, how, transcript)
    result = {"sessionId": fork_id, **opened(answer, how, transcript)}
    yield RecordChanges([*changes, *written_opening(conn, live, methods.FORK, ready_line(result))])
    yield AcquireLease(fork_id)
    return opening_for_client(conn, live, result)


def _parent(conn: ConnectionState, session_id: str, setup: dict[str, Any]) -> SubFlow:
    """Return the session to be forked; one that only the agent has is heard first."""
    session: Session | None = yield GetSession(session_id)
    if session is not None and session.deleted_us is not None:
        raise deleted_session(session_id)
    if session is not None:
        check_has_folder(session)
    if session is not None and session.cwd is not None:
        yield from check_same_folder(methods.FORK, session, setup)
        return session
    yield from adopt(conn, methods.RESUME, session_id, setup)
    live = conn.sessions.bind(session_id, session_id)
    yield RecordChanges(written_opening(conn, live, methods.RESUME, ready_line({})))
    live.is_closed = True
    yield ReleaseLease(session_id)
    return (yield GetSession(session_id))


def _made(
    conn: ConnectionState, session: Session, setup: dict[str, Any], *, is_whole: bool
) -> SubFlow:
    """Have the agent make the session; return how it will know what was said, id and answer."""
    if is_whole:
        agent_id, answer = yield from _natively(conn, session, setup)
        if agent_id is not None:
            return Restored.NATIVE, agent_id, answer
    if not conn.settings.may_hand_over:
        raise no_handover(session.id)
    agent_id, answer = yield from begin(conn, setup)
    return Restored.HANDOVER, agent_id, answer


def _natively(conn: ConnectionState, session: Session, setup: dict[str, Any]) -> SubFlow:
    """Return the fork's id and the agent's answer; no id if it cannot fork the session."""
    live = conn.sessions.get(session.id)
    is_told = live is None or not (live.needs_handover or live.is_outdated)
    knows = session.agent_session_id != UNKNOWN_TO_AGENT and is_told
    if not (conn.agent.own.offers(methods.FORK) and knows and is_its_own(conn, session)):
        return None, {}
    told = setup_for_agent(conn, methods.FORK, setup)
    params = {"sessionId": session.agent_session_id, **told}
    reply: AgentReply = yield CallAgent(methods.FORK, params, PATIENCE_US)
    named = as_str(as_object(reply.result).get("sessionId"))
    is_another = reply.is_success and named != session.agent_session_id
    return (named if is_another else None), as_object(reply.result)


def _fork_point(params: dict[str, Any], transcript: Transcript, session: Session) -> int:
    """Return the last entry that the fork begins with."""
    asked = our_meta(params).get("messageId")
    if asked is None:
        return session.last_seq
    items = [item for turn in transcript.turns for item in turn.items]
    for index, item in enumerate(items):
        if isinstance(item, TranscriptMessage) and message_id(item) == asked:
            later = [other.seq for other in items[index + 1 :]]
            return min(later) - 1 if later else session.last_seq
    raise invalid(
        methods.FORK, "_meta.rekindle.messageId", asked, "must be a message of the session"
    )


def forked(
    fork_id: str, at_us: int, parent: Session, transcript: Transcript, until_seq: int
) -> list[Change]:
    """Return what makes a session that begins with another's record up to an entry."""
    title = f"{(parent.title or 'Session').removesuffix(_FORK)}{_FORK}"
    turns, messages = _count_turns(transcript, until_seq), _count_messages(transcript, until_seq)
    return [
        Forked(session_id=fork_id, at_us=at_us, parent_id=parent.id, until_seq=until_seq),
        *_titled(fork_id, at_us, parent, title),
        Counted(session_id=fork_id, at_us=at_us, turns=turns, messages=messages),
    ]


def _titled(fork_id: str, at_us: int, parent: Session, title: str) -> list[Change]:
    """Return what names a fork as its parent was named, so that the same may rename it."""
    source = parent.title_source or TitleSource.PROMPT
    return [
        Titled(session_id=fork_id, at_us=at_us, source=source, title=words)
        for words in (None, title)
    ]


def _count_turns(transcript: Transcript, until_seq: int) -> int:
    return sum(bool(turn.items) and turn.items[0].seq <= until_seq for turn in transcript.turns)


def _count_messages(transcript: Transcript, until_seq: int) -> int:
    items = [item for turn in transcript.turns for item in turn.items]
    return sum(
        isinstance(item, TranscriptMessage)
        and item.role is not Role.THOUGHT
        and item.seq <= until_seq
        for item in items
    )
