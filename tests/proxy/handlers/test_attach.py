"""Attach to the host of a session. `transcripts/attach-*.txt` have whole conversations."""

import pytest

from rekindle.proxy.flow import AgentReply
from rekindle.proxy.handlers.attach import difference

OWN = {"agentInfo": {"name": "A"}, "agentCapabilities": {"promptCapabilities": {"image": True}}}
OWN_V2 = {"info": {"name": "A"}, "capabilities": {"session": {"prompt": {"image": {}}}}}


@pytest.mark.parametrize(
    ("own", "theirs", "text"),
    [
        (OWN, OWN, ""),
        (OWN_V2, OWN_V2, ""),
        (OWN, {**OWN, "agentInfo": {"name": "B"}}, "its agent is B"),
        (OWN, {"agentCapabilities": {}}, "its agent is another one"),
        (OWN, {**OWN, "agentCapabilities": {}}, "its agent does not accept image in prompts"),
        (OWN_V2, {"info": {"name": "A"}}, "its agent does not accept image in prompts"),
        ({"agentInfo": {"name": "A"}}, OWN, ""),
        (OWN, {}, "it does not answer"),
    ],
)
def test_a_host_must_have_the_same_agent_and_accept_as_much(
    own: dict[str, object], theirs: dict[str, object], text: str
) -> None:
    assert difference(own, AgentReply(result=theirs)) == text


def test_a_host_that_fails_does_not_answer() -> None:
    reply = AgentReply(result=OWN, error={"code": -32603, "message": "no"})
    assert difference(OWN, reply) == "it does not answer"
