import pytest

from rekindle.proxy.message_queues import MAX_EARLY_BYTES, ClientLine, MessageQueues
from rekindle.proxy.peers import Peer

ONE, TWO = Peer(1), Peer(2)


@pytest.fixture
def queues() -> MessageQueues:
    return MessageQueues()


def is_blocked(session_id: str) -> bool:
    return session_id == "blocked"


def test_early_updates_are_bounded(queues: MessageQueues) -> None:
    line = b"x" * 1_000_000
    held = sum(queues.hold_early(f"s{number}", line) for number in range(100))
    assert held == MAX_EARLY_BYTES // len(line)


def test_naming_or_releasing_a_session_makes_room_for_early_updates(
    queues: MessageQueues,
) -> None:
    half = b"x" * (MAX_EARLY_BYTES // 2)
    assert queues.hold_early("one", half)
    assert queues.hold_early("other", half)
    assert not queues.hold_early("other", b"x")
    queues.name_session("one", "mine")
    assert queues.hold_early("third", half)
    assert queues.take_released(is_blocked, with_early=True) == [half] * 3
    assert queues.hold_early("fourth", half + half)
    queues.drop_updates()
    assert queues.hold_early("fifth", half + half)


def test_held_updates_come_before_early_ones(queues: MessageQueues) -> None:
    queues.hold_early("unknown", b"early")
    queues.hold("s1", b"held")
    assert queues.take_released(is_blocked, with_early=True) == [b"held", b"early"]
    assert queues.take_released(is_blocked, with_early=True) == []


def test_updates_of_a_blocked_session_stay_held(queues: MessageQueues) -> None:
    queues.hold("blocked", b"one")
    queues.hold("free", b"two")
    assert queues.take_released(is_blocked, with_early=False) == [b"two"]
    assert queues.take_held("blocked") == [b"one"]
    assert queues.take_held("blocked") == []


def test_early_updates_stay_while_an_id_is_expected(queues: MessageQueues) -> None:
    queues.hold_early("unknown", b"early")
    assert queues.take_released(is_blocked, with_early=False) == []
    queues.name_session("unknown", "s1")
    assert queues.take_held("s1") == [b"early"]


def test_naming_a_session_without_early_updates_holds_nothing(queues: MessageQueues) -> None:
    queues.name_session("a1", "s1")
    assert queues.take_held("s1") == []


def test_prompts_leave_in_the_order_in_which_they_came(queues: MessageQueues) -> None:
    queues.queue_prompt("s1", ONE, b"one")
    queues.queue_prompt("s1", TWO, b"two")
    assert queues.next_prompt("s1") == ClientLine(ONE, b"one")
    assert queues.next_prompt("s1") == ClientLine(TWO, b"two")
    assert queues.prompts == {}


def test_one_queued_prompt_can_be_taken_out(queues: MessageQueues) -> None:
    queues.queue_prompt("s1", ONE, b"one")
    queues.queue_prompt("s2", ONE, b"two")
    assert queues.take_prompt(lambda it: it.line == b"two") == ClientLine(ONE, b"two")
    assert queues.take_prompt(lambda it: it.line == b"two") is None
    assert queues.take_prompts("s1") == [ClientLine(ONE, b"one")]
    assert queues.take_prompts("s1") == []


def test_taking_one_of_two_prompts_keeps_the_other(queues: MessageQueues) -> None:
    queues.queue_prompt("s1", ONE, b"one")
    queues.queue_prompt("s1", ONE, b"two")
    assert queues.take_prompt(lambda it: it.line == b"one") == ClientLine(ONE, b"one")
    assert queues.take_prompts("s1") == [ClientLine(ONE, b"two")]


def test_the_prompts_of_one_client_can_be_taken_out(queues: MessageQueues) -> None:
    queues.queue_prompt("s1", ONE, b"one")
    queues.queue_prompt("s1", TWO, b"two")
    queues.queue_prompt("s1", ONE, b"three")
    assert queues.has_prompt_of("s1", TWO)
    assert not queues.has_prompt_of("s2", TWO)
    assert [it.line for it in queues.take_prompts("s1", ONE)] == [b"one", b"three"]
    assert not queues.has_prompt_of("s1", ONE)
    assert queues.next_prompt("s1").line == b"two"


def test_the_messages_of_a_client_that_left_are_dropped(queues: MessageQueues) -> None:
    queues.queue_prompt("s1", ONE, b"one")
    queues.queue_prompt("s1", TWO, b"two")
    queues.wait("s2", ONE, b"three")
    queues.drop_client(ONE)
    assert queues.prompts == {"s1": [ClientLine(TWO, b"two")]}
    assert queues.waiting == []
    assert queues.waiting_sessions == set()
    queues.wait("s2", TWO, b"four")
    queues.drop_client(ONE)
    assert queues.waiting_sessions == {"s2"}


def test_waiting_messages_are_taken_once(queues: MessageQueues) -> None:
    queues.wait("s1", ONE, b"one")
    queues.wait(None, ONE, b"two")
    assert queues.waiting_sessions == {"s1", None}
    assert [it.line for it in queues.take_waiting()] == [b"one", b"two"]
    assert queues.take_waiting() == []
    assert queues.waiting_sessions == set()


def test_a_dropped_session_leaves_nothing_behind(queues: MessageQueues) -> None:
    queues.queue_prompt("s1", ONE, b"prompt")
    queues.hold("s1", b"update")
    queues.drop_session("s1")
    assert queues.prompts == {}
    assert queues.take_held("s1") == []


def test_a_prompt_is_taken_from_those_that_wait(queues: MessageQueues) -> None:
    queues.queue_prompt("s", Peer(1), b"queued")
    queues.wait("s", Peer(1), b"waiting")
    assert queues.take_prompt(lambda it: it.line == b"other") is None
    taken = queues.take_prompt(lambda it: it.line == b"waiting")
    assert taken is not None
    assert taken.line == b"waiting"
    assert queues.take_waiting() == []
    assert queues.has_prompt_of("s", Peer(1))
