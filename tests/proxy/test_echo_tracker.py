from typing import Any

import pytest

from rekindle.proxy.echo_tracker import EchoTracker

TEXT = {"type": "text", "text": "Hello"}


def echo(text: str, **fields: object) -> dict[str, Any]:
    update = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}}
    return {**update, **fields}


def test_an_echo_is_recognised_until_the_prompt_is_answered() -> None:
    tracker = EchoTracker()
    tracker.prompt([TEXT], is_v2=False)
    assert tracker.matches("user_message_chunk", echo("Hel"), is_v2=False)
    assert not tracker.matches("user_message_chunk", echo("other"), is_v2=False)
    tracker.response(b"{}", is_v2=False)
    assert not tracker.matches("user_message_chunk", echo("lo"), is_v2=False)


def test_an_echo_with_a_handover_is_hidden() -> None:
    tracker = EchoTracker()
    tracker.prompt([TEXT], is_v2=False)
    tracker.add_preface({"type": "text", "text": "History"}, [TEXT])
    assert tracker.matches("user_message_chunk", echo("History Hello"), is_v2=False)
    assert tracker.user_blocks == [TEXT]
    tracker.response(b"{}", is_v2=False)
    tracker.prompt([TEXT], is_v2=False)
    assert tracker.matches("user_message_chunk", echo("Hello"), is_v2=False)
    assert tracker.user_blocks is None


def test_only_the_echo_of_the_prompt_with_the_handover_is_replaced() -> None:
    tracker = EchoTracker()
    other = {"type": "text", "text": "Other"}
    tracker.prompt([TEXT], is_v2=True)
    tracker.add_preface({"type": "text", "text": "History"}, [TEXT])
    tracker.prompt([other], is_v2=True)
    assert tracker.matches("user_message", echo("History Hello"), is_v2=True)
    assert tracker.user_blocks == [TEXT]
    assert tracker.matches("user_message", echo("Other"), is_v2=True)
    assert tracker.user_blocks is None


@pytest.mark.parametrize("is_v2", [False, True])
def test_an_echo_of_the_own_part_alone_is_that_of_a_prompt_with_a_handover(*, is_v2: bool) -> None:
    tracker = EchoTracker()
    tracker.prompt([TEXT], is_v2=is_v2)
    tracker.add_preface({"type": "text", "text": "History"}, [TEXT])
    assert tracker.matches("user_message", echo("Hello"), is_v2=is_v2)
    assert tracker.user_blocks == [TEXT]


def test_an_echo_in_other_words_is_that_of_the_last_prompt() -> None:
    tracker = EchoTracker()
    tracker.prompt([TEXT], is_v2=True)
    tracker.add_preface({"type": "text", "text": "History"}, [TEXT])
    assert tracker.matches("user_message", echo("rewritten"), is_v2=True)
    assert tracker.user_blocks == [TEXT]


def test_a_version_2_agent_may_echo_in_its_own_words_under_the_id_of_the_prompt() -> None:
    tracker = EchoTracker()
    tracker.prompt([TEXT], is_v2=True)
    assert tracker.matches("user_message", echo("rewritten"), is_v2=True)
    tracker.response(b'{"result":{"messageId":"m1"}}', is_v2=True)
    assert tracker.matches("user_message_chunk", echo("more", messageId="m1"), is_v2=True)
    assert not tracker.matches("user_message_chunk", echo("else", messageId="m2"), is_v2=True)
