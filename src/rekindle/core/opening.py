"""`session/new`, `load` and `resume`: what a client must be able to rely on.

A session of ours is told from our record, whatever the agent has to say of it. One that only
the agent has is told by the agent, and recorded meanwhile, so that afterwards it is ours.
"""

from typing import Any

from rekindle.core.connection import Connection
from rekindle.core.flow import (
    Ask,
    Claim,
    Erase,
    Find,
    Flow,
    Known,
    Part,
    Pass,
    Recall,
    Refusal,
    Reply,
    SameFolder,
    Tell,
    Write,
)
from rekindle.core.params import (
    in_use,
    read_session_id,
    read_setup,
    refusal_of,
    unknown_session,
)
from rekindle.core.replay import as_line, replay
from rekindle.core.restart import awake
from rekindle.core.restore import (
    Restored,
    names_another,
    pass_on_what_only_the_user_can_solve,
    restore,
    settle,
)
from rekindle.core.sessions import Hearing, Told
from rekindle.core.transcript import Transcript
from rekindle.core.written import ready_entry, ready_line, written_opening
from rekindle.model import Holder, Session
from rekindle.wire import methods
from rekindle.wire.envelope import (
    INVALID_PARAMS,
    encode,
    members,
    rows,
    table,
    text,
)

_PATIENCE_FOR_LIST_US = 2_000_000


def new(conn: Connection, params: dict[str, Any], line: bytes) -> Flow:
    """Have the agent make a session, and see to it that its id is like no other."""
    setup = read_setup(methods.NEW, params)
    yield from awake(conn)
    if setup != params:
        line = encode({**(members(line) or {}), "params": setup})
    with conn.naming():
        reply: Reply = yield Pass(methods.NEW, line)
        result = table(reply.result)
        agent_id = text(result.get("sessionId"))
        if agent_id is None:
            if reply.line:
                return reply.line
            raise refusal_of(reply, "make a session")
        session_id: str = yield from unique_id(conn, agent_id)
        live = conn.sessions.bind(session_id, agent_id)
    is_ours_alone = session_id == agent_id
    live.setup = setup
    ready = reply.line if is_ours_alone else ready_line({**result, "sessionId": session_id})
    yield Write(written_opening(conn, live, methods.NEW, ready))
    yield Claim(session_id)
    return reply.line if is_ours_alone else {**result, "sessionId": session_id}


def unique_id(conn: Connection, agent_id: str) -> Part:
    """Return what the client calls a session: as the agent does, if no other is called so.

    Some agents number their sessions anew in each process.
    """
    known: set[str] = yield Known((agent_id,))
    return agent_id if agent_id not in known else f"{agent_id}-{conn.at_us:x}"


def load(conn: Connection, params: dict[str, Any], _: bytes) -> Flow:
    """Restore a session, and tell the client all that was said in it."""
    session, result, transcript = yield from _open(conn, methods.LOAD, params)
    if session is not None:
        is_running = conn.requests.is_open(methods.PROMPT, session.id)
        updates = replay(transcript, title=session.title, is_running=is_running)
        yield Tell(as_line(session.id, update) for update in updates)
    return result


def resume(conn: Connection, params: dict[str, Any], _: bytes) -> Flow:
    """Restore a session, and tell the client nothing of it."""
    _, result, _ = yield from _open(conn, methods.RESUME, params)
    return result


def _open(conn: Connection, method: str, params: dict[str, Any]) -> Part:
    """Open a session; return it if we had it, the answer, and what was said in it."""
    session_id = read_session_id(method, params)
    setup = read_setup(method, params)
    yield from awake(conn)
    session: Session | None = yield from _entitled(conn, method, session_id, setup)
    if session is None:
        return None, (yield from _adopted(conn, method, session_id, setup)), Transcript()
    how, answer, transcript = yield from _restored(conn, session, setup)
    result = opened(answer, how, transcript)
    yield from _noted(conn, method, session_id, result, transcript)
    return session, result, transcript


def _entitled(conn: Connection, method: str, session_id: str, setup: dict[str, Any]) -> Part:
    """Return the session, if we have it, once nothing speaks against opening it."""
    session: Session | None = yield Find(session_id)
    if session is None:
        return None
    if session.deleted_us is not None:
        raise unknown_session(session_id, "it was deleted; `rekindle undelete` brings it back")
    if session.cwd is None:
        # Never opened, or never told to its end: what there is of it is not its history.
        yield Erase(session_id)
        return None
    is_same: bool = yield SameFolder(session.cwd, setup["cwd"])
    if not is_same:
        raise Refusal(
            INVALID_PARAMS,
            f"{method}: cwd is {setup['cwd']}, but this session belongs to {session.cwd}; if the "
            "folder was moved, `rekindle relocate` tells Rekindle so",
            {"field": "cwd", "value": setup["cwd"], "expected": session.cwd},
        )
    holder: Holder | None = yield Claim(session_id, conn.settings.may_take_over)
    if holder is not None:
        raise in_use(session_id, holder)
    return session


def _restored(conn: Connection, session: Session, setup: dict[str, Any]) -> Part:
    """Restore a session; return how, the agent's answer, and the transcript."""
    # Agents find their sessions by the folder, as it was spelled when they were made.
    setup = {**setup, "cwd": session.cwd}
    live = conn.sessions.get(session.id)
    if live is not None and not live.needs_restore:
        live.setup, live.is_closed = setup, False
        how, answer, transcript = Restored.LIVE, {}, None
    else:
        how, answer, transcript = yield from restore(conn, session, setup)
    if transcript is None:
        transcript = yield Recall(session.id)
    return how, answer, transcript


def _adopted(conn: Connection, method: str, session_id: str, setup: dict[str, Any]) -> Part:
    """Open a session that only the agent has, and record what it tells of it."""
    own = conn.agent.own
    # A load tells us the history, even if the client does not want to hear it.
    means = methods.LOAD if own.offers(methods.LOAD) else methods.RESUME
    if not own.offers(means):
        raise unknown_session(session_id)
    live = conn.sessions.bind(session_id, session_id)
    live.setup = setup
    live.told = Told()
    live.hearing = Hearing.LIVE if method == methods.LOAD else Hearing.LEARN
    try:
        reply: Reply = yield Ask(means, {"sessionId": session_id, **setup})
        pass_on_what_only_the_user_can_solve(reply)
        if not reply.is_success or names_another(reply, session_id):
            # Agents have many ways to say that they do not know a session.
            why = "" if reply.is_success else refusal_of(reply, "open it").message
            raise unknown_session(session_id, why)
        if means == methods.LOAD:
            has_told: bool = yield from settle(live, 0)
            if not has_told and not (yield from _is_listed(conn, session_id, setup)):
                raise unknown_session(session_id)
    except Refusal:
        conn.sessions.drop(session_id)
        yield Erase(session_id)
        raise
    result = opened(table(reply.result), Restored.NATIVE, Transcript())
    yield Write(written_opening(conn, live, method, ready_line(result)))
    yield Claim(session_id)
    return result


def _is_listed(conn: Connection, session_id: str, setup: dict[str, Any]) -> Part:
    """Tell whether the agent itself says that it has the session: one without a word yet."""
    if not conn.agent.own.offers(methods.LIST):
        return False
    reply: Reply = yield Ask(methods.LIST, {"cwd": setup["cwd"]}, _PATIENCE_FOR_LIST_US)
    listed = rows(table(reply.result).get("sessions"))
    return any(table(info).get("sessionId") == session_id for info in listed)


def _noted(
    conn: Connection, method: str, session_id: str, result: dict[str, Any], transcript: Transcript
) -> Part:
    """Record what the client is answered; the transcript then knows it too."""
    ready = ready_line(result)
    transcript.add(ready_entry(ready, conn.at_us))
    live = conn.sessions.get(session_id)
    if live is not None and result["_meta"]["rekindle"]["restored"] != Restored.LIVE:
        yield Write(written_opening(conn, live, method, ready))


def opened(answer: dict[str, Any], how: Restored, transcript: Transcript) -> dict[str, Any]:
    """Return the answer to a load, resume or fork: the agent's words, else those on record."""
    result: dict[str, Any] = {}
    mode = table(transcript.state.get("current_mode_update")).get("currentModeId")
    if isinstance(answer.get("modes"), dict):
        result["modes"] = answer["modes"]
    elif transcript.modes:
        current = {} if mode is None else {"currentModeId": mode}
        result["modes"] = {**transcript.modes, **current}
    options = table(transcript.state.get("config_option_update")).get("configOptions")
    if rows(answer.get("configOptions")) or rows(options):
        result["configOptions"] = rows(answer.get("configOptions")) or rows(options)
    meta = {**table(answer.get("_meta")), "rekindle": {"restored": how.value}}
    return {**result, "_meta": meta}
