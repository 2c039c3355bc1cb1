"""Messages between a client and a host that has its session: forward them, with other ids.

Nothing is recorded here: the host records its sessions.
"""

from msgspec import UNSET, Raw

from rekindle.acp import methods
from rekindle.acp.jsonrpc import (
    INTERNAL_ERROR,
    Envelope,
    error_response,
    notification,
    read_envelope,
    request_key,
)
from rekindle.acp.rewrite import with_id
from rekindle.jsonvalue import as_object, as_str, decode, decode_object, encode
from rekindle.proxy.flow_scheduler import FlowScheduler
from rekindle.proxy.host_connections import (
    POSITION,
    HostConnection,
    HostQuestion,
    HostRequest,
    LineGroup,
)
from rekindle.proxy.outbox import Outbox
from rekindle.proxy.peers import ClientConnection


class HostMessages:
    """Both directions between the clients of this engine and hosts."""

    def __init__(self, outbox: Outbox, scheduler: FlowScheduler) -> None:
        self._outbox = outbox
        self._conn = outbox.conn
        self._scheduler = scheduler

    # -- from the client -------------------------------------------------------------------

    def forward(
        self, client: ClientConnection, line: bytes, envelope: Envelope
    ) -> HostConnection | None:
        """Forward a message of a client to the host that it concerns, if any; return that."""
        hosts = self._conn.hosts
        if isinstance(envelope.id, Raw) and envelope.is_response:
            connection = hosts.asking(client.peer, envelope.id)
            if connection is not None:
                question = connection.questions.pop(request_key(envelope.id))
                self._outbox.send_to_host(connection.peer, with_id(line, question.host_id))
            return connection
        if envelope.method == methods.CANCEL_REQUEST:
            params = as_object((decode_object(line) or {}).get("params"))
            cancelled_id = Raw(encode(params.get("requestId")))
            connection = hosts.answering(client.peer, cancelled_id)
            if connection is not None:
                connection.requests[request_key(cancelled_id)].is_cancelled = True
        else:
            connection = hosts.serving(client.peer, envelope.session_id)
        if connection is not None and envelope.method == methods.CANCEL:
            for request in connection.prompts_of(str(envelope.session_id)):
                request.is_cancelled = True
        if connection is not None:
            self._note_request(connection, line, envelope)
            self._outbox.send_to_host(connection.peer, line)
        return connection

    def _note_request(self, connection: HostConnection, line: bytes, envelope: Envelope) -> None:
        if isinstance(envelope.id, Raw) and envelope.method is not UNSET:
            method, session_id = envelope.method, envelope.session_id
            whole = line if method == methods.PROMPT else b""
            seq = connection.seqs.get(str(session_id), 0)
            request = HostRequest(Raw(bytes(envelope.id)), method, session_id, whole, seq)
            connection.requests[request_key(envelope.id)] = request

    # -- from the host ---------------------------------------------------------------------

    def receive(self, connection: HostConnection, line: bytes) -> None:
        """Process one line of a host. The lines of a group are processed together."""
        group = connection.group
        if group is not None:
            group.lines.append(line)
            group.missing -= 1
            if group.missing == 0:
                self._finish_group(connection, group)
            return
        envelope = read_envelope(line)
        if envelope is not None and envelope.method == POSITION:
            self._begin_group(connection, line)
        else:
            self._process(connection, line, envelope)

    def _begin_group(self, connection: HostConnection, line: bytes) -> None:
        params = as_object((decode_object(line) or {}).get("params"))
        seqs, count = as_object(params.get("seqs")), params.get("lines")
        if isinstance(count, int) and count > 0:
            connection.group = LineGroup(seqs, count)
        else:
            connection.seqs.update(seqs)
        if not seqs:
            # The host cannot record now.
            for request in connection.requests.values():
                request.may_be_unrecorded = True

    def _finish_group(self, connection: HostConnection, group: LineGroup) -> None:
        connection.group = None
        connection.seqs.update(group.seqs)
        for line in group.lines:
            self.receive(connection, line)

    def release_held(self, connection: HostConnection, session_id: str) -> None:
        """Process the lines that waited until the client had the entries before them."""
        for line in connection.held.pop(session_id, []):
            self._process(connection, line, read_envelope(line))

    def _held_for(self, connection: HostConnection, envelope: Envelope) -> list[bytes] | None:
        """Return the lines behind which a message waits, if it must wait."""
        session_id = envelope.session_id
        if session_id in connection.held:
            return connection.held[session_id]
        # The session may be a sub-agent's, whose parent is unknown here.
        is_known = session_id is None or session_id in connection.sessions
        return None if is_known else next(iter(connection.held.values()), None)

    def _process(self, connection: HostConnection, line: bytes, envelope: Envelope | None) -> None:
        if envelope is None:
            return
        held = self._held_for(connection, envelope)
        if isinstance(envelope.id, Raw) and envelope.is_response:
            if self._scheduler.host_replied(connection.peer, envelope, line):
                return
            self._receive_response(connection, line, envelope, envelope.id)
        elif held is not None:
            held.append(line)
        elif isinstance(envelope.id, Raw) and envelope.method is not UNSET:
            sent_id = self._scheduler.new_id()
            question = HostQuestion(sent_id, Raw(bytes(envelope.id)))
            connection.questions[request_key(sent_id)] = question
            self._outbox.send(connection.client, with_id(line, sent_id))
        elif envelope.method == methods.CANCEL_REQUEST:
            self._withdraw(connection, line)
        else:
            session_id = envelope.session_id
            if session_id is not None and not connection.serves(session_id):
                connection.subagents.add(session_id)
            self._outbox.send(connection.client, line)

    def _receive_response(
        self, connection: HostConnection, line: bytes, envelope: Envelope, request_id: Raw
    ) -> None:
        request = connection.requests.pop(request_key(request_id), None)
        if request is None:
            return
        self._outbox.send(connection.client, line)
        if not envelope.is_error and envelope.result is not UNSET:
            self._note_success(connection, request, envelope.result)
        if not connection.sessions and not connection.requests:
            self.disconnect(connection)

    def _note_success(self, connection: HostConnection, request: HostRequest, result: Raw) -> None:
        """Note the session that a request has created or closed."""
        if request.method == methods.FORK:
            fork_id = as_str(as_object(decode(result)).get("sessionId"))
            parent = connection.sessions.get(str(request.session_id))
            if fork_id is not None and parent is not None:
                connection.sessions[fork_id] = parent
        elif request.method in {methods.CLOSE, methods.DELETE}:
            connection.sessions.pop(str(request.session_id), None)

    def _withdraw(self, connection: HostConnection, line: bytes) -> None:
        """Cancel the request at the client that the host has cancelled."""
        params = as_object((decode_object(line) or {}).get("params"))
        host_id = Raw(encode(params.get("requestId")))
        question = connection.question_of(host_id)
        if question is not None:
            self._cancel_question(connection, question)
        for lines in connection.held.values():
            # The client need not see a question that waits.
            lines[:] = [it for it in lines if not _is_request(it, host_id)]

    def _cancel_question(self, connection: HostConnection, question: HostQuestion) -> None:
        """Inform the client that a request of the host needs no answer any more."""
        del connection.questions[request_key(question.sent_id)]
        self._conn.requests.note_late(connection.client, question.sent_id)
        params = {"requestId": question.sent_id}
        self._outbox.send(connection.client, notification(methods.CANCEL_REQUEST, params))

    # -- the end -----------------------------------------------------------------------------

    def disconnect(self, connection: HostConnection) -> None:
        """Close a connection that the client does not need any more."""
        if self._conn.hosts.pop(connection.peer) is not None:
            self._outbox.step.left_hosts.append(connection.peer)
            self._scheduler.host_closed(connection.peer)

    def client_left(self, client: ClientConnection) -> None:
        """Close the connections of a client that has left."""
        for connection in self._conn.hosts.of_client(client.peer):
            self.disconnect(connection)

    def fail_requests(self, connection: HostConnection) -> None:
        """Answer the requests that a host left open when its connection ended.

        The client need not answer the host any more. Its prompts stay open: the flow that takes
        over their session answers them.
        """
        for question in list(connection.questions.values()):
            self._cancel_question(connection, question)
        for key, request in list(connection.requests.items()):
            if request.method != methods.PROMPT:
                del connection.requests[key]
                text = f"the host of the session ended before it answered {request.method}"
                line = error_response(request.id, INTERNAL_ERROR, text)
                self._outbox.send(connection.client, line)


def _is_request(line: bytes, request_id: Raw) -> bool:
    envelope = read_envelope(line)
    if envelope is None or not envelope.is_request or not isinstance(envelope.id, Raw):
        return False
    return request_key(Raw(bytes(envelope.id))) == request_key(request_id)
