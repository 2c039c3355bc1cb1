from typing import Any

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
    assert not tracker.is_hidden
    tracker.add_preface({"type": "text", "text": "History"}, [TEXT])
    assert tracker.is_hidden
    assert tracker.matches("user_message_chunk", echo("History Hello"), is_v2=False)


def test_a_version_2_agent_may_echo_in_its_own_words_under_the_id_of_the_prompt() -> None:
    tracker = EchoTracker()
    tracker.prompt([TEXT], is_v2=True)
    assert tracker.matches("user_message", echo("rewritten"), is_v2=True)
    tracker.response(b'{"result":{"messageId":"m1"}}', is_v2=True)
    assert tracker.matches("user_message_chunk", echo("more", messageId="m1"), is_v2=True)
    assert not tracker.matches("user_message_chunk", echo("else", messageId="m2"), is_v2=True)
