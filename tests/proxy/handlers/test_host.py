"""Requests of other processes to a host. `transcripts/host-requests.txt` has a conversation."""

import pytest

from engine_pair import EnginePair
from rekindle.model import AgentIdentity
from rekindle.proxy.connection_state import AgentState, ConnectionState, EngineSettings
from rekindle.proxy.flow import ClientRequest, DescribeHost, Refusal
from rekindle.proxy.handlers.host import release, status
from rekindle.proxy.peers import ClientConnection, Peer


def request(method: str, **params: object) -> ClientRequest:
    client = ClientConnection(peer=Peer(2), is_local_process=True)
    return ClientRequest(client, method, None, params, b"")


def test_a_host_without_sessions_describes_itself() -> None:
    conn = ConnectionState(settings=EngineSettings(), agent=AgentState(identity=AgentIdentity()))
    flow = status(conn, request("_rekindle/host/status"))
    assert next(flow) == DescribeHost()
    with pytest.raises(StopIteration) as ended:
        flow.send({"pid": 7})
    assert ended.value.value["pid"] == 7
    assert ended.value.value["sessions"] == []


def test_an_unknown_session_cannot_be_released() -> None:
    conn = ConnectionState(settings=EngineSettings(), agent=AgentState(identity=AgentIdentity()))
    with pytest.raises(Refusal, match="not open in this process"):
        next(release(conn, request("_rekindle/host/release", sessionId="s")))


def test_a_client_on_standard_input_cannot_use_the_methods() -> None:
    pair = EnginePair()
    pair.do_agent("Fake")
    error = pair.request(5, "_rekindle/host/status").error
    assert error["code"] == -32601
