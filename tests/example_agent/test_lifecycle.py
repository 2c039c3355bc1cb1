"""The session lifecycle of the example agent in version 1."""

from collections.abc import Callable
from pathlib import Path

import pytest

from stdio_client import CWD, NEW, Client, Json, kind, kinds, said, selected, statuses

Start = Callable[..., Client]

# -- opening --


@pytest.mark.parametrize(
    ("offer", "load", "others"),
    [
        ("none", False, {}),
        ("load, list", True, {"list": {}}),
        ("all", True, {"list": {}, "resume": {}, "close": {}, "delete": {}, "fork": {}}),
    ],
)
def test_capabilities_match_the_options(
    agent: Start, offer: str, load: object, others: Json
) -> None:
    answer = agent("--offer", offer).call("initialize", {"protocolVersion": 7})
    assert answer.pop("agentInfo").keys() == {"name", "title", "version"}
    assert answer == {
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": load,
            "sessionCapabilities": others,
            "promptCapabilities": {"embeddedContext": True},
        },
        "authMethods": [],
    }


def test_methods_that_are_not_offered_are_not_found(agent: Start) -> None:
    client = agent()
    params = {"sessionId": client.new(), **NEW}
    for name in ("load", "resume", "list", "close", "delete", "fork"):
        assert client.error(f"session/{name}", params)[0] == -32601


def test_new_session_has_modes_and_then_commands(agent: Start) -> None:
    client = agent()
    answer = client.call("session/new", NEW)
    assert answer["sessionId"].startswith("example-")
    assert answer["modes"]["currentModeId"] == "ask"
    assert [mode["id"] for mode in answer["modes"]["availableModes"]] == ["ask", "code"]
    assert len(client.received) == 1
    update = client.receive()["params"]["update"]
    assert kind(update) == "available_commands_update"
    assert [it["name"] for it in update["availableCommands"]] == ["plan", "count"]


def test_early_updates_come_before_the_response(agent: Start) -> None:
    client = agent("--early-updates")
    session_id = client.new()
    early, answer = client.received
    assert early["params"]["sessionId"] == session_id == answer["result"]["sessionId"]
    assert kind(early["params"]["update"]) == "available_commands_update"


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"cwd": "project", "mcpServers": []}, "cwd"),
        ({"cwd": 7, "mcpServers": []}, "cwd"),
        ({"cwd": CWD}, "mcpServers"),
        ({"cwd": CWD, "mcpServers": {}}, "mcpServers"),
        ([CWD], "params"),
    ],
)
def test_invalid_new_names_the_field(client: Client, params: object, field: str) -> None:
    assert client.error("session/new", params) == (-32602, {"field": field})


def test_mode_can_be_set_to_a_known_one(client: Client) -> None:
    session_id = client.new()
    client.call("session/set_mode", {"sessionId": session_id, "modeId": "code"})
    update = {"sessionUpdate": "current_mode_update", "currentModeId": "code"}
    assert client.updates(session_id) == [update]
    refused = client.error("session/set_mode", {"sessionId": session_id, "modeId": "sing"})
    assert refused == (-32602, {"field": "modeId"})
    modes = client.call("session/resume", {"sessionId": session_id, "cwd": CWD})["modes"]
    assert modes["currentModeId"] == "code"


# -- lifecycle --


def test_load_replays_before_responding(agent: Start, tmp_path: Path) -> None:
    flags = ("--offer", "load", "--memory", str(tmp_path))
    client = agent(*flags)
    session_id = client.new()
    turn = client.start(session_id, "think, plan, read, edit and run")
    client.send(id=client.asked()["id"], **selected("allow-once"))
    client.answer(turn)
    live = client.updates(session_id)
    live_count = client.prompt(session_id, "count to 3")
    client.end()

    client = agent(*flags)
    answer = client.call("session/load", {"sessionId": session_id, **NEW})
    assert answer["modes"]["currentModeId"] == "ask"
    replay = client.updates(session_id)
    assert kinds(replay) == [
        "user_message_chunk",
        "agent_thought_chunk",
        "plan",
        "tool_call",
        "agent_message_chunk",
        "user_message_chunk",
        "agent_message_chunk",
    ]
    users = [it["content"]["text"] for it in replay if kind(it) == "user_message_chunk"]
    assert users == ["think, plan, read, edit and run", "count to 3"]
    assert said(replay, by="agent_thought_chunk") == said(live, by="agent_thought_chunk")
    assert said(replay) == said(live) + said(live_count)
    ids = {it["messageId"] for it in replay if kind(it) == "agent_message_chunk"}
    assert ids == {live[-1]["messageId"], live_count[-1]["messageId"]}
    last_plan = [it for it in live if kind(it) == "plan"][-1]
    assert [it for it in replay if kind(it) == "plan"] == [last_plan]
    calls = [it for it in replay if kind(it) == "tool_call"]
    assert [it["kind"] for it in calls] == ["read", "edit", "execute"]
    assert [it["content"][0]["type"] for it in calls] == ["content", "diff", "content"]
    assert statuses(replay) == ["completed"] * 3


def test_resume_restores_the_memory_without_a_replay(agent: Start, tmp_path: Path) -> None:
    flags = ("--offer", "resume", "--memory", str(tmp_path / "made" / "for it"))
    client = agent(*flags)
    session_id = client.new()
    client.prompt(session_id, "remember me")
    client.end()

    client = agent(*flags)
    assert client.answer(client.start(session_id, "hello"))["error"]["code"] == -32002
    client.call("session/resume", {"sessionId": session_id, "cwd": CWD})
    assert client.updates(session_id) == []
    assert client.reply(session_id, "what did I say first") == "You said first: remember me"


def test_sessions_are_lost_at_exit_without_a_folder(agent: Start) -> None:
    client = agent()
    session_id = client.new()
    client.prompt(session_id, "remember me")
    client.end()
    client = agent("--offer", "all")
    refused = client.error("session/load", {"sessionId": session_id, **NEW})
    assert refused == (-32002, {"sessionId": session_id})
    assert client.call("session/list", {}) == {"sessions": []}


def test_load_and_resume_require_the_folder(client: Client) -> None:
    session_id = client.new()
    for method, params, field in (
        ("session/load", {"cwd": "x", "mcpServers": []}, "cwd"),
        ("session/load", {"cwd": CWD}, "mcpServers"),
        ("session/resume", {}, "cwd"),
    ):
        refused = client.error(method, {"sessionId": session_id, **params})
        assert refused == (-32602, {"field": field})


@pytest.mark.parametrize("keep", [True, False])
def test_list_is_newest_first_and_can_be_limited_to_a_folder(
    agent: Start, tmp_path: Path, *, keep: bool
) -> None:
    flags = ("--offer", "list", *(("--memory", str(tmp_path)) if keep else ()))
    client = agent(*flags)
    one, two, three = client.new(), client.new("/elsewhere"), client.new()
    client.prompt(one, "title")
    if keep:
        client.end()
        client = agent(*flags)
    sessions = client.call("session/list", {})["sessions"]
    assert [it["sessionId"] for it in sessions] == [one, three, two]
    assert [it["title"] for it in sessions] == ["title", None, None]
    assert sessions[0].keys() == {"sessionId", "cwd", "title", "updatedAt"}
    there = client.call("session/list", {"cwd": "/elsewhere", "cursor": None})["sessions"]
    assert [it["sessionId"] for it in there] == [two]
    for wrong in ({"cursor": "2"}, {"cwd": "elsewhere"}):
        assert client.error("session/list", wrong) == (-32602, {"field": next(iter(wrong))})


def test_close_ends_the_turn_and_keeps_the_file(agent: Start, tmp_path: Path) -> None:
    client = agent("--offer", "close,load", "--memory", str(tmp_path))
    session_id = client.new()
    turn = client.go_slow(session_id)
    closing = client.request("session/close", {"sessionId": session_id})
    assert client.answer(turn)["result"] == {"stopReason": "cancelled"}
    assert client.answer(closing)["result"] == {}
    assert client.answer(client.start(session_id, "hello"))["error"]["code"] == -32002
    client.call("session/load", {"sessionId": session_id, **NEW})
    assert client.reply(session_id, "what did I say first") == "You said first: slow"


def test_close_drops_a_session_without_a_file(client: Client) -> None:
    session_id = client.new()
    client.call("session/close", {"sessionId": session_id})
    for method in ("session/load", "session/close"):
        refused = client.error(method, {"sessionId": session_id, **NEW})
        assert refused == (-32002, {"sessionId": session_id})


def test_delete_can_be_repeated(agent: Start, tmp_path: Path) -> None:
    client = agent("--offer", "delete,list,load", "--memory", str(tmp_path))
    session_id = client.new()
    client.go_slow(session_id)
    for _ in range(2):
        assert client.call("session/delete", {"sessionId": session_id}) == {}
    assert list(tmp_path.iterdir()) == []
    assert client.call("session/list", {}) == {"sessions": []}
    assert client.error("session/load", {"sessionId": session_id, **NEW})[0] == -32002


def test_fork_shares_the_past_only(client: Client) -> None:
    session_id = client.new()
    client.prompt(session_id, "apples")
    fork = client.call("session/fork", {"sessionId": session_id, "cwd": "/elsewhere"})
    assert fork["modes"]["currentModeId"] == "ask"
    client.prompt(fork["sessionId"], "pears")
    assert client.reply(fork["sessionId"], "what did I say first") == "You said first: apples"
    assert client.reply(session_id, "how many prompts") == "You sent 1 prompt before this one."


def test_fork_of_a_running_turn_has_no_open_calls(client: Client) -> None:
    session_id = client.new()
    turn = client.start(session_id, "edit")
    client.asked()
    fork = client.call("session/fork", {"sessionId": session_id, **NEW})["sessionId"]
    client.call("session/load", {"sessionId": fork, **NEW})
    assert statuses(client.updates(fork)) == ["failed"]
    client.cancel(session_id, turn)


def test_session_ids_cannot_leave_the_folder(agent: Start, tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("{}", encoding="utf-8")
    client = agent("--offer", "all", "--memory", str(tmp_path / "memory"))
    for session_id in ("../outside", str(tmp_path / "outside"), "", "x" * 9999, "\ud83d", "\0"):
        refused = client.error("session/load", {"sessionId": session_id, **NEW})
        assert refused == (-32002, {"sessionId": session_id})
        assert client.call("session/delete", {"sessionId": session_id}) == {}
    assert outside.exists()


def test_damaged_file_is_skipped_and_reported(agent: Start, tmp_path: Path) -> None:
    for name, content in (("example-1", b"{"), ("example-2", b"[]"), ("example-3", b'{"cwd":1}')):
        (tmp_path / f"{name}.json").write_bytes(content)
    client = agent("--offer", "all", "--memory", str(tmp_path))
    assert client.call("session/list", {}) == {"sessions": []}
    assert client.error("session/load", {"sessionId": "example-1", **NEW})[0] == -32002
    status, stderr = client.end()
    assert status == 0
    assert [line.count("cannot read") for line in stderr.splitlines()] == [1] * 4
