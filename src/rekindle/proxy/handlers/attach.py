"""Use a session that another process has: attach to it, and continue when it ends.

The other process is the host of the session. It serves the client as one of its own, so nothing
is translated here. If the host ends, the process that acquires the lease continues the session, and
the others attach to that one. The client receives what the record has more than the client.
"""

from msgspec import Struct
from msgspec.structs import replace

from rekindle.acp import methods
from rekindle.acp.jsonrpc import INTERNAL_ERROR, update_line
from rekindle.jsonvalue import Json, as_object, as_str
from rekindle.model import UNKNOWN_TO_AGENT, Entry, LeaseHolder, Session
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    AgentReply,
    CallHost,
    CatchUp,
    ClientRequest,
    DisconnectFromHost,
    Flow,
    ForwardToHost,
    GetSession,
    LoadTranscript,
    Pause,
    ReadEntries,
    RecordChanges,
    Refusal,
    ReportHostDeath,
    ReportToUser,
    SendToClient,
    SubFlow,
)
from rekindle.proxy.handlers.ask_host import RELEASE_TIMEOUT_US, open_connection
from rekindle.proxy.handlers.initialize import advertise
from rekindle.proxy.handlers.restore import acquire_lease
from rekindle.proxy.host_connections import AttachedSession, HostConnection, HostRequest
from rekindle.proxy.journal import opening_entries, recorded_response
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.missed_updates import (
    ending_of_last_turn,
    missed_lines,
    responses_to,
    undelivered_prompts,
)
from rekindle.proxy.peers import ClientConnection
from rekindle.proxy.session_clients import Attachment, SessionSetup
from rekindle.proxy.validation import LeasedElsewhere, read_setup, refusal_of, rekindle_meta
from rekindle.transcript.reducer import Transcript

_CONNECT_TIMEOUT_US = 5_000_000
_RETRY_US = 50_000
_MAX_RETRIES = 60


class _HostUnreachable(Exception):
    """A host has ended, or does not answer. `refusal` reports that to the client."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


# -- attaching --------------------------------------------------------------------------------


def attach(
    conn: ConnectionState, request: ClientRequest, attachment: Attachment, leased: LeasedElsewhere
) -> SubFlow:
    """Open a session at its host; return the response. Raises Refusal.

    Another process of the user must connect to that host itself, which then checks it: an agent
    could otherwise use this process to approve its own requests.
    """
    client, session_id = request.client, str(request.session_id)
    if client.is_local_process:
        raise leased
    try:
        connection: HostConnection = yield from _connect(conn, client, leased)
    except _HostUnreachable as unreachable:
        raise unreachable.refusal from unreachable
    setup = SessionSetup(read_setup(request.method, request.params), client.protocol, client.peer)
    connection.sessions[session_id] = AttachedSession(setup, attachment)
    reply: AgentReply = yield ForwardToHost(connection.peer, request.method, request.line)
    if not reply.line:
        # The client may have a part of the replay, so nothing is repeated for it.
        del connection.sessions[session_id]
        text = "the process that had the session ended before it answered: load it again"
        raise Refusal(INTERNAL_ERROR, f"{request.method}: {text}", {"sessionId": session_id})
    if reply.error is not None:
        del connection.sessions[session_id]
        yield from _leave_if_unused(connection)
    elif conn.sessions.get(session_id) is not None:
        # It was used here before the other process took it over. The agent here may still send
        # updates of it.
        conn.sessions.abandon(conn.sessions[session_id].agent_id)
        conn.drop(session_id)
    return reply.line


def _connect(conn: ConnectionState, client: ClientConnection, leased: LeasedElsewhere) -> SubFlow:
    """Return a connection to a host for a client.

    Raises LeasedElsewhere if the host cannot serve the client, and _HostUnreachable.
    """
    connection = conn.hosts.to_host(leased.holder, client.peer)
    if connection is not None:
        return connection
    if not leased.holder.socket:
        raise leased.because("it runs an earlier version of Rekindle")
    connection = yield from open_connection(conn, client.peer, leased.holder)
    if connection is None:
        raise _HostUnreachable(leased)
    meta = as_object(client.initialize_params.get("_meta"))
    ours = {**as_object(meta.get("rekindle")), "positions": True}
    params = {**client.initialize_params, "_meta": {**meta, "rekindle": ours}}
    reply: AgentReply = yield CallHost(
        connection.peer, methods.INITIALIZE, params, _CONNECT_TIMEOUT_US
    )
    own = advertise(conn, client, conn.agent.initialize_result)
    reason = difference(own, reply)
    if reason:
        yield DisconnectFromHost(connection.peer)
        if not reply.line:
            raise _HostUnreachable(leased.because(reason))
        raise leased.because(reason)
    connection.is_accepted = True
    return connection


def difference(own: Json, reply: AgentReply) -> str:
    """Return why the agent of a host cannot replace the own one; empty if it can."""
    theirs = as_object(reply.result)
    if reply.error is not None or not theirs:
        return "it does not answer"
    ours_name, their_name = _agent_name(own), _agent_name(theirs)
    if ours_name != their_name:
        return f"its agent is {their_name or 'another one'}"
    offered = _prompt_capabilities(theirs)
    missing = [name for name in _prompt_capabilities(own) if name not in offered]
    if missing:
        return f"its agent does not accept {' and '.join(missing)} in prompts"
    return ""


def _agent_name(result: Json) -> str | None:
    info = as_object(result.get("agentInfo")) or as_object(result.get("info"))
    return as_str(info.get("name"))


def _prompt_capabilities(result: Json) -> list[str]:
    v1 = as_object(as_object(result.get("agentCapabilities")).get("promptCapabilities"))
    v2 = as_object(as_object(as_object(result.get("capabilities")).get("session")).get("prompt"))
    offered = {**v1, **v2}
    return [name for name, value in offered.items() if value is not None and value is not False]


def _leave_if_unused(connection: HostConnection) -> SubFlow:
    if not connection.sessions and not connection.requests:
        yield DisconnectFromHost(connection.peer)


# -- the end of a host ----------------------------------------------------------------------------


class _LeftSession(Struct, frozen=True):
    """A session that a client used at a host which has ended."""

    id: str
    client: ClientConnection
    attached: AttachedSession
    seq: int | None
    """The last entry whose effects the client has; None if the host has not reported it."""
    prompts: list[HostRequest]
    """The prompts of the client that the host has not answered."""


def continue_session(
    conn: ConnectionState, client: ClientConnection, former: HostConnection, session_id: str
) -> Flow:
    """Continue a session whose host has ended: here, or at the process that was faster."""
    prompts = former.prompts_of(session_id)
    seq = former.seqs.get(session_id)
    left = _LeftSession(session_id, client, former.sessions[session_id], seq, prompts)
    last, refusal = former.holder, None
    conn.hosts.leave(client.peer, prompts)
    try:
        while True:
            holder: LeaseHolder | None = yield from _find_new_host(conn, last, session_id)
            if holder is None:
                yield from _continue_here(conn, left)
                return None
            if holder.token == last.token:
                break
            try:
                yield from _continue_there(conn, left, holder)
            except _HostUnreachable as unreachable:
                # It has ended as well, or it does not answer.
                last, refusal = holder, unreachable.refusal
            else:
                return None
    except Refusal as error:
        refusal = error
    finally:
        conn.hosts.continued(client.peer, prompts)
    # Without a refusal, the host is alive, and has closed the session for its clients.
    yield SendToClient(responses_to(client.protocol, prompts, [], Transcript()))
    if refusal is not None:
        text = f"session {session_id} is not open any more: its host has ended"
        yield ReportToUser(text, refusal.message)
    return None


def _find_new_host(conn: ConnectionState, former: LeaseHolder, session_id: str) -> SubFlow:
    """Acquire the lease of a session, or return the process that has it.

    The connection of a host that is killed may end a moment before its lease.
    """
    for _ in range(_MAX_RETRIES):
        try:
            yield from acquire_lease(conn, session_id)
        except LeasedElsewhere as leased:
            if leased.holder.token != former.token:
                return leased.holder
        else:
            return None
        yield Pause(_RETRY_US)
    return former


def _continue_here(conn: ConnectionState, left: _LeftSession) -> SubFlow:
    """Let this process be the host of a session. Its agent restores it with the next prompt."""
    live = conn.sessions.get(left.id)
    is_first = live is None
    if live is None:
        live = conn.bind(left.id, UNKNOWN_TO_AGENT)
        session: Session | None = yield GetSession(left.id)
        setup = left.attached.setup
        # Agents find their sessions by the folder as it was spelled when they were created.
        folder = {} if session is None else {"cwd": session.cwd}
        live.setup = replace(setup, params={**setup.params, **folder})
        live.memory.advance("agent_exited")
    attachment = left.attached.attachment
    attachment.is_joining = True
    conn.attach(left.client.peer, live, attachment)
    if conn.settings.has_hooks and is_first:
        yield from _report_death(live)
    undelivered, ending = yield from _catch_up(left)
    attachment.is_joining = False
    # The entries of another process follow: the prompts that the host left open have ended.
    yield RecordChanges([*opening_entries(conn, live, methods.RESUME, recorded_response({}))])
    if left.client.protocol > 1 or len(undelivered) == len(left.prompts):
        yield SendToClient([_state_line(left, ending)])
    _deliver(conn, left, undelivered)


def _report_death(live: LiveSession) -> SubFlow:
    """Report the death of a host, unless the record shows that no turn was running.

    A host that ends by itself records the end of its turns.
    """
    transcript: Transcript = yield LoadTranscript(live.id)
    if transcript.turns and transcript.turns[-1].ended_us is None:
        yield ReportHostDeath(live, "the process that ran the agent has ended")


def _continue_there(conn: ConnectionState, left: _LeftSession, holder: LeaseHolder) -> SubFlow:
    """Attach to the process that has taken the session over.

    Raises Refusal if that process cannot serve the client, and _HostUnreachable.
    """
    leased = LeasedElsewhere(left.id, holder, may_take_over=conn.settings.may_take_over)
    connection: HostConnection = yield from _connect(conn, left.client, leased)
    connection.held[left.id] = []
    connection.sessions[left.id] = left.attached
    attachment = left.attached.attachment
    ours: Json = {"permissions": attachment.wants_permissions}
    if attachment.is_observer:
        ours["role"] = "observer"
    params: Json = {
        "sessionId": left.id,
        "cwd": left.attached.setup.params["cwd"],
        "mcpServers": [],
        "_meta": {"rekindle": ours},
    }
    reply: AgentReply = yield CallHost(connection.peer, methods.RESUME, params, RELEASE_TIMEOUT_US)
    if reply.error is not None:
        del connection.sessions[left.id]
        yield CatchUp(connection.peer, left.id)
        yield from _leave_if_unused(connection)
        if not reply.line:
            raise _HostUnreachable(leased)
        raise refusal_of(reply, "attach to the session")
    undelivered, ending = yield from _catch_up(left, connection.seqs.get(left.id))
    # A turn may have begun and ended meanwhile. The host sends version 2 clients its state.
    turn = rekindle_meta(as_object(reply.result)).get("turn")
    yield SendToClient([_state_line(left, turn or ending)])
    yield CatchUp(connection.peer, left.id)
    _deliver(conn, left, undelivered)


def _deliver(conn: ConnectionState, left: _LeftSession, prompts: list[HostRequest]) -> None:
    """Process the prompts that the host has not processed, before later messages."""
    if left.client.peer in conn.clients:
        conn.queues.wait_first(left.id, left.client.peer, [it.line for it in prompts])


def _state_line(left: _LeftSession, state: Json) -> bytes:
    """Return the update that reports the state of a turn to a client."""
    if left.client.protocol > 1:
        return update_line(left.id, {"sessionUpdate": "state_update", **state})
    info = {"sessionUpdate": "session_info_update", "_meta": {"rekindle": {"turn": state}}}
    return update_line(left.id, info)


def _catch_up(left: _LeftSession, until: int | None = None) -> SubFlow:
    """Send the client what the record has more than the client, up to the entry `until`.

    Return the prompts of the client that are not in the record, because no agent has received
    them, and how the last turn has ended.
    """
    entries: list[Entry] = []
    missed: list[Entry] = []
    undelivered: list[HostRequest] = []
    if left.seq is not None:
        first = min((it.after_seq for it in left.prompts), default=left.seq)
        entries = yield ReadEntries(left.id, min(first, left.seq))
        undelivered = undelivered_prompts(left.prompts, entries)
        entries = [it for it in entries if it.seq <= (until or it.seq)]
        missed = [it for it in entries if left.seq < it.seq]
    transcript: Transcript = yield LoadTranscript(left.id, until=until)
    if missed:
        lines = missed_lines(left.client.protocol, left.id, transcript, missed, left.prompts)
        yield SendToClient(lines)
    processed = [it for it in left.prompts if it not in undelivered]
    yield SendToClient(responses_to(left.client.protocol, processed, entries, transcript))
    return undelivered, ending_of_last_turn(transcript, missed)
