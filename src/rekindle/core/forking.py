"""`session/fork`: a session that begins with another's record.

By the agent's own means if it has them and the whole of the session is wanted; else by ours: a
new session of the agent's, which is told with the first prompt what was said before.
"""

from typing import Any

from rekindle.core.connection import Connection
from rekindle.core.flow import Ask, Claim, Find, Flow, Part, Recall, Reply, Write
from rekindle.core.opening import opened, unique_id
from rekindle.core.params import invalid, our_meta, read_session_id, read_setup, unknown_session
from rekindle.core.replay import message_id
from rekindle.core.restart import awake
from rekindle.core.restore import Restored, begin, is_same_agent, no_handover
from rekindle.core.sessions import Hearing
from rekindle.core.transcript import Message, Transcript, count_messages
from rekindle.core.written import ready_line, written_opening
from rekindle.model import NOBODY, Change, Forked, Session, Tallied, Titled, TitleSource
from rekindle.wire import methods
from rekindle.wire.envelope import table, text

_FORK = " (fork)"


def fork(conn: Connection, params: dict[str, Any], _: bytes) -> Flow:
    """Make a session that begins with another's record."""
    session_id = read_session_id(methods.FORK, params)
    setup = read_setup(methods.FORK, params)
    yield from awake(conn)
    session: Session | None = yield Find(session_id)
    if session is None or session.deleted_us is not None or session.cwd is None:
        raise unknown_session(session_id)
    transcript: Transcript = yield Recall(session_id)
    until = _fork_point(params, transcript, session)
    is_whole = until == session.last_seq
    with conn.naming():
        how, answer = yield from _made(conn, session, setup, is_whole=is_whole)
        agent_id = str(answer["sessionId"])
        fork_id: str = yield from unique_id(conn, agent_id)
        live = conn.sessions.bind(fork_id, agent_id)
    live.setup = setup
    live.hearing = Hearing.SWALLOW
    live.needs_handover = how is Restored.HANDOVER
    title = f"{(session.title or 'Session').removesuffix(_FORK)}{_FORK}"
    result = {"sessionId": fork_id, **opened(answer, how, transcript)}
    yield Write(
        [
            Forked(session_id=fork_id, at_us=conn.at_us, parent_id=session_id, until_seq=until),
            *_titled(conn, fork_id, session, title),
            _tallied(conn, fork_id, transcript, until),
            *written_opening(conn, live, methods.FORK, ready_line(result)),
        ]
    )
    yield Claim(fork_id)
    return result


def _made(conn: Connection, session: Session, setup: dict[str, Any], *, is_whole: bool) -> Part:
    """Have the agent make the session; return how it will know what was said, and its answer."""
    if is_whole:
        answer: dict[str, Any] | None = yield from _natively(conn, session, setup)
        if answer is not None:
            return Restored.NATIVE, answer
    if not conn.settings.may_hand_over:
        raise no_handover(session.id)
    return Restored.HANDOVER, (yield from begin(setup))


def _natively(conn: Connection, session: Session, setup: dict[str, Any]) -> Part:
    """Return the agent's answer, if it can fork the session and does."""
    live = conn.sessions.get(session.id)
    knows = session.agent_session_id != NOBODY and (live is None or not live.needs_handover)
    is_same = is_same_agent(conn.agent.identity, session.agent)
    if not (conn.agent.own.offers(methods.FORK) and knows and is_same):
        return None
    reply: Reply = yield Ask(methods.FORK, {"sessionId": session.agent_session_id, **setup})
    named = text(table(reply.result).get("sessionId"))
    if not reply.is_success or named in {None, session.agent_session_id}:
        return None
    return table(reply.result)


def _fork_point(params: dict[str, Any], transcript: Transcript, session: Session) -> int:
    """Return the last entry that the fork begins with."""
    asked = our_meta(params).get("messageId")
    if asked is None:
        return session.last_seq
    items = [item for turn in transcript.turns for item in turn.items]
    for index, item in enumerate(items):
        if isinstance(item, Message) and message_id(item) == asked:
            later = [other.seq for other in items[index + 1 :]]
            return min(later) - 1 if later else session.last_seq
    raise invalid(
        methods.FORK, "_meta.rekindle.messageId", asked, "must be a message of the session"
    )


def _titled(conn: Connection, fork_id: str, parent: Session, title: str) -> list[Change]:
    """Return what names a fork as its parent was named, so that the same may rename it."""
    source = parent.title_source or TitleSource.PROMPT
    return [
        Titled(session_id=fork_id, at_us=conn.at_us, source=source, title=words)
        for words in (None, title)
    ]


def _tallied(conn: Connection, fork_id: str, transcript: Transcript, until: int) -> Tallied:
    turns = [turn for turn in transcript.turns if turn.items and turn.items[0].seq <= until]
    messages = count_messages(transcript, until)
    return Tallied(session_id=fork_id, at_us=conn.at_us, turns=len(turns), messages=messages)
