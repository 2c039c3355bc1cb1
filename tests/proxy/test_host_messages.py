"""Messages between a client and a host. `transcripts/attach-*.txt` have whole conversations."""

import json

from msgspec import Raw

from rekindle.acp.jsonrpc import Envelope, read_envelope
from rekindle.model import AgentIdentity, LeaseHolder
from rekindle.proxy.connection_state import AgentState, ConnectionState, EngineSettings
from rekindle.proxy.flow_scheduler import FlowScheduler
from rekindle.proxy.host_connections import AttachedSession, HostConnection, position
from rekindle.proxy.host_messages import HostMessages
from rekindle.proxy.journal import Journal
from rekindle.proxy.outbox import Outbox
from rekindle.proxy.peers import ClientConnection, Peer
from rekindle.proxy.session_clients import Attachment, SessionSetup

HOST = LeaseHolder(token="t", pid=1, machine="here", socket="/h")  # noqa: S106 - not a password
CLIENT, PEER = Peer(1), Peer(2)


class Messages(HostMessages):
    """Messages of one client and one host, with the session `s`."""

    def __init__(self) -> None:
        agent = AgentState(identity=AgentIdentity())
        conn = ConnectionState(settings=EngineSettings(), agent=agent)
        self.client = conn.clients[CLIENT] = ClientConnection(peer=CLIENT)
        self.outbox = Outbox(conn, Journal(conn))
        super().__init__(self.outbox, FlowScheduler(self.outbox, self))  # type: ignore[arg-type]
        self.connection = HostConnection(peer=PEER, client=CLIENT, holder=HOST)
        self.connection.sessions["s"] = AttachedSession(SessionSetup(), Attachment())
        conn.hosts.add(self.connection)

    def send(self, line: bytes) -> bool:
        """Let the client send a line; return whether it concerned the host."""
        return self.forward(self.client, line, read_envelope(line) or Envelope()) is not None

    def to_client(self) -> list[bytes]:
        return self.outbox.step.to_clients.get(CLIENT, [])


def test_only_messages_of_its_sessions_reach_a_host() -> None:
    messages = Messages()
    line = b'{"method":"session/cancel","params":{"sessionId":"s"}}'
    assert messages.send(line)
    assert not messages.send(line.replace(b'"s"', b'"t"'))
    assert not messages.send(b'{"id":9,"result":{}}')
    assert messages.outbox.step.to_hosts == {PEER: [line]}


def test_the_lines_of_a_group_wait_for_the_last_one() -> None:
    messages = Messages()
    note = b'{"method":"_x/note","params":{"sessionId":"s"}}'
    for line in (position({"s": 9}, lines=2), note):
        messages.receive(messages.connection, line)
    assert messages.to_client() == []
    assert messages.connection.seqs == {}
    messages.receive(messages.connection, note)
    assert messages.to_client() == [note, note]
    assert messages.connection.seqs == {"s": 9}


def test_held_lines_follow_in_order() -> None:
    messages = Messages()
    messages.connection.held["s"] = []
    notes = [b'{"method":"_x/%d","params":{"sessionId":"s"}}' % number for number in range(3)]
    # The parent of a sub-agent is unknown here, so its messages wait as well.
    notes.append(b'{"method":"_x/4","params":{"sessionId":"s.1"}}')
    for note in notes:
        messages.receive(messages.connection, note)
    assert messages.to_client() == []
    messages.release_held(messages.connection, "s")
    assert messages.to_client() == notes


def test_messages_of_another_session_are_not_held() -> None:
    messages = Messages()
    messages.connection.sessions["t"] = messages.connection.sessions["s"]
    messages.connection.held["s"] = []
    note = b'{"method":"_x/1","params":{"sessionId":"t"}}'
    messages.receive(messages.connection, note)
    assert messages.to_client() == [note]


def test_a_held_question_that_is_withdrawn_is_never_asked() -> None:
    messages = Messages()
    messages.connection.held["s"] = []
    asked = b'{"id":%d,"method":"session/request_permission","params":{"sessionId":"s"}}'
    for number in (7, 8):
        messages.receive(messages.connection, asked % number)
    note = b'{"method":"_x/1","params":{"sessionId":"s"}}'
    messages.receive(messages.connection, note)
    withdrawn = b'{"method":"$/cancel_request","params":{"requestId":7}}'
    messages.receive(messages.connection, withdrawn)
    messages.release_held(messages.connection, "s")
    shown = [json.loads(line).get("method") for line in messages.to_client()]
    assert shown == ["session/request_permission", "_x/1"]
    assert [bytes(it.host_id) for it in messages.connection.questions.values()] == [b"8"]


def test_requests_of_a_host_that_has_ended_are_withdrawn() -> None:
    messages = Messages()
    messages.receive(messages.connection, b'{"id":1,"method":"session/request_permission"}')
    (asked,) = map(json.loads, messages.to_client())
    assert messages.send(b'{"id":5,"method":"session/set_mode","params":{"sessionId":"s"}}')
    messages.fail_requests(messages.connection)
    withdrawn, failed = map(json.loads, messages.to_client()[1:])
    assert withdrawn["params"] == {"requestId": asked["id"]}
    assert failed["error"]["message"].endswith("ended before it answered session/set_mode")
    # The client's answer is for no request any more.
    assert not messages.send(json.dumps({"id": asked["id"], "result": {}}).encode())
    requests = messages.outbox.conn.requests
    assert requests.is_late(CLIENT, Raw(json.dumps(asked["id"]).encode()))


def test_a_connection_ends_after_the_last_response() -> None:
    messages = Messages()
    for line in (b'{"id":1,"method":"session/close"', b'{"id":2,"method":"session/fork"'):
        assert messages.send(line + b',"params":{"sessionId":"s"}}')
    messages.receive(messages.connection, b'{"id":1,"result":{}}')
    assert messages.outbox.step.left_hosts == []
    messages.receive(messages.connection, b'{"id":2,"error":{"code":-32603,"message":"no"}}')
    assert messages.outbox.step.left_hosts == [PEER]


def test_a_connection_is_closed_once() -> None:
    messages = Messages()
    messages.disconnect(messages.connection)
    messages.disconnect(messages.connection)
    assert messages.outbox.step.left_hosts == [PEER]
