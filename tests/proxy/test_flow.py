import pytest

from rekindle.proxy.flow import AgentReply, Refusal


@pytest.mark.parametrize(
    ("reply", "is_success"),
    [
        (AgentReply(result={}), True),
        (AgentReply(), True),
        (AgentReply(error={"code": 1}), False),
        (AgentReply(is_timed_out=True), False),
    ],
)
def test_a_reply_is_a_success_without_error_and_timeout(
    reply: AgentReply, *, is_success: bool
) -> None:
    assert reply.is_success is is_success


def test_a_refusal_carries_the_error_of_the_response() -> None:
    refusal = Refusal(-32602, "wrong", {"field": "x"})
    assert str(refusal) == "wrong"
    assert (refusal.code, refusal.message, refusal.data) == (-32602, "wrong", {"field": "x"})
