"""Which messages become entries, and which never do."""

import json

import pytest

from engine_pair import EnginePair
from playbook import CLIENT
from rekindle.model import Side
from rekindle.proxy.journal import (
    normalize_folder,
    recorded_response,
    setup_without_secrets,
    side_of,
)
from rekindle.proxy.peers import AGENT

TEXT = {"type": "text", "text": "Hello"}


@pytest.fixture
def pair() -> EnginePair:
    made = EnginePair()
    made.do_agent("Fake load")
    made.do_open("s1")
    return made


def test_each_peer_is_on_one_side() -> None:
    assert side_of(AGENT) is Side.AGENT
    assert side_of(CLIENT) is Side.CLIENT


def test_a_message_of_the_agent_without_a_method_is_not_recorded(pair: EnginePair) -> None:
    sent = pair.from_agent({"params": {"sessionId": "s1"}})
    assert sent.recorded == []
    assert sent.to_client == [{"params": {"sessionId": "s1"}}]


def test_no_secret_of_an_mcp_server_is_recorded() -> None:
    server = {"name": "x", "type": "stdio", "command": "c", "args": ["secret"], "env": [{}]}
    kept = setup_without_secrets(
        {"cwd": "/p", "mcpServers": [server], "_meta": {"token": "secret"}}
    )
    assert kept == {"cwd": "/p", "mcpServers": [{"type": "stdio", "name": "x"}]}


def test_a_response_is_recorded_field_by_field() -> None:
    result = {
        "sessionId": "s1",
        "modes": {},
        "env": "secret",
        "_meta": {"rekindle": {"a": 1}, "b": 2},
    }
    assert json.loads(recorded_response(result))["result"] == {
        "sessionId": "s1",
        "modes": {},
        "_meta": {"rekindle": {"a": 1}},
    }


@pytest.mark.parametrize(
    ("path", "expected"), [("/a/", "/a"), ("/", "/"), ("//", "/"), ("/a", "/a")]
)
def test_a_folder_has_no_trailing_slash(path: str, expected: str) -> None:
    assert normalize_folder(path) == expected


@pytest.mark.parametrize("method", ["authenticate", "fs/read_text_file", "terminal/create"])
def test_private_requests_and_notifications_are_not_recorded(pair: EnginePair, method: str) -> None:
    params = {"sessionId": "s1", "content": "secret"}
    assert pair.from_agent({"method": method, "params": params}).recorded == []
    assert pair.from_agent({"id": 5, "method": method, "params": params}).recorded == []


def test_a_notification_does_not_create_a_session(pair: EnginePair) -> None:
    assert pair.from_agent({"method": "_x", "params": {"sessionId": "new"}}).recorded == []
    assert pair.from_agent({"method": "_x", "params": {"sessionId": "s1"}}).recorded != []


def test_terminal_output_is_recorded_when_it_has_doubled_and_at_the_end(pair: EnginePair) -> None:
    content = [{"type": "terminal", "terminalId": "t1"}]
    pair.request(3, "session/prompt", sessionId="s1", prompt=[TEXT])
    pair.update("s1", "tool_call", toolCallId="c1", content=content)

    def poll(request_id: int, output: str) -> list[str]:
        params = {"sessionId": "s1", "terminalId": "t1"}
        pair.from_agent({"id": request_id, "method": "terminal/output", "params": params})
        return pair.from_client({"id": request_id, "result": {"output": output}}).recorded

    assert len(poll(1, "ab")) == 1
    assert poll(2, "abc") == []
    assert len(poll(3, "abcd")) == 1
    assert poll(4, "abcde") == []
    ended = pair.reply(3, {"stopReason": "end_turn"}).recorded
    assert any("abcde" in line for line in ended)


def test_a_torn_update_of_a_known_session_is_recorded_as_it_is(pair: EnginePair) -> None:
    pair.request(3, "session/prompt", sessionId="s1", prompt=[TEXT])
    pair.out.clear()
    for session_id in ("s1", "unknown"):
        torn = f'{{"method":"session/update","params":{{"sessionId":"{session_id}","upd'
        pair.receive(AGENT, [torn])
    assert [line for line in pair.out if line.startswith("#")] == ["#  s1 agent opaque"]
