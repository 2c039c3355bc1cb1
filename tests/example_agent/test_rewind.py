"""`session/rewind` of the example agent, in both versions."""

from pathlib import Path

import pytest

from stdio_client import NEW, Client
from stdio_client_v2 import HELLO


@pytest.fixture(params=[1, 2])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Client:
    """Return an agent with the method, in either version."""
    start = request.getfixturevalue("agent" if request.param == 1 else "agent_v2")
    client: Client = start("--offer", "rewind,load,resume", "--memory", str(tmp_path))
    answer = client.call("initialize", {"protocolVersion": 1} if request.param == 1 else HELLO)
    capabilities = answer.get("agentCapabilities") or answer["capabilities"]
    session = capabilities.get("sessionCapabilities") or capabilities["session"]
    assert session["rewind"] == {}
    return client


def answer_id(client: Client, session_id: str, words: str) -> str:
    """Prompt, and return the message id of the answer."""
    client.received.clear()
    client.prompt(session_id, words)
    ids = [it["messageId"] for it in client.updates(session_id) if "agent_me" in str(it)]
    return str(ids[-1])


def test_the_rest_is_forgotten(client: Client) -> None:
    session_id = client.new()
    kept = answer_id(client, session_id, "one")
    client.prompt(session_id, "two")
    client.go_slow(session_id)
    client.received.clear()
    params = {"sessionId": session_id, "toMessageId": kept}
    assert client.call("session/rewind", params) == {"lastMessageId": kept}
    assert client.updates(session_id)[-1] == {
        "sessionUpdate": "history_truncated",
        "lastMessageId": kept,
    }
    assert client.reply(session_id, "how many prompts?").startswith("You sent 1 prompt")
    client.call("session/resume", NEW | {"sessionId": session_id})
    assert client.reply(session_id, "how many prompts?").startswith("You sent 2 prompts")


def test_unknown_messages_and_sessions_are_refused(client: Client) -> None:
    session_id = client.new()
    for value, code in (("m", -32002), (7, -32602), (None, -32602)):
        error = client.error("session/rewind", {"sessionId": session_id, "toMessageId": value})
        assert error[0] == code
    assert client.error("session/rewind", {"sessionId": "x", "toMessageId": "m"})[0] == -32002
