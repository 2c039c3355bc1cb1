"""Ask the host of a session to release it."""

import pytest

from rekindle.model import AgentIdentity, LeaseHolder
from rekindle.proxy.connection_state import AgentState, ConnectionState, EngineSettings
from rekindle.proxy.flow import AgentReply, CallHost, ConnectToHost, DisconnectFromHost
from rekindle.proxy.handlers.ask_host import ask_for_release
from rekindle.proxy.peers import Peer

HOST = LeaseHolder(token="t", pid=1, machine="here", socket="/h")  # noqa: S106 - not a password
WITHOUT_SOCKET = LeaseHolder(token="t", pid=1, machine="here")  # noqa: S106 - not a password


def connection() -> ConnectionState:
    return ConnectionState(settings=EngineSettings(), agent=AgentState(identity=AgentIdentity()))


def test_a_host_is_asked_and_left() -> None:
    conn = connection()
    flow = ask_for_release(conn, "s", HOST)
    assert next(flow) == ConnectToHost(Peer(1), HOST)
    call = flow.send(None)
    assert isinstance(call, CallHost)
    assert (call.method, call.params) == ("_rekindle/host/status", {})
    call = flow.send(AgentReply(result={}))
    assert isinstance(call, CallHost)
    assert (call.method, call.params) == ("_rekindle/host/release", {"sessionId": "s"})
    assert flow.send(AgentReply(result={})) == DisconnectFromHost(Peer(1))


def test_a_host_that_cannot_be_reached_is_not_asked() -> None:
    conn = connection()
    flow = ask_for_release(conn, "s", HOST)
    next(flow)
    with pytest.raises(StopIteration):
        flow.send("nothing listens there")
    assert conn.hosts.by_peer == {}


def test_a_host_that_does_not_answer_is_left_at_once() -> None:
    flow = ask_for_release(connection(), "s", HOST)
    next(flow)
    flow.send(None)
    assert flow.send(AgentReply(error={"message": "late"})) == DisconnectFromHost(Peer(1))


def test_a_host_without_a_socket_is_not_asked() -> None:
    with pytest.raises(StopIteration):
        next(ask_for_release(connection(), "s", WITHOUT_SOCKET))
