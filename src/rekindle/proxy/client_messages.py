"""Messages of a client: start a flow, wait for one, or forward to the agent."""

from collections.abc import Hashable
from typing import Any

from msgspec import UNSET, Raw

from rekindle.acp import methods
from rekindle.acp.jsonrpc import (
    REQUEST_CANCELLED,
    Envelope,
    error_response,
    notification,
    read_envelope,
    request_key,
    response,
    update_line,
)
from rekindle.acp.rewrite import with_id, with_session_id
from rekindle.jsonvalue import as_array, as_object, decode_object, encode
from rekindle.proxy.connection_state import AgentPhase
from rekindle.proxy.flow import ClientRequest
from rekindle.proxy.flow_scheduler import FlowScheduler
from rekindle.proxy.handlers.registry import start_flow
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.open_requests import OpenRequest
from rekindle.proxy.outbox import RUNNING, Outbox
from rekindle.proxy.step import AGENT
from rekindle.proxy.translation import outcome_for_agent, request_for_agent

PROMPT_ID = "rekindle-prompt-"
"""The prefix of the ids under which an agent of another version receives prompts."""

_WITHOUT_AGENT = methods.INFO_METHODS | {methods.LIST, methods.CLOSE, methods.DELETE}
_NEEDING_PARAMS = methods.LIFECYCLE | {methods.PROMPT, methods.INITIALIZE}


class ClientMessages:
    """The direction from the client to the agent."""

    def __init__(self, outbox: Outbox, scheduler: FlowScheduler) -> None:
        self._outbox = outbox
        self._conn = outbox.conn
        self._scheduler = scheduler
        self._prompt_count = 0

    def receive(self, line: bytes) -> None:
        """Process one line of the client."""
        outbox = self._outbox
        outbox.journal.fast_path = None
        envelope = read_envelope(line)
        client = self._conn.client.peer
        if outbox.strict is not None and outbox.is_refused(client, line, envelope):
            return
        if envelope is not None:
            self._receive_message(line, envelope)
        else:
            outbox.send_to_agent(line)

    def release(self) -> None:
        """Process the queued prompts whose turn has come, then the waiting messages."""
        queues = self._conn.queues
        for session_id in list(queues.prompts):
            if not self._conn.has_turn(session_id) and not self._scheduler.is_busy(session_id):
                self.receive(queues.next_prompt(session_id))
        for line in queues.take_waiting():
            self.receive(line)

    # -- forwarding ------------------------------------------------------------------------

    def forward(
        self, line: bytes, preface: dict[str, Any] | None = None, *, is_answered: bool = False
    ) -> None:
        """Record a message and send it to the agent, with the agent's id of the session.

        With `is_answered`, the client has its response already, so the agent receives the request
        under an id of the engine's own.
        """
        conn = self._conn
        envelope = read_envelope(line) or Envelope()
        live = conn.live(envelope.session_id)
        sent = line
        if envelope.method == methods.PROMPT and live is not None:
            live.updates.prompt_forwarded()
            if is_answered or conn.is_translating:
                sent = self._with_own_id(live, line, envelope)
                envelope = read_envelope(sent) or envelope
        elif conn.is_translating and envelope.is_request:
            sent = request_for_agent(conn, live, line)
        self._outbox.journal.message(conn.client.peer, AGENT, line, envelope)
        if live is not None:
            if preface is not None and isinstance(envelope.id, Raw):
                sent = self._with_preface(live, sent, preface, bytes(envelope.id))
            if live.agent_id != live.id:
                sent = with_session_id(sent, live.id, live.agent_id)
        self._outbox.send_to_agent(sent)

    def _with_own_id(self, live: LiveSession, line: bytes, envelope: Envelope) -> bytes:
        """Return a prompt under an id of the engine's own.

        A version 1 client waits for the end of the turn, so its id is held until then.
        """
        self._prompt_count += 1
        if self._conn.client.protocol == 1 and isinstance(envelope.id, Raw):
            live.turn.held_prompt = bytes(envelope.id)
        return with_id(line, Raw(encode(f"{PROMPT_ID}{self._prompt_count}")))

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

    def _receive_message(self, line: bytes, envelope: Envelope) -> None:
        if isinstance(envelope.id, Raw) and envelope.is_response:
            self._receive_response(line, envelope, envelope.id)
        elif self._must_wait(envelope):
            self._conn.queues.wait(envelope.session_id, line)
        elif isinstance(envelope.id, Raw) and envelope.method is not UNSET:
            self._receive_request(line, envelope, envelope.id, envelope.method)
        elif envelope.method == methods.CANCEL_REQUEST:
            self._cancel_request(line)
        else:
            if envelope.method == methods.CANCEL and envelope.session_id is not None:
                self.drop_queued(envelope.session_id)
            self.forward(line)

    def _receive_request(
        self, line: bytes, envelope: Envelope, request_id: Raw, method: str
    ) -> None:
        conn = self._conn
        session_id = envelope.session_id
        live = conn.sessions.get_open(session_id)
        if method == methods.PROMPT and live is not None and self._must_queue(live):
            conn.queues.queue_prompt(live.id, line)
            return
        params: dict[str, Any] = {}
        if method in _NEEDING_PARAMS:
            params = as_object((decode_object(line) or {}).get("params"))
        flow = start_flow(conn, ClientRequest(method, session_id, params, line))
        if flow is None:
            self.forward(line)
        else:
            self._scheduler.start(flow, conn.client.peer, request_id, session_id)

    def _must_queue(self, live: LiveSession) -> bool:
        """Return whether a prompt waits for a turn: across versions, one turn runs at a time."""
        conn = self._conn
        if not conn.is_translating:
            return False
        return live.turn.held_prompt is not None or conn.requests.is_open(methods.PROMPT, live.id)

    def _must_wait(self, envelope: Envelope) -> bool:
        """Return whether an earlier message has to be processed first."""
        session_id = envelope.session_id
        if session_id is not None and (
            self._scheduler.is_busy(session_id) or session_id in self._conn.queues.waiting_sessions
        ):
            return True
        agent = self._conn.agent
        if agent.phase is AgentPhase.SILENT or agent.is_restarting:
            return envelope.is_request and envelope.method not in _WITHOUT_AGENT
        concerns_session = session_id is not None or envelope.method in methods.LIFECYCLE
        return agent.phase is AgentPhase.INITIALIZING and concerns_session

    # -- cancelling ------------------------------------------------------------------------

    def drop_queued(self, session_id: str) -> None:
        """Answer all queued prompts of a session as cancelled."""
        for line in self._conn.queues.take_prompts(session_id):
            self._answer_cancelled(line)

    def _cancel_request(self, line: bytes) -> None:
        """Cancel a request. It may be queued here, or the agent may have it under another id."""
        conn = self._conn
        named = as_object((decode_object(line) or {}).get("params")).get("requestId")
        wanted = request_key(Raw(encode(named)))
        queued = conn.queues.take_prompt(lambda prompt: _request_key(prompt) == wanted)
        if queued is not None:
            self._answer_cancelled(queued)
            return
        held = conn.sessions.holding_prompt(encode(named))
        if held is not None:
            line = notification(methods.CANCEL, {"sessionId": held.id})
        self.forward(line)

    def _answer_cancelled(self, line: bytes) -> None:
        """Answer a prompt that the agent never received."""
        request_id = (read_envelope(line) or Envelope()).id or None
        if self._conn.client.protocol == 1 and request_id is not None:
            self._outbox.send_to_client(response(request_id, {"stopReason": "cancelled"}))
        else:
            text = "the prompt was cancelled before the agent received it"
            self._outbox.send_to_client(error_response(request_id, REQUEST_CANCELLED, text))

    # -- responses -------------------------------------------------------------------------

    def _receive_response(self, line: bytes, envelope: Envelope, request_id: Raw) -> None:
        client = self._conn.client.peer
        request = self._outbox.journal.response(client, request_id, envelope, line)
        if request is None:
            if not self._is_late(request_id):
                self._outbox.send_to_agent(line)
            return
        if request.method in methods.ASKS_USER:
            line = self._user_answered(request, line)
        if request.id != bytes(request_id):
            # The client received the request under another id than the agent's own.
            line = with_id(line, Raw(request.id))
        self._outbox.send_to_agent(line)

    def _user_answered(self, request: OpenRequest, line: bytes) -> bytes:
        """Return the user's answer in the agent's version. A version 2 client is running again."""
        conn = self._conn
        if not conn.is_translating:
            return line
        session_id = request.session_id
        is_waiting = conn.requests.is_user_asked(session_id)
        is_running = session_id is not None and conn.requests.is_open(methods.PROMPT, session_id)
        if conn.client.protocol > 1 and session_id is not None and is_running and not is_waiting:
            self._outbox.send_to_client(update_line(session_id, RUNNING))
        is_permission = request.method == methods.REQUEST_PERMISSION
        return outcome_for_agent(conn, line) if is_permission else line

    def _is_late(self, request_id: Raw) -> bool:
        """Return whether a response is for a request that the agent does not wait for any more."""
        conn = self._conn
        return conn.requests.is_late(conn.client.peer, request_id) or conn.agent.generation > 0


def _request_key(line: bytes) -> Hashable:
    request_id = (read_envelope(line) or Envelope()).id
    return None if request_id is UNSET else request_key(request_id)
