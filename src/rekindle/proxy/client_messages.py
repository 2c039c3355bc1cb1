"""The lines of the client: answered by a flow, made to wait for one, or passed on."""

from collections.abc import Hashable
from typing import Any

from msgspec import UNSET, Raw

from rekindle.acp import methods
from rekindle.acp.jsonrpc import (
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    Envelope,
    error_response,
    notification,
    read_envelope,
    request_key,
    response,
    split_batch,
    update_line,
)
from rekindle.acp.rewrite import with_id, with_session_id
from rekindle.jsonvalue import as_array, as_object, decode_object, encode
from rekindle.model import Side
from rekindle.proxy.context import PROMPT_ID, RUNNING, Desk
from rekindle.proxy.flow_scheduler import FlowScheduler
from rekindle.proxy.handlers.registry import flow_for
from rekindle.proxy.live_session import LiveSession, UpdatePolicy
from rekindle.proxy.open_requests import OpenRequest
from rekindle.proxy.translation import outcome_for_agent, request_for_agent

_WITHOUT_AGENT = frozenset({methods.LIST, methods.CLOSE, methods.DELETE})
_NEEDING_PARAMS = methods.LIFECYCLE | {methods.PROMPT, methods.INITIALIZE}


class ClientMessages:
    """One direction of a connection."""

    def __init__(self, desk: Desk, conductor: FlowScheduler) -> None:
        self._desk = desk
        self._conductor = conductor
        self._waiting: list[bytes] = []
        """Lines that must wait for what comes before them."""
        self._sessions_waiting: set[str | None] = set()
        self._prompts = 0

    def take(self, line: bytes) -> None:
        """Decide on one line."""
        desk = self._desk
        desk.recording.end_streak()
        message = read_envelope(line)
        if desk.objects(Side.CLIENT, line, message):
            return
        if message is not None:
            self._take(line, message)
            return
        batch = [(member, read_envelope(member)) for member in split_batch(line)]
        if any(inner is not None and self._concerns_us(inner) for _, inner in batch):
            for member, inner in batch:
                # A batch in a batch is no message, however deep one looks.
                self.take(member) if inner is not None else desk.send(member)
            return
        if line.lstrip().startswith(b"[") and desk.conn.has_version_2:
            # No batches there: one that is to be taken apart must have something in it.
            desk.tell(error_response(None, INVALID_REQUEST, "a batch of nothing that is a message"))
            return
        for member, inner in batch:
            if inner is not None:
                desk.see(Side.CLIENT, member, inner)
        desk.send(line)

    def release(self) -> None:
        """Take the lines again that had to wait."""
        waiting, self._waiting = self._waiting, []
        self._sessions_waiting.clear()
        for line in waiting:
            self.take(line)

    def deliver(
        self, line: bytes, preface: dict[str, Any] | None = None, *, is_ours: bool = False
    ) -> None:
        """Record a line, and let the agent have it, with the id by which it knows the session.

        If `is_ours`, under an id of ours: the client has its answer already.
        """
        message = read_envelope(line) or Envelope()
        conn = self._desk.conn
        live = conn.sessions.get(message.session_id)
        said = line
        if message.method == methods.PROMPT and live is not None:
            live.hearing = UpdatePolicy.FORWARD
            if is_ours or conn.is_translating:
                said = self._under_our_id(live, line, message)
                message = read_envelope(said) or message
        elif conn.is_translating and message.is_request:
            said = request_for_agent(conn, live, line)
        self._desk.see(Side.CLIENT, line, message)
        if live is not None:
            said = self._for_agent(live, said, preface)
        self._desk.send(said)

    def _under_our_id(self, live: LiveSession, line: bytes, message: Envelope) -> bytes:
        """Return a prompt under an id of ours; the client's is kept if it waits for the end."""
        self._prompts += 1
        if self._desk.conn.client_protocol == 1 and isinstance(message.id, Raw):
            live.open_prompt = bytes(message.id)
        return with_id(line, Raw(encode(f"{PROMPT_ID}{self._prompts}")))

    def _take(self, line: bytes, message: Envelope) -> None:
        if isinstance(message.id, Raw) and message.is_response:
            self._take_response(line, message, message.id)
        elif self._must_wait(message):
            self._waiting.append(line)
            self._sessions_waiting.add(message.session_id)
        elif isinstance(message.id, Raw) and message.method is not UNSET:
            self._take_request(line, message, message.id, message.method)
        elif message.method == methods.CANCEL_REQUEST:
            self._cancel_request(line)
        else:
            if message.method == methods.CANCEL and message.session_id is not None:
                self.drop_queued(message.session_id)
            self.deliver(line)

    def drop_queued(self, session_id: str) -> None:
        """Call off all prompts that wait for a turn's end."""
        live = self._desk.conn.sessions.get(session_id)
        if live is not None:
            queued, live.queued = live.queued, []
            for line in queued:
                self._call_off(line)

    def _cancel_request(self, line: bytes) -> None:
        """Call a request off, also one that waits here, or that the agent has under another id."""
        conn = self._desk.conn
        named = as_object((decode_object(line) or {}).get("params")).get("requestId")
        wanted = request_key(Raw(encode(named)))
        for live in conn.sessions.with_queued():
            for queued in live.queued:
                if _key(queued) == wanted:
                    live.queued.remove(queued)
                    self._call_off(queued)
                    return
        held = conn.sessions.with_open_prompt(encode(named))
        if held is not None:
            line = notification(methods.CANCEL, {"sessionId": held.id})
        self.deliver(line)

    def _call_off(self, line: bytes) -> None:
        """Answer a prompt that was never taken."""
        request_id = (read_envelope(line) or Envelope()).id or None
        if self._desk.conn.client_protocol == 1 and request_id is not None:
            self._desk.tell(response(request_id, {"stopReason": "cancelled"}))
        else:
            words = "the prompt was called off before it could be taken"
            self._desk.tell(error_response(request_id, REQUEST_CANCELLED, words))

    def _take_response(self, line: bytes, message: Envelope, request_id: Raw) -> None:
        asked = self._desk.recording.response(Side.CLIENT, request_id, message, line)
        if asked is not None and asked.method in methods.ASKS_USER:
            line = self._permitted(asked, line)
        if asked is not None and asked.id != bytes(request_id):
            # The agent had asked under an id that one before it had used.
            self._desk.send(with_id(line, Raw(asked.id)))
        elif asked is not None or not self._is_late(request_id):
            self._desk.send(line)

    def _permitted(self, asked: OpenRequest, line: bytes) -> bytes:
        """Return an answer to a question for permission as the agent gets it."""
        conn = self._desk.conn
        if not conn.is_translating:
            return line
        session_id = asked.session_id
        is_waiting = conn.requests.is_asked(session_id)
        is_running = session_id is not None and conn.requests.is_open(methods.PROMPT, session_id)
        if conn.client_protocol > 1 and session_id is not None and is_running and not is_waiting:
            self._desk.tell(update_line(session_id, RUNNING))
        is_permission = asked.method == methods.REQUEST_PERMISSION
        return outcome_for_agent(conn, line) if is_permission else line

    def _is_late(self, request_id: Raw) -> bool:
        """Tell whether an answer is to what nobody asks any more."""
        conn = self._desk.conn
        return conn.requests.is_late(Side.CLIENT, request_id) or conn.agent.generation > 0

    def _take_request(self, line: bytes, message: Envelope, request_id: Raw, method: str) -> None:
        params = (
            as_object((decode_object(line) or {}).get("params"))
            if method in _NEEDING_PARAMS
            else {}
        )
        session_id = message.session_id
        live = self._desk.conn.sessions.open(session_id)
        if method == methods.PROMPT and live is not None and self._must_queue(live):
            live.queued.append(line)
            return
        flow = flow_for(self._desk.conn, method, session_id, params, line)
        if flow is None:
            self.deliver(line)
        else:
            self._conductor.start(flow, request_id, session_id)

    def _must_queue(self, live: LiveSession) -> bool:
        """Tell whether a prompt has to wait for a turn's end: between versions, one at a time."""
        conn = self._desk.conn
        is_running = live.open_prompt is not None or conn.requests.is_open(methods.PROMPT, live.id)
        return conn.is_translating and is_running

    def _must_wait(self, message: Envelope) -> bool:
        """Tell whether something that was asked before has to be done first."""
        session_id = message.session_id
        if session_id is not None and (
            self._conductor.is_busy(session_id) or session_id in self._sessions_waiting
        ):
            return True
        agent = self._desk.conn.agent
        if agent.is_starting or agent.is_dying:
            return message.is_request and message.method not in _WITHOUT_AGENT
        is_of_sessions = session_id is not None or message.method in methods.LIFECYCLE
        return agent.is_initializing and is_of_sessions

    def _concerns_us(self, message: Envelope) -> bool:
        """Tell whether a member of a batch needs more than to be passed on."""
        live = self._desk.conn.sessions.get(message.session_id)
        has_two_names = live is not None and live.agent_id != live.id
        conn = self._desk.conn
        is_alone = not conn.agent.is_running or conn.is_translating
        return message.method in _NEEDING_PARAMS or has_two_names or is_alone

    def _for_agent(self, live: LiveSession, line: bytes, preface: dict[str, Any] | None) -> bytes:
        whole = decode_object(line) if preface is not None else None
        if preface is not None and whole is not None:
            params = as_object(whole.get("params"))
            blocks = as_array(params.get("prompt"))
            is_handover = live.needs_handover
            self._desk.recording.preface(live.id, preface, blocks, is_handover=is_handover)
            line = encode({**whole, "params": {**params, "prompt": [preface, *blocks]}})
        return line if live.agent_id == live.id else with_session_id(line, live.id, live.agent_id)


def _key(line: bytes) -> Hashable:
    message = read_envelope(line)
    return None if message is None or not isinstance(message.id, Raw) else request_key(message.id)
