"""`session/archive`, `session/unarchive`, `session/set_title` and `session/status`.

The record answers them, so they work with every agent, and for sessions that the agent has lost. An
agent that has a method receives the request too, with its own session id. If it fails, the record
has the change all the same: the result names the failure in `_meta.rekindle.agentError`.

A session that only the agent has is the agent's to change, if it has the method. Otherwise it must
be in the agent's list, and the store gets a placeholder with the mark.
"""

from typing import Any

from msgspec import Struct

from rekindle.acp import methods, update_kinds
from rekindle.acp.jsonrpc import RESOURCE_NOT_FOUND, update_line
from rekindle.jsonvalue import Json, as_object, as_str, without
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    AgentArchived,
    Archived,
    Change,
    Kind,
    LeaseHolder,
    Session,
    Titled,
    TitleSource,
)
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    NO_RESPONSE,
    AgentReply,
    CallAgent,
    ClientRequest,
    DetachClient,
    Flow,
    GetLeaseHolder,
    GetSession,
    RecordChanges,
    Refusal,
    ReleaseLease,
    ReportToUser,
    SendToSession,
    SubFlow,
    WriteChanges,
)
from rekindle.proxy.handlers.close import close_session
from rekindle.proxy.handlers.list import AgentList, ask_agent, listed_by_agent
from rekindle.proxy.handlers.open import check_has_folder, session_state
from rekindle.proxy.handlers.placeholders import placeholder_changes
from rekindle.proxy.handlers.restore import belongs_to_agent
from rekindle.proxy.journal import agent_entry
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.peers import ClientConnection
from rekindle.proxy.validation import (
    deleted_session,
    invalid,
    read_session_id,
    refusal_of,
    unknown_session,
)
from rekindle.transcript.titles import InvalidTitle, title_from_user

_AGENT_TIMEOUT_US = 10_000_000
_OPEN, _SAVED = "open", "saved"


class _KnownSession(Struct, frozen=True):
    """A session of a request, as the record has it."""

    id: str
    session: Session | None
    """None if at most the agent has it."""
    live: LiveSession | None

    @property
    def agent_id(self) -> str:
        """The id by which the agent knows it."""
        if self.live is not None and not self.live.memory.is_missing:
            return self.live.agent_id
        return self.id if self.session is None else self.session.agent_session_id


# -- the methods ------------------------------------------------------------------------------


def archive(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Archive a session. An open one is closed, unless other clients have it open."""
    return (yield from _set_archived(conn, request, is_archived=True))


def unarchive(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Remove a session from the archive. It is not opened."""
    return (yield from _set_archived(conn, request, is_archived=False))


def _set_archived(conn: ConnectionState, request: ClientRequest, *, is_archived: bool) -> SubFlow:
    known: _KnownSession = yield from _find(conn, request)
    marked = Archived(session_id=known.id, at_us=conn.at_us, is_archived=is_archived)
    if known.session is None:
        yield from _change_at_agent(conn, request, known, [marked])
        return {}
    yield WriteChanges([marked])
    if is_archived and known.live is not None and not known.live.is_closed:
        if known.live.is_open_without(request.client.peer):
            yield DetachClient(known.live)
            return {}
        yield from close_session(conn, known.live)
        yield ReleaseLease(known.id)
    reply: AgentReply | None = yield from _forward(conn, request, known)
    if reply is not None and reply.error is None:
        done = AgentArchived(session_id=known.id, at_us=conn.at_us, is_archived=is_archived)
        yield RecordChanges([done])
        if is_archived and known.live is not None:
            # The agent has freed the session. It has to be restored when it is opened again.
            conn.drop(known.id)
            conn.sessions.abandon(known.agent_id)
    return (yield from _result(request, {}, reply))


def set_title(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Set the user's title of a session, as `rekindle rename` does."""
    title = _read_title(request.params)
    known: _KnownSession = yield from _find(conn, request)
    titled = Titled(session_id=known.id, at_us=conn.at_us, source=TitleSource.USER, title=title)
    if known.session is None:
        result: Json = yield from _change_at_agent(conn, request, known, [titled], title=title)
        return {"title": as_str(result.get("title")) or title}
    yield WriteChanges([titled])
    if known.live is not None:
        known.live.title.user_titled(title)
        if not known.live.is_closed:
            yield from _announce(conn, known.live, title)
    reply: AgentReply | None = yield from _forward(conn, request, known, title=title)
    return (yield from _result(request, {"title": title}, reply))


def status(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Return whether a session is open. Nothing is opened, recorded or started."""
    session_id = read_session_id(methods.STATUS, request.params)
    client = request.client
    if conn.sessions.get_open(session_id) is not None:
        return _status(client, _OPEN, {"state": session_state(conn, session_id)})
    known: _KnownSession = yield from _find(conn, request)
    if known.session is not None:
        holder: LeaseHolder | None = yield GetLeaseHolder(session_id)
        if holder is not None:
            # Another process has it open. Only that process knows its state.
            return _status(client, _OPEN)
        if known.live is not None:
            # The client has closed it. An agent that cannot close may still have it in memory.
            return _status(client, _SAVED)
    reply: AgentReply | None = yield from _forward(conn, request, known)
    result = as_object(reply.result) if reply is not None and reply.error is None else {}
    if as_str(result.get("status")) is not None:
        return _status(client, str(result["status"]), result.get("state"))
    if known.session is None:
        yield from _check_at_agent(conn, known.id, reply)
    return _status(client, _SAVED)


def _status(client: ClientConnection, value: str, state: object = None) -> Json:
    """Return the result of `session/status`. Version 1 has no states."""
    has_state = client.protocol > 1 and bool(as_object(state))
    return {"status": value, **({"state": state} if has_state else {})}


# -- the session ------------------------------------------------------------------------------


def _find(conn: ConnectionState, request: ClientRequest) -> SubFlow:
    """Return the session of a request. Raises Refusal if it was deleted."""
    session_id = read_session_id(request.method, request.params)
    session: Session | None = yield GetSession(session_id)
    if session is not None and session.deleted_us is not None:
        raise deleted_session(session_id)
    if session is not None:
        check_has_folder(session)
        if session.is_unopened and not session.is_placeholder:
            # The record is incomplete, or a sub-agent's.
            session = None
    return _KnownSession(session_id, session, conn.sessions.get(session_id))


def _read_title(params: Json) -> str:
    title = params.get("title")
    if not isinstance(title, str):
        raise invalid(methods.SET_TITLE, "title", title, "must be a string")
    try:
        return title_from_user(title)
    except InvalidTitle as error:
        raise invalid(methods.SET_TITLE, "title", title, str(error)) from None


def _announce(conn: ConnectionState, live: LiveSession, title: str) -> SubFlow:
    """Send and record the title of an open session."""
    update = {"sessionUpdate": update_kinds.SESSION_INFO_UPDATE, "title": title}
    line = update_line(live.id, update)
    yield RecordChanges([agent_entry(conn, live.id, Kind.UPDATE, line)])
    yield SendToSession(live, line)


# -- the agent --------------------------------------------------------------------------------


def _forward(
    conn: ConnectionState,
    request: ClientRequest,
    known: _KnownSession,
    **fields: Any,  # noqa: ANN401 - JSON
) -> SubFlow:
    """Send the request to the agent if it has the method; return its reply, or None."""
    is_possible = conn.agent.is_running and conn.agent.capabilities.offers(request.method)
    if known.session is not None:
        is_possible = is_possible and belongs_to_agent(conn, known.session)
    # Some agents number their sessions from one in each process.
    is_its_own = conn.sessions.is_free(known.agent_id, known.id)
    if not is_possible or not is_its_own or known.agent_id == UNKNOWN_TO_AGENT:
        return None
    params = {"sessionId": known.agent_id, **fields}
    meta = without(as_object(request.params.get("_meta")), "rekindle")
    if meta:
        params["_meta"] = meta
    return (yield CallAgent(request.method, params, _AGENT_TIMEOUT_US))


def _change_at_agent(
    conn: ConnectionState,
    request: ClientRequest,
    known: _KnownSession,
    marks: list[Change],
    **fields: Any,  # noqa: ANN401 - JSON
) -> SubFlow:
    """Change a session that only the agent has; return the agent's result. Raises Refusal."""
    reply: AgentReply | None = yield from _forward(conn, request, known, **fields)
    yield from _check_at_agent(conn, known.id, reply)
    if reply is not None:
        return as_object(reply.result)
    yield WriteChanges(placeholder_changes(conn, known.id, marks))
    return {}


def _check_at_agent(conn: ConnectionState, session_id: str, reply: AgentReply | None) -> SubFlow:
    """Raise Refusal unless the agent has a session: its reply shows that, or else its list."""
    if reply is not None:
        if reply.error is not None:
            raise _agent_refusal(session_id, reply)
        return
    if conn.agent.is_running and conn.agent.capabilities.offers(methods.LIST):
        agents: AgentList = yield from ask_agent(conn, None)
        info = agents.infos.get(session_id)
        if info is not None and listed_by_agent(info) is not None:
            return
    raise unknown_session(session_id)


def _agent_refusal(session_id: str, reply: AgentReply) -> Refusal:
    """Return the agent's own refusal of a session that only the agent may have."""
    refusal = refusal_of(reply, "use the session")
    if refusal.code == RESOURCE_NOT_FOUND:
        return unknown_session(session_id)
    return refusal


def _result(request: ClientRequest, result: Json, reply: AgentReply | None) -> SubFlow:
    """Return the result of a change that the record has, with the agent's failure, if any."""
    if reply is None or reply.error is None:
        return result
    error = _agent_error(reply)
    if error.get("code") != RESOURCE_NOT_FOUND:
        # An agent that has lost the session is nothing to report.
        text = f"Rekindle has recorded the change, but {request.method} of the agent failed"
        yield ReportToUser(text, error["message"])
    return {**result, "_meta": {"rekindle": {"agentError": error}}}


def _agent_error(reply: AgentReply) -> Json:
    if reply.error is NO_RESPONSE:
        return {"message": f"no response within {_AGENT_TIMEOUT_US // 1_000_000} s"}
    error = as_object(reply.error)
    message = as_str(error.get("message")) or "the agent gave no reason"
    return {"code": error.get("code"), "message": message}
