"""The protocol versions of the example agent: negotiation, differences, shared sessions."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stdio_client import CWD, EXAMPLE_AGENT, NEW, TIMEOUT, Client, Json, kinds, said, statuses
from stdio_client_v2 import HELLO, START, ClientV2

StartV2 = Callable[..., ClientV2]
Start = Callable[..., Client]


@pytest.mark.parametrize("requested", [2, 3, 65_535])
@pytest.mark.parametrize(
    ("offer", "others"),
    [
        ("none", {}),
        ("load,list,delete", {"delete": {}}),
        ("all", {"delete": {}, "fork": {}}),
    ],
)
def test_initialize_with_2_or_higher_selects_2(
    agent_v2: StartV2, requested: int, offer: str, others: Json
) -> None:
    answer = agent_v2("--offer", offer).call("initialize", {**HELLO, "protocolVersion": requested})
    assert answer.pop("info").keys() == {"name", "title", "version"}
    assert answer == {
        "protocolVersion": 2,
        "capabilities": {"session": {"prompt": {"embeddedContext": {}}, **others}},
        "authMethods": [],
    }


def test_initialize_with_1_selects_1(agent_v2: StartV2) -> None:
    client = agent_v2("--offer", "load")
    answer = client.call("initialize", {"protocolVersion": 1})
    assert answer["protocolVersion"] == 1
    assert answer["agentCapabilities"]["loadSession"] is True
    session_id = client.call("session/new", NEW)["sessionId"]
    turn = client.start(session_id, "hello")
    assert client.answer(turn)["result"] == {"stopReason": "end_turn"}
    assert kinds(client.updates(session_id)) == ["agent_message_chunk"]
    assert client.error("session/resume", {"sessionId": session_id, "cwd": CWD})[0] == -32601


@pytest.mark.parametrize(
    ("flags", "requested", "supported"),
    [((), 0, [1, 2]), (("--only-v2",), 0, [2]), (("--only-v2",), 1, [2])],
)
def test_unsupported_version_is_refused(
    agent_v2: StartV2, flags: tuple[str, ...], requested: int, supported: list[int]
) -> None:
    client = agent_v2(*flags)
    refused = client.error("initialize", {**HELLO, "protocolVersion": requested})
    assert refused == (-32022, {"requested": requested, "supported": supported})
    assert client.call("initialize", HELLO)["protocolVersion"] == 2


@pytest.mark.parametrize("version", ["2", None, 2.0, True, -1, 65_536])
def test_version_must_be_a_number(v2: ClientV2, version: object) -> None:
    refused = v2.error("initialize", {**HELLO, "protocolVersion": version})
    assert refused == (-32602, {"field": "protocolVersion"})


@pytest.mark.parametrize("info", [None, "test", {"name": "test"}])
def test_client_info_is_required(v2: ClientV2, info: object) -> None:
    refused = v2.error("initialize", {"protocolVersion": 2, "info": info})
    assert refused == (-32602, {"field": "info"})


def test_refused_version_changes_nothing(agent_v2: StartV2) -> None:
    client = agent_v2()
    client.call("initialize", {"protocolVersion": 1})
    assert client.error("initialize", {"protocolVersion": 2})[0] == -32602
    assert "modes" in client.call("session/new", NEW)
    client.call("initialize", HELLO)
    assert "modes" not in client.call("session/new", NEW)


@pytest.mark.parametrize(
    "method",
    [
        "session/load",
        "session/set_mode",
        "session/archive",
        "authenticate",
        "logout",
        "auth/login",
        "fs/read_text_file",
        "terminal/create",
    ],
)
def test_methods_removed_in_v2_are_not_found(v2: ClientV2, method: str) -> None:
    params = {"sessionId": v2.new(), "modeId": "ask", **NEW}
    assert v2.error(method, params) == (-32601, {"method": method})


def test_methods_that_are_not_offered_are_not_found(agent_v2: StartV2) -> None:
    client = agent_v2("--offer", "load,resume,list,close")
    params = {"sessionId": client.new(), **NEW}
    for method in ("session/delete", "session/fork"):
        assert client.error(method, params)[0] == -32601


@pytest.mark.parametrize("request_id", ["null", "2.5", "true", "[]"])
def test_id_must_be_a_string_or_an_integer(v2: ClientV2, request_id: str) -> None:
    v2.write(b'{"jsonrpc":"2.0","id":%s,"method":"session/list"}\n' % request_id.encode())
    assert v2.answer(None)["error"]["code"] == -32600


def test_answers_to_a_batch_are_one_array(v2: ClientV2) -> None:
    listing = b'{"jsonrpc":"2.0","id":"a","method":"session/list"}'
    unknown = b'{"jsonrpc":"2.0","id":"b","method":"_unknown"}'
    notification = b'{"jsonrpc":"2.0","method":"_unknown"}'
    v2.write(b"[%s,17,%s,%s]\n" % (listing, notification, unknown))
    first, second, third = json.loads(v2.next_line())
    assert (first["id"], second["id"], third["id"]) == ("a", None, "b")
    assert "sessions" in first["result"]
    assert (second["error"]["code"], third["error"]["code"]) == (-32600, -32601)


def test_batch_of_notifications_is_silent(v2: ClientV2) -> None:
    v2.write(b'[{"jsonrpc":"2.0","method":"_unknown"}]\n')
    assert v2.error("_unknown", {}) == (-32601, {"method": "_unknown"})


def test_empty_batch_is_refused_with_one_error(v2: ClientV2) -> None:
    v2.write(b"[]\n")
    assert v2.answer(None)["error"]["code"] == -32600


def test_version_1_has_no_batches(agent: Start) -> None:
    client = agent()
    client.write(b'[{"jsonrpc":"2.0","id":1,"method":"session/list"}]\n')
    assert client.answer(None)["error"]["code"] == -32600


def test_only_v2_needs_version_2() -> None:
    shown = subprocess.run(
        [*EXAMPLE_AGENT, "--only-v2"],
        input="",
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr == "rekindle: error: --only-v2 needs --protocol 2\n"


# -- one memory for both versions --


def test_v1_session_is_resumed_in_v2(agent: Start, agent_v2: StartV2, tmp_path: Path) -> None:
    old = agent("--memory", str(tmp_path))
    session_id = old.new()
    live = old.prompt(session_id, "think, plan, read and run")
    old.call("session/set_mode", {"sessionId": session_id, "modeId": "code"})
    turn = old.start(session_id, "edit")
    old.asked()
    old.cancel(session_id, turn)
    old.end()

    client = agent_v2("--memory", str(tmp_path))
    replay = client.resume(session_id, CWD, **START)
    assert kinds(replay) == [
        "user_message",
        "agent_thought",
        "plan_update",
        "tool_call_update",
        "terminal_update",
        "tool_call_update",
        "agent_message",
        "user_message",
        "tool_call_update",
        "config_option_update",
        "state_update",
    ]
    ids = {it["messageId"] for it in replay if it["sessionUpdate"].startswith("agent_")}
    assert ids == {it["messageId"] for it in live if "messageId" in it}
    assert statuses(replay) == ["completed", "completed", "cancelled"]
    assert replay[-2]["configOptions"][0]["currentValue"] == "code"
    assert client.reply(session_id, "how many prompts") == "You sent 2 prompts before this one."


def test_v2_session_is_loaded_in_v1(agent: Start, agent_v2: StartV2, tmp_path: Path) -> None:
    new = agent_v2("--memory", str(tmp_path))
    session_id = new.new()
    live = new.prompt(session_id, "think, plan, read and run")
    new.start(session_id, "edit")
    new.asked()
    new.cancel(session_id)
    new.end()

    client = agent("--offer", "load", "--memory", str(tmp_path))
    client.call("session/load", {"sessionId": session_id, **NEW})
    replay = client.updates(session_id)
    assert kinds(replay) == [
        "user_message_chunk",
        "agent_thought_chunk",
        "plan",
        "tool_call",
        "agent_message_chunk",
        "user_message_chunk",
        "tool_call",
    ]
    assert said(replay) == said(live)
    assert statuses(replay) == ["completed", "completed", "failed"]
    calls = [it for it in replay if "toolCallId" in it]
    assert [it["content"][0]["type"] for it in calls] == ["content", "content", "diff"]
    assert calls[2]["content"][0]["newText"] == "the oat milk\n"
    assert client.reply(session_id, "what did I say last") == "You said last: edit"
