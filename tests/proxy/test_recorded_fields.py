"""The fields of messages that are recorded."""

import json
from typing import Any

import pytest

from rekindle.jsonvalue import encode
from rekindle.proxy.recorded_fields import (
    recorded_ending,
    recorded_outcome,
    recorded_request,
    recorded_servers,
)

SECRET = "hunter2-hunter2"  # noqa: S105 - it must not be recorded


def message(method: str, **params: Any) -> bytes:  # noqa: ANN401 - JSON
    return encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


@pytest.mark.parametrize(
    "line",
    [
        message("session/prompt", sessionId="s", prompt=[{"type": "text", "text": SECRET}]),
        message("session/prompt", messageId="m", sessionId="s", prompt=[]),
        message("session/set_mode", sessionId="s", modeId="m"),
        message("session/set_model", sessionId="s", modelId="m"),
        message("session/set_config_option", sessionId="s", configId="c", type="id", value="v"),
        b'{"method":"session/cancel",  "params":{"sessionId":"s"}}',
        b"no JSON",
    ],
)
def test_a_message_without_unknown_fields_is_recorded_as_the_same_bytes(line: bytes) -> None:
    method = (json.loads(line) if line.startswith(b"{") else {}).get("method", "")
    assert recorded_request(method, line) is line


@pytest.mark.parametrize(
    ("method", "known"),
    [
        ("session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "Hi"}]}),
        ("session/set_mode", {"sessionId": "s", "modeId": "m"}),
        ("session/cancel", {"sessionId": "s"}),
        ("_vendor/login", {"sessionId": "s"}),
    ],
)
def test_unknown_fields_are_not_recorded(method: str, known: dict[str, Any]) -> None:
    params = {**known, "apiKey": SECRET, "_meta": {"token": SECRET}, "modelKey": {"x": SECRET}}
    line = encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params, "key": SECRET})
    recorded = json.loads(recorded_request(method, line))
    assert recorded == {"jsonrpc": "2.0", "id": 1, "method": method, "params": known}


def test_the_outcome_of_a_permission_keeps_the_choice_only() -> None:
    chosen = {"outcome": {"outcome": "selected", "optionId": "yes"}}
    plain = encode({"jsonrpc": "2.0", "id": 1, "result": chosen})
    assert recorded_outcome(plain) is plain
    given = {"outcome": {**chosen["outcome"], "key": SECRET}, "_meta": {"key": SECRET}}
    line = encode({"jsonrpc": "2.0", "id": 1, "result": given, "key": SECRET})
    assert recorded_outcome(line) == plain
    error = encode({"id": 1, "error": {"code": 5, "message": "no", "data": SECRET}})
    assert json.loads(recorded_outcome(error)) == {"id": 1, "error": {"code": 5, "message": "no"}}
    assert recorded_outcome(b"no JSON") == b"no JSON"


@pytest.mark.parametrize("is_state", [False, True])
def test_the_stderr_of_a_dead_agent_is_not_recorded(*, is_state: bool) -> None:
    def line(data: dict[str, Any]) -> bytes:
        error = {"code": -32603, "message": "the agent exited with 1", "data": data}
        if not is_state:
            return encode({"jsonrpc": "2.0", "id": 1, "error": error})
        update = {"sessionUpdate": "state_update", "state": "idle", "error": error}
        return encode({"jsonrpc": "2.0", "method": "session/update", "params": {"update": update}})

    ended = {"agentEnded": True, "exitCode": 1, "signal": None}
    assert recorded_ending(line({**ended, "stderr": [SECRET]})) == line(ended)
    without = line(ended)
    assert recorded_ending(without) is without
    other = line({"stderr": ["of the agent's own"]})
    assert recorded_ending(other) is other


def test_only_the_texts_that_name_an_mcp_server_are_recorded() -> None:
    servers = [
        {"type": "http", "name": "web", "url": SECRET},
        {"type": {"x": SECRET}, "name": [SECRET]},
        SECRET,
    ]
    assert recorded_servers(servers) == [{"type": "http", "name": "web"}, {}, {}]
