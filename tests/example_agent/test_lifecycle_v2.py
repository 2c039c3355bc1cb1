"""The session lifecycle of the example agent in version 2."""

from collections.abc import Callable
from pathlib import Path

import pytest

from stdio_client import CWD, NEW, Json, kind, kinds, said, selected, statuses
from stdio_client_v2 import START, ClientV2

Start = Callable[..., ClientV2]

IDLE = {"sessionUpdate": "state_update", "state": "idle"}
MODE = {
    "configId": "mode",
    "name": "Mode",
    "category": "mode",
    "type": "select",
    "currentValue": "ask",
    "options": [
        {"value": "ask", "name": "Ask", "description": "Talk about the code"},
        {"value": "code", "name": "Code", "description": "Change the code"},
    ],
}
COMMANDS = [
    {"type": "command", "name": "plan", "description": "Make a plan and go through it"},
    {
        "type": "command",
        "name": "count",
        "description": "Count out loud",
        "input": {"type": "text", "hint": "to 10"},
    },
]

# -- opening --


def test_new_session_has_a_mode_option_and_then_commands(agent_v2: Start) -> None:
    client = agent_v2()
    answer = client.call("session/new", {"cwd": CWD})
    assert answer.pop("sessionId").startswith("example-")
    assert answer == {"configOptions": [MODE]}
    assert len(client.received) == 1
    update = client.receive()["params"]["update"]
    assert update == {
        "sessionUpdate": "available_commands_update",
        "availableCommands": COMMANDS,
    }


def test_early_updates_come_before_the_responses(agent_v2: Start) -> None:
    client = agent_v2("--early-updates")
    session_id = client.new()
    early, answer = client.received
    assert early["params"]["sessionId"] == session_id == answer["result"]["sessionId"]
    assert kind(early["params"]["update"]) == "available_commands_update"
    client.received.clear()
    message_id = client.insert(session_id, "hello")
    early, answer = client.received
    assert kind(early["params"]["update"]) == "user_message"
    assert early["params"]["update"]["messageId"] == message_id == answer["result"]["messageId"]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"cwd": "project"}, "cwd"),
        ({}, "cwd"),
        ({"cwd": CWD, "mcpServers": [{"type": "stdio", "name": "x"}]}, "mcpServers"),
        ({"cwd": CWD, "mcpServers": {}}, "mcpServers"),
        ({"cwd": CWD, "additionalDirectories": ["/other"]}, "additionalDirectories"),
        ([CWD], "params"),
    ],
)
def test_invalid_new_names_the_field(v2: ClientV2, params: object, field: str) -> None:
    assert v2.error("session/new", params) == (-32602, {"field": field})


def test_mode_option_can_be_set(v2: ClientV2) -> None:
    session_id = v2.new()
    choice = {"sessionId": session_id, "configId": "mode", "type": "id", "value": "code"}
    changed = [{**MODE, "currentValue": "code"}]
    assert v2.call("session/set_config_option", choice) == {"configOptions": changed}
    update = {"sessionUpdate": "config_option_update", "configOptions": changed}
    assert v2.updates(session_id) == [update]
    for wrong in ({"configId": "model"}, {"type": "boolean"}, {"type": None}, {"value": "sing"}):
        refused = v2.error("session/set_config_option", {**choice, **wrong})
        assert refused == (-32602, {"field": next(iter(wrong))})
    resumed = v2.call("session/resume", {"sessionId": session_id, "cwd": CWD})
    assert resumed["configOptions"] == changed


@pytest.mark.parametrize(
    "method",
    ["session/prompt", "session/resume", "session/set_config_option", "session/fork"],
)
def test_unknown_session_is_refused_with_its_id(v2: ClientV2, method: str) -> None:
    prompt: list[Json] = [{"type": "text", "text": "hello"}]
    params = {"sessionId": "x", "prompt": prompt, "cwd": CWD}
    assert v2.error(method, params) == (-32002, {"sessionId": "x"})
    assert v2.error(method, {**params, "sessionId": 7}) == (-32602, {"field": "sessionId"})


# -- resume --


def test_resume_restores_the_memory_and_sends_only_the_state(
    agent_v2: Start, tmp_path: Path
) -> None:
    client = agent_v2("--memory", str(tmp_path))
    session_id = client.new()
    client.prompt(session_id, "remember me")
    client.end()

    client = agent_v2("--memory", str(tmp_path))
    assert client.error("session/prompt", {"sessionId": session_id, "prompt": []})[0] == -32002
    for cursor in ({}, {"replayFrom": None}):
        assert client.resume(session_id, CWD, **cursor) == [IDLE]
        answer = client.received[-1]["result"]
        assert answer == {"configOptions": [MODE], "availableCommands": COMMANDS}
    assert client.reply(session_id, "what did I say first") == "You said first: remember me"


def test_replay_sends_whole_messages_with_the_same_ids(agent_v2: Start, tmp_path: Path) -> None:
    client = agent_v2("--memory", str(tmp_path))
    session_id = client.new()
    user_id = client.insert(session_id, "think, plan, read, edit, run and title")
    client.send(id=client.asked()["id"], **selected("allow-once"))
    client.state(session_id, "idle")
    live = client.updates(session_id)
    count = client.prompt(session_id, "count to 3")
    client.end()

    client = agent_v2("--memory", str(tmp_path))
    replay = client.resume(session_id, CWD, **START)
    assert [kind(it) for it in replay] == [
        "user_message",
        "agent_thought",
        "plan_update",
        "tool_call_update",
        "tool_call_update",
        "terminal_update",
        "tool_call_update",
        "agent_message",
        "user_message",
        "agent_message",
        "session_info_update",
        "config_option_update",
        "state_update",
    ]
    assert replay[0] == live[0]
    assert replay[0]["messageId"] == user_id
    thought = said(live, by="agent_thought_chunk")
    assert replay[1]["content"] == [{"type": "text", "text": thought}]
    assert replay[2] == [it for it in live if kind(it) == "plan_update"][-1]
    assert replay[7]["content"] == [{"type": "text", "text": said(live)}]
    assert replay[7]["messageId"] == live[-2]["messageId"]
    assert replay[9]["content"] == [{"type": "text", "text": "1 2 3"}]
    assert replay[9]["messageId"] == count[0]["messageId"]
    assert statuses(replay) == ["completed"] * 3
    assert replay[-1] == IDLE
    assert client.received[-1]["result"]["configOptions"] == [MODE]


def test_replay_sends_terminals_in_their_final_state(v2: ClientV2) -> None:
    session_id = v2.new()
    terminal_id = next(
        it["terminalId"] for it in v2.prompt(session_id, "run") if "terminalId" in it
    )
    replay = v2.resume(session_id, CWD, **START)
    terminal, call = replay[1:3]
    assert terminal == {
        "sessionUpdate": "terminal_update",
        "terminalId": terminal_id,
        "command": "echo hello",
        "cwd": CWD,
        "output": {"data": "aGVsbG8K"},
        "exitStatus": {"exitCode": 0},
    }
    assert call["content"] == [{"type": "terminal", "terminalId": terminal_id}]


@pytest.mark.parametrize(
    "cursor", [{"type": "message", "messageId": "x"}, {"type": "_x"}, {}, "start", [], 0]
)
def test_unknown_cursor_is_refused(v2: ClientV2, cursor: object) -> None:
    params = {"sessionId": v2.new(), "cwd": CWD, "replayFrom": cursor}
    assert v2.error("session/resume", params) == (-32602, {"field": "replayFrom"})


def test_long_count_is_replayed_in_few_chunks(v2: ClientV2) -> None:
    session_id = v2.new()
    v2.prompt(session_id, "count to 25000")
    whole, *rest = v2.resume(session_id, CWD, **START)[1:-2]
    assert (kind(whole), kinds(rest), len(rest)) == ("agent_message", ["agent_message_chunk"], 2)
    text = whole["content"][0]["text"] + said(rest)
    assert text == " ".join(map(str, range(1, 25_001)))


def test_resume_of_a_working_session_sends_its_state(v2: ClientV2) -> None:
    session_id = v2.new()
    v2.start(session_id, "edit")
    asked = v2.asked()
    replay = v2.resume(session_id, CWD, **START)
    assert statuses(replay) == ["pending"]
    assert replay[-1] == {"sessionUpdate": "state_update", "state": "requires_action"}
    v2.send(id=asked["id"], **selected("allow-once"))
    assert v2.state(session_id, "idle")["stopReason"] == "end_turn"


def test_resume_within_a_message_loses_and_repeats_nothing(v2: ClientV2) -> None:
    session_id = v2.new()
    v2.start(session_id, "count to 20000")
    v2.until(lambda m: "agent_message_chunk" in str(m))
    replay = v2.resume(session_id, CWD, **START)
    v2.state(session_id, "idle")
    assert {"sessionUpdate": "state_update", "state": "running"} in replay
    text = ""
    for update in v2.updates(session_id):
        if kind(update) == "agent_message":
            text = update["content"][0]["text"]
        elif kind(update) == "agent_message_chunk":
            text += update["content"]["text"]
    assert text == " ".join(map(str, range(1, 20_001)))


# -- list, close, delete, fork --


def test_list_is_newest_first_and_can_be_limited_to_a_folder(agent_v2: Start) -> None:
    client = agent_v2()
    one, two, three = client.new(), client.new("/elsewhere"), client.new()
    client.prompt(one, "title")
    answer = client.call("session/list", {})
    assert answer.keys() == {"sessions", "nextCursor"}
    assert answer["nextCursor"] is None
    sessions = answer["sessions"]
    assert [it["sessionId"] for it in sessions] == [one, three, two]
    assert [it["title"] for it in sessions] == ["title", None, None]
    there = client.call("session/list", {"cwd": "/elsewhere", "cursor": None})["sessions"]
    assert [it["sessionId"] for it in there] == [two]
    for wrong in ({"cursor": ""}, {"cwd": "elsewhere"}):
        assert client.error("session/list", wrong) == (-32602, {"field": next(iter(wrong))})


@pytest.mark.parametrize("keep", [True, False])
def test_close_ends_the_turn_and_keeps_the_session(
    agent_v2: Start, tmp_path: Path, *, keep: bool
) -> None:
    client = agent_v2(*(("--memory", str(tmp_path)) if keep else ()))
    session_id = client.new()
    client.start(session_id, "edit")
    client.asked()
    client.received.clear()
    assert client.call("session/close", {"sessionId": session_id}) == {}
    assert [statuses([it]) or [it["stopReason"]] for it in client.updates(session_id)] == [
        ["cancelled"],
        ["cancelled"],
    ]
    assert client.error("session/prompt", {"sessionId": session_id, "prompt": []})[0] == -32002
    (listed,) = client.call("session/list", {})["sessions"]
    assert listed["sessionId"] == session_id
    assert client.resume(session_id, CWD) == [IDLE]
    assert client.reply(session_id, "what did I say first") == "You said first: edit"


def test_close_refuses_waiting_prompts(v2: ClientV2) -> None:
    session_id = v2.new()
    v2.go_slow(session_id)
    waiting = [v2.start(session_id, "hello"), v2.start(session_id, "hello again")]
    closing = v2.request("session/close", {"sessionId": session_id})
    assert [v2.answer(it)["error"]["code"] for it in waiting] == [-32800, -32800]
    assert v2.answer(closing)["result"] == {}
    assert v2.updates(session_id)[-1]["stopReason"] == "cancelled"


def test_close_of_a_session_that_is_not_open_succeeds(v2: ClientV2) -> None:
    session_id = v2.new()
    for name in (session_id, session_id, "no such"):
        assert v2.call("session/close", {"sessionId": name}) == {}
    assert v2.error("session/close", {})[0] == -32602


def test_delete_can_be_repeated(agent_v2: Start, tmp_path: Path) -> None:
    for flags in ((), ("--memory", str(tmp_path))):
        client = agent_v2("--offer", "delete", *flags)
        closed, running = client.new(), client.new()
        client.call("session/close", {"sessionId": closed})
        client.go_slow(running)
        for session_id in (closed, running, running):
            assert client.call("session/delete", {"sessionId": session_id}) == {}
            refused = client.error("session/resume", {"sessionId": session_id, "cwd": CWD})
            assert refused == (-32002, {"sessionId": session_id})
        assert client.call("session/list", {})["sessions"] == []
    assert list(tmp_path.iterdir()) == []


def test_fork_shares_the_past_only(v2: ClientV2) -> None:
    session_id = v2.new()
    v2.prompt(session_id, "apples")
    fork = v2.call("session/fork", {"sessionId": session_id, "cwd": "/elsewhere"})
    assert fork["configOptions"] == [MODE]
    assert fork["availableCommands"] == COMMANDS
    v2.prompt(fork["sessionId"], "pears")
    assert v2.reply(fork["sessionId"], "what did I say first") == "You said first: apples"
    assert v2.reply(session_id, "how many prompts") == "You sent 1 prompt before this one."


def test_fork_of_a_running_turn_has_no_open_calls(v2: ClientV2) -> None:
    session_id = v2.new()
    v2.start(session_id, "edit")
    v2.asked()
    fork = v2.call("session/fork", {"sessionId": session_id, **NEW})["sessionId"]
    replay = v2.resume(fork, CWD, **START)
    assert statuses(replay) == ["cancelled"]
    assert replay[-1] == IDLE
    v2.cancel(session_id)
