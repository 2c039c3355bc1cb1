"""The engine: decides on every message between its clients and its agent.

Most messages are recorded and forwarded unchanged. Requests of the session lifecycle are answered
by flows (`handlers`). Where the agent has another id for a session than the client, only the id is
replaced. A response that the engine gives for the agent is recorded like the agent's own, because
the client sees it all the same.

Pure: it receives an event with its time and returns a step. It does no I/O, reads no clock, and
uses no thread and no randomness.
"""

from collections.abc import Iterable
from typing import assert_never

from msgspec import Raw

from rekindle.acp import methods, update_kinds
from rekindle.acp.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    error_response,
    is_array,
    notification,
    response,
    split_batch,
    update_line,
)
from rekindle.acp.translate.endings import ending_to_v2
from rekindle.model import AgentIdentity, EntryBatch, LeaseHolder
from rekindle.proxy.agent_choice import with_agent_option
from rekindle.proxy.agent_messages import AgentMessages
from rekindle.proxy.batches import OpenBatches, as_array_line, take_apart
from rekindle.proxy.client_messages import ClientMessages
from rekindle.proxy.connection_state import AgentState, ConnectionState, EngineSettings
from rekindle.proxy.flow import (
    Action,
    AnswerOpenPrompts,
    Broadcast,
    CancelTurn,
    CatchUp,
    DetachClient,
    DisconnectFromHost,
    DropQueuedPrompts,
    FlushHeld,
    ForwardToAgent,
    RecordChanges,
    RecordUndelivered,
    Refusal,
    ReportHostDeath,
    ReportToUser,
    SendToClient,
    SendToSession,
)
from rekindle.proxy.flow_scheduler import FlowResult, FlowScheduler, RunningFlow
from rekindle.proxy.handlers.attach import continue_session
from rekindle.proxy.handlers.close import close_unattended
from rekindle.proxy.handlers.forget import forget_all
from rekindle.proxy.handlers.replay_cursor import send_position
from rekindle.proxy.host_messages import HostMessages
from rekindle.proxy.journal import Journal, saved_sessions
from rekindle.proxy.leak_guard import LeakGuard
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.outbox import Outbox
from rekindle.proxy.peers import AGENT, LEFT_CLIENT, NO_CLIENT, ClientConnection, Peer
from rekindle.proxy.permissions import PermissionRequests
from rekindle.proxy.session_clients import HeldPrompt
from rekindle.proxy.step import AgentExit, Step, TurnEventKind
from rekindle.proxy.validation import lost_session


class Engine:
    """One agent, and the clients that use it. Call it from one thread at a time."""

    def __init__(self, settings: EngineSettings) -> None:
        self._conn = ConnectionState(
            settings=settings,
            agent=AgentState(
                identity=AgentIdentity(command=settings.command), chosen=settings.agent_name
            ),
        )
        self._journal = Journal(self._conn)
        self._outbox = Outbox(self._conn, self._journal)
        self._scheduler = FlowScheduler(self._outbox, self)
        self._permissions = PermissionRequests(self._outbox)
        self._hosts = HostMessages(self._outbox, self._scheduler)
        self._client = ClientMessages(self._outbox, self._scheduler, self._permissions, self._hosts)
        self._leaks = LeakGuard()
        self._agent = AgentMessages(self._outbox, self._scheduler, self._leaks, self._permissions)
        self._batches = OpenBatches()

    # -- events ----------------------------------------------------------------------------

    def add_client(self, *, is_local_process: bool = False) -> Peer:
        """Return the number of a new client connection.

        With `is_local_process`, it is another process of the user.
        """
        peer = self._conn.new_peer()
        client = ClientConnection(peer=peer, is_local_process=is_local_process)
        self._conn.clients[peer] = client
        return peer

    def remove_client(self, peer: Peer, at_us: int) -> Step:
        """Detach a client whose connection is closed, and forget the sessions it leaves unused."""
        self._begin(at_us)
        self._journal.fast_path = None
        conn = self._conn
        client = conn.clients.pop(peer)
        conn.sessions.stop_observing(peer)
        for live in conn.sessions.all():
            if peer in live.clients:
                self._detach(client, live)
        self._fail_requests(peer)
        self._hosts.client_left(client)
        left = [it for it in conn.sessions.all() if not it.clients and not self._is_busy(it)]
        conn.queues.drop_client(peer)
        self._batches.drop(peer)
        if conn.settings.outlives_clients and self.has_work_without(NO_CLIENT):
            for live in left:
                self._free_if_unattended(live)
        elif left:
            self._scheduler.start(forget_all(conn, left), client, Raw(b"null"), None)
        return self._finish()

    def abandon_turns(self, at_us: int) -> Step:
        """Cancel the turns that no client attends. Nothing but a client approves a request."""
        self._begin(at_us)
        self._journal.fast_path = None
        for live in self._conn.sessions.all():
            if self._conn.has_turn(live.id) and not live.is_open_without(NO_CLIENT):
                self._permissions.cancel(live.id, NO_CLIENT)
                line = notification(methods.CANCEL, {"sessionId": live.id})
                self._client.forward(ClientConnection(peer=NO_CLIENT), line)
        return self._finish()

    def _detach(self, client: ClientConnection, live: LiveSession) -> list[bytes]:
        """Let a session continue without a client. The engine asks other clients instead.

        Returns the ids of the prompts whose response the client still waits for.
        """
        conn, peer = self._conn, client.peer
        live.clients.pop(peer, None)
        if live.turn.prompter == peer:
            live.turn.prompter = LEFT_CLIENT
        prompts = conn.requests.leave(peer, methods.PROMPT, live.id)
        left = [it.id for it in prompts if not it.is_answered]
        held = live.turn.held_prompt
        if held is not None and held.client == peer:
            live.turn.held_prompt = HeldPrompt(NO_CLIENT, held.id)
            left.append(held.id)
        self._permissions.client_left(live, peer)
        return left

    def _fail_requests(self, peer: Peer) -> None:
        """Answer the requests of the agent that only a client could answer that has left."""
        requests = self._conn.requests
        requests.leave(peer)
        for request in requests.waiting_for(peer):
            text = f"the client left before it answered {request.method}"
            line = error_response(Raw(request.id), INTERNAL_ERROR, text)
            self._outbox.send_to_agent(line)
        requests.drop_client(peer)

    def receive(self, peer: Peer, lines: bytes, at_us: int) -> Step:
        """Process the lines of one read, joined by newlines, from the agent or a client."""
        self._begin(at_us)
        if peer != AGENT:
            if peer not in self._conn.clients:
                # It has left, and its last lines came too late.
                return self._finish()
            if self._leaks.held:
                self._agent.release_held()
        elif self._journal.fast_path is not None and self._agent.receive_chunks(lines):
            return self._finish()
        for line in lines.split(b"\n"):
            if not is_array(line) or not self._receive_batch(peer, line):
                self._receive_line(peer, line)
        return self._finish()

    def receive_from_host(self, host: Peer, lines: bytes, at_us: int) -> Step:
        """Process the lines of one read, joined by newlines, from the host of a session."""
        self._begin(at_us)
        connection = self._conn.hosts.get(host)
        if connection is not None:
            for line in lines.split(b"\n"):
                self._hosts.receive(connection, line)
        return self._finish(is_from_host=True)

    def host_closed(self, host: Peer, at_us: int) -> Step:
        """Continue the sessions of a host whose connection has ended."""
        self._begin(at_us)
        self._journal.fast_path = None
        connection = self._conn.hosts.pop(host)
        self._scheduler.host_closed(host)
        if connection is not None and connection.client in self._conn.clients:
            client = self._conn.clients[connection.client]
            self._hosts.fail_requests(connection)
            for session_id in connection.sessions:
                flow = continue_session(self._conn, client, connection, session_id)
                # Until it ends, other clients wait: the agent of the host may still run.
                self._scheduler.start(flow, client, Raw(b"null"), session_id)
        return self._finish()

    def answer(self, flow: int, answer: object, at_us: int) -> Step:
        """Give a flow the answer to its query."""
        self._begin(at_us)
        self._journal.fast_path = None
        self._scheduler.query_answered(flow, answer)
        return self._finish()

    def tick(self, at_us: int) -> Step:
        """Process the deadlines that have passed."""
        self._begin(at_us)
        self._journal.fast_path = None
        if self._leaks.held:
            self._agent.release_due()
        self._scheduler.tick()
        return self._finish()

    def agent_closed_output(self) -> None:
        """Note that the agent will answer nothing more. New requests wait for the next process."""
        self._conn.agent.close_output()

    def agent_exited(self, exited: AgentExit, at_us: int) -> Step:
        """Answer the requests that the agent left open. No agent knows the sessions any more."""
        self._begin(at_us)
        self._journal.fast_path = None
        conn, outbox = self._conn, self._outbox
        if self._leaks.held:
            self._agent.release_held()
        conn.agent.exit(exited)
        self._batches.drop(AGENT)
        for client, request in conn.requests.answer_for_clients():
            params = {"requestId": Raw(request.sent_id)}
            outbox.send(client, notification(methods.CANCEL_REQUEST, params))
        if exited.exit_code == 0:
            self._journal.record_changes(saved_sessions(conn))
        self._agent.subagents_exited()
        for live in conn.sessions.all():
            outbox.note_death(live, exited)
        for live in conn.sessions.working():
            outbox.interrupt_turn(live, exited)
        conn.agent_exited()
        outbox.respond_to_all(exited)
        self._scheduler.agent_exited()
        for live in conn.sessions.all():
            self._free_if_unattended(live)
        return self._finish()

    def lease_lost(self, session_id: str, holder: LeaseHolder, at_us: int) -> Step:
        """Close a session that another process has taken over, and cancel its turn.

        The agent may still send updates of it. They are recorded, in a branch.
        """
        self._begin(at_us)
        self._journal.fast_path = None
        if self._leaks.held:
            self._agent.release_held()
        live = self._conn.sessions.get_open(session_id)
        if live is not None:
            self._close_lost(live, holder)
        return self._finish()

    def _close_lost(self, live: LiveSession, holder: LeaseHolder) -> None:
        conn, outbox = self._conn, self._outbox
        outcome = {"error": lost_session(live.id, holder)}
        if conn.has_turn(live.id):
            outbox.send_to_agent(notification(methods.CANCEL, {"sessionId": live.agent_id}))
        self._permissions.cancel(live.id, NO_CLIENT)
        if live.turn.is_working:
            outbox.fail_turn(live, outcome)
        for request in conn.requests.answer_for_agent(methods.PROMPT, live.id):
            outbox.respond_for_agent(request, outcome)
        self._client.fail_queued(live.id, outcome)
        live.close()
        # Also for observers: the further updates belong to a branch.
        live.clients.clear()
        live.updates.lease_lost()
        if not live.memory.is_in_transition:
            live.memory.advance("used_elsewhere")
        # If the session gets another id of the agent, updates under this one are late.
        conn.sessions.abandon(live.agent_id)

    def recover(self) -> None:
        """Drop the rest of an event after a fault in the middle of it."""
        self._begin(0)
        self._journal.fast_path = None
        self._finish()

    @property
    def can_restart_agent(self) -> bool:
        """Whether an agent that has exited can be started again: it was ready once."""
        return self._conn.agent.was_ready

    def has_work_without(self, client: Peer) -> bool:
        """Return whether a session is busy, or is open at another client than this one."""
        return any(
            not live.is_closed and (self._is_busy(live) or live.is_open_without(client))
            for live in self._conn.sessions.all()
        )

    def is_attended_without(self, client: Peer) -> bool:
        """Return whether another client than this one has a session open, not only to watch it."""
        sessions = self._conn.sessions.all()
        return any(not it.is_closed and it.is_open_without(client) for it in sessions)

    @property
    def is_waiting_for_user(self) -> bool:
        """Whether every running turn waits for permission."""
        busy = [it for it in self._conn.sessions.all() if self._conn.has_turn(it.id)]
        return bool(busy) and all(self._permissions.is_waiting(it.id) for it in busy)

    @property
    def is_waiting_for_agent(self) -> bool:
        """Whether the agent has to answer a request."""
        return self._conn.requests.is_agent_busy or self._scheduler.is_awaiting_agent

    def _is_busy(self, live: LiveSession) -> bool:
        """Return whether a session has a turn, a flow, or a message that waits for the agent."""
        is_awaited = live.id in self._conn.queues.waiting_sessions
        return is_awaited or self._scheduler.is_busy(live.id) or self._conn.has_turn(live.id)

    def _begin(self, at_us: int) -> Step:
        step = self._outbox.step = self._journal.step = Step()
        self._conn.at_us = at_us
        return step

    def _finish(self, *, is_from_host: bool = False) -> Step:
        queues, step = self._conn.queues, self._outbox.step
        if self._scheduler.awaits_restart:
            self._scheduler.continue_waiting()
        if queues.prompts or queues.waiting:
            self._client.release()
        if self._journal.open_batch is not None:
            self._journal.finish()
        if self._scheduler.running or self._leaks.held:
            step.wake_us = self._next_deadline_us()
        if self._conn.settings.agents and not is_from_host:
            for peer, lines in step.to_clients.items():
                client = self._conn.clients[peer]
                step.to_clients[peer] = [with_agent_option(self._conn, client, it) for it in lines]
        if self._batches.open:
            self._collect_batches(step)
        for peer in step.to_clients:
            if self._conn.clients[peer].wants_positions:
                self._note_position(step, peer)
        return step

    def _next_deadline_us(self) -> int | None:
        deadline_us = self._scheduler.next_deadline_us
        if not self._leaks.held:
            return deadline_us
        held_until_us = self._leaks.deadline_us
        return min(held_until_us, deadline_us or held_until_us)

    def _collect_batches(self, step: Step) -> None:
        """Collect the responses to the members of a batch in one line."""
        step.to_agent = self._batches.collect(AGENT, step.to_agent)
        for peer, lines in step.to_clients.items():
            step.to_clients[peer] = self._batches.collect(peer, lines)

    def _note_position(self, step: Step, peer: Peer) -> None:
        """Note the sessions to whose new entries the lines for a client belong."""
        # Not only sessions that the client still has: the step may have closed one.
        changed = dict.fromkeys(it.session_id for it in step.changes if isinstance(it, EntryBatch))
        step.positions[peer] = tuple(it for it in changed if not self._is_joining(peer, it))

    def _is_joining(self, peer: Peer, session_id: str) -> bool:
        """Return whether a client receives the history of a session, and no new entries yet."""
        live = self._conn.sessions.get(session_id)
        attachment = live.clients.get(peer) if live is not None else None
        return attachment is not None and attachment.is_joining

    def _receive_batch(self, peer: Peer, line: bytes) -> bool:
        """Process the members of a batch one by one; return whether the line is a batch.

        An agent's line that is not JSON is not a batch: agents print text in brackets.
        Strict mode refuses the batch of a version 1 client, and reports that of an agent.
        """
        members = split_batch(line)
        if members is None and peer == AGENT:
            return False
        may_batch = self._protocol_of(peer) > 1
        is_refused = not may_batch and self._outbox.is_refused(peer, line, None)
        if is_refused and peer != AGENT:
            return True
        if not members:
            code = PARSE_ERROR if members is None else INVALID_REQUEST
            text = "not valid JSON" if members is None else "the batch is empty"
            self._outbox.send(peer, error_response(None, code, text))
            return True
        parts = take_apart(members)
        if not may_batch:
            for error in parts.errors:
                self._outbox.send(peer, error)
        elif parts.request_keys:
            self._batches.add(peer, parts)
        elif parts.errors:
            self._outbox.send(peer, as_array_line(parts.errors))
        for message in parts.messages:
            self._receive_line(peer, message)
        return True

    def _protocol_of(self, peer: Peer) -> int:
        conn = self._conn
        return (conn.agent.capabilities if peer == AGENT else conn.clients[peer]).protocol

    def _receive_line(self, peer: Peer, line: bytes) -> None:
        """Process one line. After a fault the line is forwarded, and the next one follows."""
        try:
            if peer == AGENT:
                self._receive_from_agent(line)
            else:
                self._client.receive(peer, line)
        except Exception as fault:  # noqa: BLE001 - a fault of ours must not end a conversation
            self._outbox.report_fault(fault)
            conn = self._conn
            client = conn.clients.get(conn.primary if peer == AGENT else peer)
            if client is not None and not conn.translates_for(client):
                self._outbox.send(client.peer if peer == AGENT else AGENT, line)

    def _receive_from_agent(self, line: bytes) -> None:
        self._agent.receive(line)
        if self._agent.ended_sessions:
            ended, self._agent.ended_sessions = self._agent.ended_sessions, []
            for session_id in ended:
                self._turn_ended(session_id)

    def _turn_ended(self, session_id: str) -> None:
        self._scheduler.continue_waiting()
        conn = self._conn
        live = conn.sessions.get(session_id)
        if live is None or conn.has_turn(session_id):
            return
        for client in conn.audience(live):
            if client.wants_seq:
                self._scheduler.start(send_position(session_id), client, Raw(b"null"), None)
        self._free_if_unattended(live)

    def _free_if_unattended(self, live: LiveSession) -> None:
        """Free a session if its clients have left it, and the engine outlives them."""
        is_in_use = live.is_closed or live.is_open_without(NO_CLIENT) or self._is_busy(live)
        if self._conn.settings.outlives_clients and not is_in_use:
            flow = close_unattended(self._conn, live)
            self._scheduler.start(flow, ClientConnection(peer=NO_CLIENT), Raw(b"null"), live.id)

    # -- flows -----------------------------------------------------------------------------

    def perform(self, flow: RunningFlow, action: Action) -> None:
        """Perform an action of a flow."""
        match action:
            case SendToClient() | SendToSession() | Broadcast():
                self._send(flow, action)
            case DetachClient():
                self._detach_and_answer(flow.client, action.live)
            case ForwardToAgent():
                self._agent.prompted()
                self._client.forward(
                    flow.client, action.line, action.preface, is_answered=action.is_answered
                )
            case RecordUndelivered() | RecordChanges():
                self._record(action)
            case DisconnectFromHost() | CatchUp():
                self._change_host(action)
            case CancelTurn() | AnswerOpenPrompts() | DropQueuedPrompts():
                self._end_turn(flow, action)
            case FlushHeld():
                self._receive_updates(self._conn.queues.take_held(action.session_id))
            case ReportToUser():
                self._outbox.report(action.text, action.quote)
            case ReportHostDeath():
                self._outbox.note_event(action.live, TurnEventKind.DEATH, action.reason)
            case _:  # pragma: no cover - the match is complete
                assert_never(action)

    def flow_ended(self, flow: RunningFlow, result: FlowResult) -> None:
        """Send the client the result of a flow, then process the updates that waited for it."""
        match result:
            case Refusal() as it:
                line = error_response(flow.request_id, it.code, it.message, it.data)
                self._outbox.send(flow.client.peer, line)
            case bytes() as line:
                self._outbox.send(flow.client.peer, line)
            case dict():
                self._outbox.send(flow.client.peer, response(flow.request_id, result))
            case _:
                pass
        self._receive_updates(self._conn.take_released_updates())
        live = self._conn.sessions.get(flow.session_id) if flow.is_shared else None
        if live is not None:
            # The client that has just opened the session may be the one to ask.
            self._permissions.route(live)
        if self._conn.settings.outlives_clients:
            opened = self._conn.sessions.get(flow.session_id)
            if opened is not None:
                self._free_if_unattended(opened)

    def _receive_updates(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self._receive_from_agent(line)

    def _record(self, action: RecordUndelivered | RecordChanges) -> None:
        if isinstance(action, RecordChanges):
            self._journal.record_changes(action.changes)
        else:
            self._journal.undelivered_prompt(action.session_id, action.line, action.response)

    def _send(self, flow: RunningFlow, action: SendToClient | SendToSession | Broadcast) -> None:
        if isinstance(action, SendToClient):
            self._outbox.send_lines(action.client or flow.client.peer, action.lines)
        elif isinstance(action, SendToSession):
            self._outbox.send_to_session(action.live, action.line)
        else:
            self._outbox.send_update(action.live, action.update)

    def _change_host(self, action: DisconnectFromHost | CatchUp) -> None:
        connection = self._conn.hosts.get(action.host)
        if connection is None:
            return
        if isinstance(action, CatchUp):
            self._hosts.release_held(connection, action.session_id)
        else:
            self._hosts.disconnect(connection)

    def _detach_and_answer(self, client: ClientConnection, live: LiveSession) -> None:
        """Detach a client from a session, and report its turn and open prompts as cancelled."""
        self._client.drop_queued(live.id, client.peer)
        if client.protocol > 1 and live.turn.prompter == client.peer:
            cancelled = ending_to_v2({"result": {"stopReason": "cancelled"}})
            update = {"sessionUpdate": update_kinds.STATE_UPDATE, **cancelled}
            self._outbox.send(client.peer, update_line(live.id, update))
        for request_id in self._detach(client, live):
            self._client.answer_cancelled(client.peer, request_id)

    def _end_turn(
        self, flow: RunningFlow, action: CancelTurn | AnswerOpenPrompts | DropQueuedPrompts
    ) -> None:
        if isinstance(action, CancelTurn):
            self._cancel_turn(flow.client, action.session_id)
        elif isinstance(action, AnswerOpenPrompts):
            self._answer_open_prompts(action.session_id)
        else:
            self._client.drop_queued(action.session_id)
            if not self._conn.has_turn(action.session_id):
                # An agent may wait for permission after the end of a turn.
                self._permissions.cancel(action.session_id, NO_CLIENT)

    def _cancel_turn(self, client: ClientConnection, session_id: str) -> None:
        line = notification(methods.CANCEL, {"sessionId": session_id})
        self._client.forward(client, line)
        self._permissions.cancel(session_id, client.peer)

    def _answer_open_prompts(self, session_id: str) -> None:
        live = self._conn.sessions.get(session_id)
        if live is not None and live.turn.is_working:
            self._outbox.cancel_turn(live)
        for request in self._conn.requests.answer_for_agent(methods.PROMPT, session_id):
            self._outbox.respond_for_agent(request, {"result": {"stopReason": "cancelled"}})
