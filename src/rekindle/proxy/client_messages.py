"""Messages of clients: start a flow, wait for one, or forward to the agent."""

from collections.abc import Hashable
from typing import Any

from msgspec import UNSET, Raw
from msgspec.structs import replace

from rekindle.acp import methods
from rekindle.acp.jsonrpc import (
    Envelope,
    notification,
    read_envelope,
    request_key,
)
from rekindle.acp.rewrite import with_id, with_session_id
from rekindle.acp.translate.endings import cancelled_prompt
from rekindle.jsonvalue import as_array, as_object, decode_object, encode
from rekindle.proxy.connection_state import AgentPhase
from rekindle.proxy.flow import ClientRequest
from rekindle.proxy.flow_scheduler import FlowScheduler
from rekindle.proxy.handlers.registry import start_flow
from rekindle.proxy.host_messages import HostMessages
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.message_queues import ClientLine
from rekindle.proxy.open_requests import OpenRequest
from rekindle.proxy.outbox import Outbox
from rekindle.proxy.peers import AGENT, FIRST_CLIENT, NO_CLIENT, ClientConnection, Peer
from rekindle.proxy.permissions import PermissionRequests
from rekindle.proxy.session_clients import HeldPrompt
from rekindle.proxy.translation import outcome_for_agent, request_for_agent
from rekindle.proxy.validation import rekindle_meta

PROMPT_ID = "rekindle-prompt-"
"""The prefix of the ids under which an agent of another version receives prompts."""

_OWN_PROMPT = b'"' + PROMPT_ID.encode()
_WITHOUT_AGENT = methods.INFO_METHODS | {methods.LIST, methods.CLOSE, methods.DELETE}
_NEEDING_PARAMS = methods.LIFECYCLE | methods.HOST_METHODS | {methods.PROMPT, methods.INITIALIZE}


class ClientMessages:
    """The direction from the clients to the agent."""

    def __init__(
        self,
        outbox: Outbox,
        scheduler: FlowScheduler,
        permissions: PermissionRequests,
        hosts: HostMessages,
    ) -> None:
        self._outbox = outbox
        self._conn = outbox.conn
        self._hosts = hosts
        self._scheduler = scheduler
        self._permissions = permissions
        self._prompt_count = 0

    def receive(self, peer: Peer, line: bytes) -> None:
        """Process one line of a client."""
        outbox = self._outbox
        outbox.journal.fast_path = None
        client = self._conn.clients[peer]
        outbox.journal.client_protocol = client.protocol
        envelope = read_envelope(line)
        if outbox.strict is not None and outbox.is_refused(peer, line, envelope):
            return
        if envelope is not None:
            self._receive_message(client, line, envelope)
        else:
            outbox.send_to_agent(line)

    def release(self) -> None:
        """Process the queued prompts whose turn has come, then the waiting messages."""
        queues = self._conn.queues
        for session_id in list(queues.prompts):
            # A prompt that is refused at once makes way for the next one.
            while self._may_release(session_id):
                first = queues.next_prompt(session_id)
                self._release_prompt(self._conn.clients[first.client], first.line)
                if session_id in queues.waiting_sessions:
                    break
        for waiting in queues.take_waiting():
            self.receive(waiting.client, waiting.line)

    def _may_release(self, session_id: str) -> bool:
        """Return whether a session has a queued prompt whose turn has come."""
        queues = self._conn.queues
        if session_id not in queues.prompts:
            return False
        client = self._conn.clients[queues.prompts[session_id][0].client]
        is_busy = self._scheduler.is_busy(session_id, client)
        return not is_busy and not self._conn.has_turn(session_id)

    def _release_prompt(self, client: ClientConnection, line: bytes) -> None:
        """Process the next queued prompt before the later prompts."""
        self._outbox.journal.client_protocol = client.protocol
        envelope = read_envelope(line) or Envelope()
        if self._is_blocked(client, envelope) or self._must_wait_for_agent(client, envelope):
            self._conn.queues.wait(envelope.session_id, client.peer, line)
        else:
            request_id = envelope.id if isinstance(envelope.id, Raw) else Raw(b"null")
            self._start_request(client, line, envelope, request_id, methods.PROMPT)

    # -- forwarding ------------------------------------------------------------------------

    def forward(
        self,
        client: ClientConnection,
        line: bytes,
        preface: dict[str, Any] | None = None,
        *,
        is_answered: bool = False,
    ) -> None:
        """Record a message and send it to the agent, with the agent's id of the session.

        With `is_answered`, the client has its response already, so the agent receives the request
        under an id of the engine's own.
        """
        conn = self._conn
        envelope = read_envelope(line) or Envelope()
        live = conn.live(envelope.session_id)
        is_translated = conn.translates_for(client)
        self._outbox.journal.client_protocol = client.protocol
        sent = line
        is_prompt = envelope.method == methods.PROMPT and live is not None
        if is_prompt and live is not None:
            live.updates.prompt_forwarded()
            if is_answered or is_translated:
                sent = self._with_prompt_id(client, live, line, envelope)
        elif is_translated and envelope.is_request:
            sent = request_for_agent(conn, live, line)
        if sent is line or not is_prompt:
            sent = self._with_own_id(client, sent, envelope)
        self._record(client, line, envelope, sent)
        if live is not None:
            sent_id = (read_envelope(sent) or Envelope()).id
            if preface is not None and isinstance(sent_id, Raw):
                sent = self._with_preface(live, sent, preface, bytes(sent_id))
            if live.agent_id != live.id:
                sent = with_session_id(sent, live.id, live.agent_id)
        self._outbox.send_to_agent(sent)

    def _record(
        self, client: ClientConnection, line: bytes, envelope: Envelope, sent: bytes
    ) -> None:
        """Record a message, and note a request as open at the agent under the id it is sent by."""
        journal = self._outbox.journal
        if envelope.method is UNSET:
            return
        sent_id = envelope.id if sent is line else (read_envelope(sent) or Envelope()).id
        if isinstance(sent_id, Raw) and isinstance(envelope.id, Raw):
            # The response to a prompt with an id of our own is not the client's response.
            is_ours = bytes(sent_id).startswith(_OWN_PROMPT)
            own_id = sent_id if is_ours else envelope.id
            request = journal.request(client.peer, sent_id, envelope, line, own_id=own_id)
            self._conn.requests.add(AGENT, sent_id, replace(request, is_answered=is_ours))
        else:
            journal.client_notification(envelope.method, envelope.session_id, line)

    def _with_prompt_id(
        self, client: ClientConnection, live: LiveSession, line: bytes, envelope: Envelope
    ) -> bytes:
        """Return a prompt under an id of the engine's own.

        A version 1 client waits for the end of the turn, so its id is held until then.
        """
        if client.protocol == 1 and isinstance(envelope.id, Raw):
            live.turn.held_prompt = HeldPrompt(client.peer, bytes(envelope.id))
        self._prompt_count += 1
        return with_id(line, Raw(encode(f"{PROMPT_ID}{self._prompt_count}")))

    def _with_own_id(self, client: ClientConnection, line: bytes, envelope: Envelope) -> bytes:
        """Return a request under an id that no other client uses."""
        if client.peer == FIRST_CLIENT or not envelope.is_request:
            return line
        return with_id(line, self._scheduler.new_id())

    def _with_preface(
        self, live: LiveSession, line: bytes, preface: dict[str, Any], prompt_id: bytes
    ) -> bytes:
        """Return a prompt with a block before the user's own, and record that block.

        A prompt that cannot be decoded is returned unchanged, and the handover stays due.
        """
        message = decode_object(line)
        if message is None:
            return line
        params = as_object(message.get("params"))
        blocks = as_array(params.get("prompt"))
        reason = live.handover.reason if live.handover.is_history_due else None
        self._outbox.journal.preface(live.id, preface, blocks, handover=reason)
        live.handover.send(prompt_id)
        return encode({**message, "params": {**params, "prompt": [preface, *blocks]}})

    # -- one message -----------------------------------------------------------------------

    def _receive_message(self, client: ClientConnection, line: bytes, envelope: Envelope) -> None:
        if isinstance(envelope.id, Raw) and envelope.is_response:
            self._receive_response(client, line, envelope, envelope.id)
        elif self._is_blocked(client, envelope):
            self._conn.queues.wait(envelope.session_id, client.peer, line)
        elif self._conn.hosts.by_peer and self._hosts.forward(client, line, envelope) is not None:
            pass
        elif self._must_wait_for_agent(client, envelope):
            self._conn.queues.wait(envelope.session_id, client.peer, line)
        elif isinstance(envelope.id, Raw) and envelope.method is not UNSET:
            self._receive_request(client, line, envelope, envelope.id, envelope.method)
        elif envelope.method == methods.CANCEL_REQUEST:
            self._cancel_request(client, line)
        elif envelope.method == methods.CANCEL and envelope.session_id is not None:
            self._cancel(client, envelope.session_id, line)
        else:
            self.forward(client, line)

    def _receive_request(
        self,
        client: ClientConnection,
        line: bytes,
        envelope: Envelope,
        request_id: Raw,
        method: str,
    ) -> None:
        session_id = envelope.session_id
        if method == methods.PROMPT and self._must_queue(client, session_id):
            self._conn.queues.queue_prompt(str(session_id), client.peer, line)
        else:
            self._start_request(client, line, envelope, request_id, method)

    def _start_request(
        self,
        client: ClientConnection,
        line: bytes,
        envelope: Envelope,
        request_id: Raw,
        method: str,
    ) -> None:
        """Start the flow that answers a request, or forward the request."""
        conn, session_id = self._conn, envelope.session_id
        params: dict[str, Any] = {}
        if method in _NEEDING_PARAMS:
            params = as_object((decode_object(line) or {}).get("params"))
        flow = start_flow(conn, ClientRequest(client, method, session_id, params, line))
        if flow is None:
            self.forward(client, line)
        else:
            self._scheduler.start(
                flow,
                client,
                request_id,
                session_id,
                is_shared=self._is_join(method, session_id, params),
            )

    def _is_join(self, method: str, session_id: str | None, params: dict[str, Any]) -> bool:
        """Return whether a request opens a session that goes on meanwhile."""
        if method not in {methods.LOAD, methods.RESUME}:
            return False
        live = self._conn.sessions.get_open(session_id)
        if live is None:
            return False
        return not live.memory.is_missing or rekindle_meta(params).get("role") == "observer"

    def _must_queue(self, client: ClientConnection, session_id: str | None) -> bool:
        """Return whether a prompt waits for a turn.

        A further prompt of the client that has prompted steers the turn. Across versions, and for
        all other clients, one turn runs at a time.
        """
        conn = self._conn
        live = conn.opened_by(client, session_id)
        if live is None or live.clients[client.peer].is_observer:
            # The prompt is refused.
            return False
        if conn.translates_for(client):
            is_open = conn.requests.is_open(methods.PROMPT, live.id)
            return live.turn.held_prompt is not None or is_open or self._is_others(client, live)
        return self._is_others(client, live)

    def _is_others(self, client: ClientConnection, live: LiveSession) -> bool:
        """Return whether the turn of another client is running, or comes first."""
        if live.turn.prompter in {client.peer, NO_CLIENT}:
            return False
        return self._conn.has_turn(live.id) or live.id in self._conn.queues.prompts

    def _is_blocked(self, client: ClientConnection, envelope: Envelope) -> bool:
        """Return whether an earlier message of the session has to be processed first."""
        session_id = envelope.session_id
        return session_id is not None and (
            self._scheduler.is_busy(session_id, client)
            or session_id in self._conn.queues.waiting_sessions
        )

    def _must_wait_for_agent(self, client: ClientConnection, envelope: Envelope) -> bool:
        """Return whether the agent must start, or answer `initialize`, first."""
        session_id, agent = envelope.session_id, self._conn.agent
        if agent.phase is AgentPhase.SILENT or agent.is_restarting:
            return envelope.is_request and envelope.method not in _WITHOUT_AGENT
        if agent.phase is not AgentPhase.INITIALIZING:
            return False
        if envelope.method == methods.INITIALIZE:
            return client.peer != self._conn.primary
        return session_id is not None or envelope.method in methods.LIFECYCLE

    # -- cancelling ------------------------------------------------------------------------

    def drop_queued(self, session_id: str, client: Peer | None = None) -> None:
        """Answer the queued prompts of a session as cancelled: those of one client, or all."""
        for queued in self._conn.queues.take_prompts(session_id, client):
            self._answer_cancelled(queued)

    def fail_queued(self, session_id: str, outcome: dict[str, Any]) -> None:
        """Answer the queued prompts of a session with an error."""
        for queued in self._conn.queues.take_prompts(session_id):
            request_id = (read_envelope(queued.line) or Envelope()).id or None
            line = encode({"jsonrpc": "2.0", "id": request_id, **outcome})
            self._outbox.send(queued.client, line)

    def _cancel(self, client: ClientConnection, session_id: str, line: bytes) -> None:
        """Cancel a turn, or the prompt of a client that waits behind the turn of another."""
        conn = self._conn
        live = conn.opened_by(client, session_id)
        if live is not None and live.clients[client.peer].is_observer:
            return
        if live is None and conn.sessions.get_open(session_id) is not None:
            # The turn is another client's.
            return
        has_queued = conn.queues.has_prompt_of(session_id, client.peer)
        self.drop_queued(session_id, client.peer)
        if live is not None and has_queued and live.turn.prompter != client.peer:
            return
        if live is not None:
            self._permissions.turn_cancelled(live.id, client.peer)
        self.forward(client, line)

    def _cancel_request(self, client: ClientConnection, line: bytes) -> None:
        """Cancel a request. It may be queued here, or the agent may have it under another id."""
        conn = self._conn
        message = decode_object(line) or {}
        params = as_object(message.get("params"))
        own_id = Raw(encode(params.get("requestId")))
        if conn.hosts.cancel_left(client.peer, own_id):
            return
        wanted = request_key(own_id)
        queued = conn.queues.take_prompt(
            lambda it: it.client == client.peer and _prompt_key(it.line) == wanted
        )
        if queued is not None:
            self._answer_cancelled(queued)
            return
        held = conn.sessions.holding_prompt(HeldPrompt(client.peer, bytes(own_id)))
        sent_id = conn.requests.sent_id(client.peer, own_id)
        if held is not None:
            line = notification(methods.CANCEL, {"sessionId": held.id})
        elif sent_id is not None and sent_id != bytes(own_id):
            line = encode({**message, "params": {**params, "requestId": Raw(sent_id)}})
        self.forward(client, line)

    def _answer_cancelled(self, queued: ClientLine) -> None:
        """Answer a prompt that the agent never received."""
        request_id = (read_envelope(queued.line) or Envelope()).id or None
        self.answer_cancelled(queued.client, None if request_id is None else bytes(request_id))

    def answer_cancelled(self, peer: Peer, request_id: bytes | None) -> None:
        """Answer a prompt of a client whose turn the client will not see."""
        client = self._conn.clients.get(peer)
        own_id = None if request_id is None else Raw(request_id)
        protocol = 2 if client is None else client.protocol
        self._outbox.send(peer, cancelled_prompt(protocol, own_id))

    # -- responses -------------------------------------------------------------------------

    def _receive_response(
        self, client: ClientConnection, line: bytes, envelope: Envelope, request_id: Raw
    ) -> None:
        if self._conn.hosts.by_peer and self._hosts.forward(client, line, envelope) is not None:
            return
        permissions = self._permissions
        if permissions.is_abstention(client.peer, request_id, is_error=envelope.is_error):
            return
        request = self._outbox.journal.response(client.peer, request_id, envelope, line)
        if request is None:
            if not self._is_late(client, request_id):
                self._outbox.send_to_agent(line)
            return
        if request.method == methods.REQUEST_PERMISSION:
            permissions.answered(request)
        if request.method in methods.ASKS_USER:
            line = self._user_answered(client, request, line)
        if request.id != bytes(request_id):
            # The client received the request under another id than the agent's own.
            line = with_id(line, Raw(request.id))
        self._outbox.send_to_agent(line)

    def _user_answered(self, client: ClientConnection, request: OpenRequest, line: bytes) -> bytes:
        """Return the user's answer in the agent's version. The turn continues."""
        conn = self._conn
        live = conn.sessions.get(request.session_id)
        is_running = live is not None and conn.has_turn(live.id)
        if live is not None and is_running and not conn.requests.is_user_asked(live.id):
            self._permissions.report_state(live, is_waiting=False)
        is_permission = request.method == methods.REQUEST_PERMISSION
        if not is_permission or not conn.translates_for(client):
            return line
        return outcome_for_agent(conn, line)

    def _is_late(self, client: ClientConnection, request_id: Raw) -> bool:
        """Return whether a response is for a request that the agent does not wait for any more."""
        conn = self._conn
        is_answered = conn.requests.is_late(client.peer, request_id)
        # Only the first client may answer requests that the engine does not know.
        is_others = client.peer != FIRST_CLIENT or bool(conn.requests.asked(request_id))
        return is_answered or is_others or conn.agent.generation > 0


def _prompt_key(line: bytes) -> Hashable:
    """Return the key of the id of a prompt; None if the line is no prompt."""
    envelope = read_envelope(line) or Envelope()
    if envelope.method != methods.PROMPT or envelope.id is UNSET:
        return None
    return request_key(envelope.id)
