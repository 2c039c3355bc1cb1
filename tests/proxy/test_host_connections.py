"""Connections to hosts, and the ids that they map."""

import json

from msgspec import Raw

from rekindle.model import LeaseHolder
from rekindle.proxy.host_connections import (
    AttachedSession,
    HostConnection,
    HostConnections,
    HostQuestion,
    HostRequest,
    position,
)
from rekindle.proxy.peers import Peer
from rekindle.proxy.session_clients import Attachment, SessionSetup

HOST = LeaseHolder(token="t", pid=1, machine="here", socket="/h")  # noqa: S106 - not a password
OTHER = LeaseHolder(token="u", pid=2, machine="here", socket="/i")  # noqa: S106 - not a password


def connection(peer: int = 5, client: int = 1) -> HostConnection:
    return HostConnection(peer=Peer(peer), client=Peer(client), holder=HOST)


def test_a_connection_serves_sessions_and_their_subagents() -> None:
    made = connection()
    made.sessions["s"] = AttachedSession(SessionSetup(), Attachment())
    made.subagents.add("s.1")
    assert [made.serves(it) for it in ("s", "s.1", "t", None)] == [True, True, False, False]


def test_a_question_is_found_by_the_id_of_the_host() -> None:
    made = connection()
    question = HostQuestion(Raw(b'"r-1"'), Raw(b"7"))
    made.questions["text", "r-1"] = question
    assert made.question_of(Raw(b"7")) is question
    assert made.question_of(Raw(b'"7"')) is None


def test_connections_are_found_by_what_a_client_sends() -> None:
    hosts = HostConnections()
    first, second = connection(5, 1), connection(6, 2)
    first.sessions["s"] = AttachedSession(SessionSetup(), Attachment())
    first.requests["number", 3] = HostRequest(Raw(b"3"), "session/prompt", "s")
    first.questions["text", "r-1"] = HostQuestion(Raw(b'"r-1"'), Raw(b"7"))
    hosts.add(first)
    hosts.add(second)
    assert hosts.get(Peer(5)) is first
    assert hosts.of_client(Peer(2)) == [second]
    assert hosts.to_host(HOST, Peer(1)) is None
    # Once its agent is known to be the same.
    first.is_accepted = True
    assert hosts.to_host(HOST, Peer(1)) is first
    assert hosts.to_host(OTHER, Peer(1)) is None
    assert hosts.serving(Peer(1), "s") is first
    assert hosts.serving(Peer(2), "s") is None
    assert hosts.asking(Peer(1), Raw(b'"r-1"')) is first
    assert hosts.asking(Peer(2), Raw(b'"r-1"')) is None
    assert hosts.pop(Peer(5)) is first
    assert hosts.pop(Peer(5)) is None


def test_a_position_names_the_seqs_and_the_lines_that_follow() -> None:
    message = json.loads(position({"s": 4}, lines=2))
    assert message["method"] == "_rekindle/position"
    assert message["params"] == {"seqs": {"s": 4}, "lines": 2}


def test_a_prompt_that_a_host_left_open_can_be_cancelled() -> None:
    hosts = HostConnections()
    mine, other = (HostRequest(Raw(it), "session/prompt", "s") for it in (b"3", b"4"))
    hosts.leave(Peer(1), [mine])
    hosts.leave(Peer(1), [other])
    assert not hosts.cancel_left(Peer(2), Raw(b"4"))
    assert not hosts.cancel_left(Peer(1), Raw(b"5"))
    assert hosts.cancel_left(Peer(1), Raw(b"4"))
    assert (mine.is_cancelled, other.is_cancelled) == (False, True)
    hosts.continued(Peer(1), [other])
    assert not hosts.cancel_left(Peer(1), Raw(b"4"))
    hosts.continued(Peer(1), [mine])
    assert not hosts.cancel_left(Peer(1), Raw(b"3"))
