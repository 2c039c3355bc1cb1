"""The messages and the command line of the example agent."""

import json
import subprocess
from collections.abc import Callable

import pytest

from stdio_client import CWD, EXAMPLE_AGENT, NEW, TIMEOUT, Client, text

Start = Callable[..., Client]

# -- JSON-RPC --


@pytest.mark.parametrize("request_id", [0, 12345678901234567890, -1, 2.5, "", "a\u2028b", None])
def test_response_has_the_id_of_the_request(client: Client, request_id: object) -> None:
    client.send(id=request_id, method="session/list", params={})
    answer = client.answer(request_id)
    assert type(answer["id"]) is type(request_id)
    assert "result" in answer


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"hello\n", -32700),
        (b"\xff\n", -32700),
        (b'{"id":NaN}\n', -32700),
        (b'{"id":1e999,"method":"initialize"}\n', -32700),
        (b"[" * 200_000 + b"\n", -32700),
        (b"[]\n", -32600),
        (b'{"id":1}\n', -32600),
        (b'{"id":true,"method":"initialize"}\n', -32600),
        (b'{"id":[],"method":"initialize"}\n', -32600),
    ],
    ids=range(9),
)
def test_invalid_line_is_refused(client: Client, line: bytes, code: int) -> None:
    client.write(line)
    assert client.answer(None)["error"]["code"] == code


def test_only_newlines_end_a_line(client: Client) -> None:
    params = {"sessionId": client.new(), "prompt": [text("one \u2028 two \x85 three")]}
    message = {"jsonrpc": "2.0", "id": "line", "method": "session/prompt", "params": params}
    client.write(b"\n \r\n")
    client.write(json.dumps(message, ensure_ascii=False).encode() + b"\r\n")
    assert client.answer("line")["result"] == {"stopReason": "end_turn"}


def test_unknown_method_is_refused_and_unknown_notification_ignored(agent: Start) -> None:
    client = agent()
    client.send(method="_rekindle/whatever", params={})
    client.send(method="session/new", params=NEW)
    client.send(id=0, result={})
    client.send(id=[], error={})
    assert client.error("authenticate", {"methodId": "x"})[0] == -32601
    assert len(client.received) == 1


@pytest.mark.parametrize("method", ["session/prompt", "session/set_mode", "session/fork"])
def test_unknown_session_is_refused_with_its_id(client: Client, method: str) -> None:
    params = {"sessionId": "x", "prompt": [], "modeId": "ask", "cwd": CWD}
    assert client.error(method, params) == (-32002, {"sessionId": "x"})
    assert client.error(method, {**params, "sessionId": 7}) == (-32602, {"field": "sessionId"})


# -- end, and command line --


def test_end_of_input_ends_running_turns(agent: Start) -> None:
    client = agent()
    client.go_slow(client.new())
    client.start(client.new(), "edit")
    client.asked()
    assert client.end() == (0, "")


def test_closed_output_ends_the_agent_quietly() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(EXAMPLE_AGENT, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdout
        process.stdout.close()
        _, stderr = process.communicate(b'{"id":1,"method":"initialize"}\n' * 2, TIMEOUT)
    assert (process.returncode, stderr) == (0, b"")


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*EXAMPLE_AGENT, *flags],
        input="",
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )


def test_help_shows_an_example() -> None:
    shown = run("--help")
    assert shown.returncode == 0
    assert "rekindle run -- rekindle example-agent" in shown.stdout


@pytest.mark.parametrize(
    "flags",
    [("--offer", "load,fly"), ("--delay", "-1"), ("--delay", "nan"), ("--memory", __file__)],
)
def test_invalid_flag_is_refused(flags: tuple[str, ...]) -> None:
    shown = run(*flags)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "rekindle: error: " in shown.stderr
    assert "Traceback" not in shown.stderr
