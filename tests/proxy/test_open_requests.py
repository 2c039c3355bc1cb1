import pytest
from msgspec import Raw

from rekindle.acp import methods
from rekindle.proxy.open_requests import OpenRequest, OpenRequests
from rekindle.proxy.peers import AGENT, NO_CLIENT, Peer

ONE, TWO = Peer(1), Peer(2)


def request(
    asked_by: Peer, request_id: bytes, method: str = methods.PROMPT, session_id: str = "s1"
) -> OpenRequest:
    return OpenRequest(asked_by, request_id, method, session_id, {}, sent_id=request_id)


@pytest.fixture
def requests() -> OpenRequests:
    return OpenRequests()


def test_a_response_finds_the_request_by_peer_and_id(requests: OpenRequests) -> None:
    to_agent, to_client = request(ONE, b"1"), request(AGENT, b"1", methods.REQUEST_PERMISSION)
    requests.add(AGENT, Raw(b"1"), to_agent)
    requests.add(ONE, Raw(b"1"), to_client)
    assert requests.find(AGENT, Raw(b"1")) is to_agent
    assert requests.close(ONE, Raw(b"1")) is to_client
    assert requests.close(AGENT, Raw(b"1")) is to_agent
    assert requests.close(AGENT, Raw(b"1")) is None
    assert requests.find(AGENT, Raw(b"1")) is None


def test_the_same_id_may_be_open_at_two_clients(requests: OpenRequests) -> None:
    one, two = request(AGENT, b"1"), request(AGENT, b"1", session_id="s2")
    requests.add(ONE, Raw(b"1"), one)
    requests.add(TWO, Raw(b"1"), two)
    assert requests.close(TWO, Raw(b"1")) is two
    assert requests.close(ONE, Raw(b"1")) is one


def test_an_id_that_cannot_be_compared_is_not_noted(requests: OpenRequests) -> None:
    requests.add(AGENT, Raw(b"{}"), request(ONE, b"{}"))
    assert not requests.is_agent_busy


def test_a_response_after_ours_is_late_once(requests: OpenRequests) -> None:
    requests.add(AGENT, Raw(b"1"), request(ONE, b"1"))
    assert not requests.is_late(AGENT, Raw(b"1"))
    assert [it.id for it in requests.answer_for_agent()] == [b"1"]
    assert requests.is_late(AGENT, Raw(b"1"))
    assert not requests.is_late(AGENT, Raw(b"1"))


def test_an_id_that_is_used_again_is_not_late(requests: OpenRequests) -> None:
    requests.add(AGENT, Raw(b"1"), request(ONE, b"1"))
    requests.answer_for_agent()
    requests.add(AGENT, Raw(b"1"), request(ONE, b"1"))
    assert not requests.is_late(AGENT, Raw(b"1"))


def test_requests_are_answered_in_the_order_in_which_they_were_asked(
    requests: OpenRequests,
) -> None:
    requests.add(AGENT, Raw(b"1"), request(ONE, b"1"))
    requests.add(AGENT, Raw(b"2"), request(ONE, b"2", methods.LIST))
    requests.add(AGENT, Raw(b"3"), request(ONE, b"3", session_id="s2"))
    assert requests.is_open(methods.PROMPT, "s2")
    assert [it.id for it in requests.answer_for_agent(methods.PROMPT, "s1")] == [b"1"]
    assert [it.id for it in requests.answer_for_agent()] == [b"2", b"3"]
    assert not requests.is_open(methods.PROMPT, "s2")
    assert not requests.is_agent_busy


def test_the_agent_asks_the_user_at_whichever_client(requests: OpenRequests) -> None:
    assert not requests.is_user_asked("s1")
    requests.add(TWO, Raw(b"1"), request(AGENT, b"1", methods.REQUEST_PERMISSION))
    requests.add(ONE, Raw(b"2"), request(AGENT, b"2", "fs/read_text_file"))
    assert requests.is_user_asked("s1")
    assert not requests.is_user_asked("s2")
    answered = requests.answer_for_clients()
    assert [(peer, it.id) for peer, it in answered] == [(TWO, b"1"), (ONE, b"2")]
    assert not requests.is_user_asked("s1")
    assert requests.is_late(TWO, Raw(b"1"))


def test_the_response_to_a_client_that_has_left_goes_to_no_client(requests: OpenRequests) -> None:
    requests.add(AGENT, Raw(b"1"), request(ONE, b"1"))
    requests.add(AGENT, Raw(b"2"), request(TWO, b"2"))
    requests.add(AGENT, Raw(b"3"), request(ONE, b"3", session_id="s2"))
    assert [it.id for it in requests.leave(ONE, methods.PROMPT, "s1")] == [b"1"]
    left = requests.close(AGENT, Raw(b"1"))
    assert left is not None
    assert left.asked_by == NO_CLIENT
    assert requests.is_open(methods.PROMPT, "s2")
    assert [it.id for it in requests.leave(ONE)] == [b"3"]


def test_a_withdrawn_request_needs_no_response(requests: OpenRequests) -> None:
    requests.add(ONE, Raw(b"1"), request(AGENT, b"1"))
    requests.add(TWO, Raw(b"1"), request(AGENT, b"1"))
    requests.add(NO_CLIENT, Raw(b"1"), request(AGENT, b"1"))
    assert requests.asked(Raw(b"1")) == [ONE, TWO]
    requests.withdraw(TWO, b"1")
    requests.withdraw(TWO, b"2")
    assert requests.asked(Raw(b"1")) == [ONE]
    assert requests.is_late(TWO, Raw(b"1"))
    requests.drop_client(ONE)
    assert requests.asked(Raw(b"1")) == []
    assert [it.id for it in requests.waiting_for(NO_CLIENT)] == [b"1"]
