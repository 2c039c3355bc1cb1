"""The turns of the example agent in version 2."""

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from stdio_client import CWD, Json, kind, kinds, said, selected, statuses, text
from stdio_client_v2 import ClientV2

Start = Callable[..., ClientV2]


def states(updates: list[Json]) -> list[str]:
    return [it["state"] for it in updates if kind(it) == "state_update"]


# -- messages --


def test_prompt_is_answered_at_once_and_a_state_ends_the_turn(v2: ClientV2) -> None:
    session_id = v2.new()
    message_id = v2.insert(session_id, "context", "hello")
    assert not any(kind(it) == "state_update" for it in v2.updates(session_id))
    v2.state(session_id, "idle")
    message, running, *pieces, idle = v2.updates(session_id)
    assert message == {
        "sessionUpdate": "user_message",
        "messageId": message_id,
        "content": [text("context"), text("hello")],
    }
    assert running == {"sessionUpdate": "state_update", "state": "running"}
    assert kinds(pieces) == ["agent_message_chunk"]
    assert said(pieces) == "You said: hello. That makes 1 message so far."
    assert len({it["messageId"] for it in pieces} - {message_id}) == 1
    assert idle == {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}


def test_echo_repeats_every_block_of_the_prompt(agent_v2: Start) -> None:
    client = agent_v2("--echo", "--no-message-ids")
    session_id = client.new()
    message_id = client.insert(session_id, "context", "hello")
    client.state(session_id, "idle")
    updates = client.updates(session_id)
    assert kinds(updates)[:2] == ["user_message_chunk", "state_update"]
    assert [it["content"] for it in updates[:2]] == [text("context"), text("hello")]
    assert {it["messageId"] for it in updates[:2]} == {message_id}
    assert all("messageId" in it for it in updates if "content" in it)


@pytest.mark.parametrize("prompt", [None, "hello", [], ["hello"], [{"type": "text"}], [{}]])
def test_invalid_prompt_is_refused(v2: ClientV2, prompt: object) -> None:
    session_id = v2.new()
    v2.received.clear()
    refused = v2.error("session/prompt", {"sessionId": session_id, "prompt": prompt})
    assert refused == (-32602, {"field": "prompt"})
    assert v2.updates(session_id) == []


def test_delay_between_chunks_can_be_cancelled(agent_v2: Start) -> None:
    client = agent_v2("--delay", "600")
    session_id = client.new()
    client.start(session_id, "hello")
    client.cancel(session_id)
    assert kinds(client.updates(session_id)) == ["user_message", "state_update"]


# -- actions --


def test_actions_run_in_a_fixed_order(v2: ClientV2) -> None:
    updates = v2.prompt(v2.new(), "Count to 3, USAGE, title, Run, read, plan and think!")
    assert kinds(updates) == [
        "agent_thought_chunk",
        "plan_update",
        "tool_call_update",
        "terminal_update",
        "tool_call_content_chunk",
        "terminal_output_chunk",
        "terminal_update",
        "tool_call_update",
        "session_info_update",
        "usage_update",
        "agent_message_chunk",
    ]
    assert said(updates) == "1 2 3"


def test_plan_keeps_its_id_until_it_is_completed(v2: ClientV2) -> None:
    plans = [it["plan"] for it in v2.prompt(v2.new(), "plan") if kind(it) == "plan_update"]
    assert {(it["type"], it["planId"]) for it in plans} == {("items", "main")}
    assert [[entry["status"] for entry in it["entries"]] for it in plans] == [
        ["in_progress", "pending", "pending"],
        ["completed", "in_progress", "pending"],
        ["completed", "completed", "in_progress"],
        ["completed", "completed", "completed"],
    ]


def test_first_update_creates_the_tool_call(v2: ClientV2) -> None:
    call, done = [it for it in v2.prompt(v2.new(), "read") if "toolCallId" in it]
    path = f"{CWD}/notes.txt"
    assert call == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": call["toolCallId"],
        "title": f"Read {path}",
        "kind": "read",
        "status": "pending",
        "locations": [{"path": path, "line": 1}],
    }
    assert done == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": call["toolCallId"],
        "status": "completed",
        "content": [{"type": "content", "content": text("Remember the milk.\n")}],
    }


def test_run_sends_a_terminal_with_output(v2: ClientV2) -> None:
    updates = [it for it in v2.prompt(v2.new(), "run") if kind(it) != "agent_message_chunk"]
    call, started, opened, shown, *output, exited, done = updates
    terminal_id = opened["terminalId"]
    assert (call["kind"], call["title"], call["status"]) == ("execute", "echo hello", "pending")
    assert started["status"] == "in_progress"
    assert opened == {
        "sessionUpdate": "terminal_update",
        "terminalId": terminal_id,
        "command": "echo hello",
        "cwd": CWD,
    }
    assert shown == {
        "sessionUpdate": "tool_call_content_chunk",
        "toolCallId": call["toolCallId"],
        "content": {"type": "terminal", "terminalId": terminal_id},
    }
    assert kinds(output) == ["terminal_output_chunk"]
    assert {it["terminalId"] for it in output} == {terminal_id}
    pieces = [base64.b64decode(it["data"], validate=True) for it in output]
    assert (len(pieces), b"".join(pieces)) == (2, b"hello\n")
    assert exited["exitStatus"] == {"exitCode": 0}
    assert (done["status"], "content" in done) == ("completed", False)


@pytest.mark.parametrize(
    ("response", "then"),
    [
        (selected("allow-once"), ["in_progress", "completed"]),
        (selected("allow-always"), ["in_progress", "completed"]),
        (selected("reject-once"), ["failed"]),
        (selected("something else"), ["failed"]),
        ({"result": {"outcome": {"outcome": "cancelled"}}}, ["failed"]),
        ({"result": {"outcome": {"outcome": "_perhaps"}}}, ["failed"]),
        ({"error": {"code": -32603, "message": "no"}}, ["failed"]),
    ],
)
def test_edit_happens_only_if_allowed(v2: ClientV2, response: Json, then: list[str]) -> None:
    session_id = v2.new()
    v2.start(session_id, "edit")
    asked = v2.asked()
    v2.send(id=asked["id"], **response)
    assert v2.state(session_id, "idle")["stopReason"] == "end_turn"
    updates = v2.updates(session_id)
    assert states(updates) == ["running", "requires_action", "running", "idle"]
    assert statuses(updates) == ["pending", *then]
    params = asked["params"]
    assert params["title"] == f"Allow: Edit {CWD}/notes.txt"
    assert [it["kind"] for it in params["options"]] == ["allow_once", "allow_always", "reject_once"]
    call = next(it for it in updates if kind(it) == "tool_call_update")
    assert params["subject"]["type"] == "tool_call"
    assert {"sessionUpdate": "tool_call_update", **params["subject"]["toolCall"]} == call


@pytest.mark.parametrize(
    ("cwd", "in_header"),
    [
        (CWD, f"{CWD}/notes.txt"),
        ("/a b", "/a b/notes.txt\t"),
        ('/a"\\\u00e4', r'"/a\"\\\303\244/notes.txt"'),
    ],
)
def test_diff_is_a_git_patch(v2: ClientV2, cwd: str, in_header: str) -> None:
    session_id = v2.new(cwd)
    v2.start(session_id, "edit")
    (content,) = v2.asked()["params"]["subject"]["toolCall"]["content"]
    name = in_header.rstrip("\t")
    patch = (
        f"diff --git {name} {name}\n--- {in_header}\n+++ {in_header}\n"
        "@@ -1 +1 @@\n-the milk\n+the oat milk\n"
    )
    assert content == {
        "type": "diff",
        "changes": [{"operation": "modify", "path": f"{cwd}/notes.txt"}],
        "patch": {"format": "git_patch", "text": patch},
    }
    v2.cancel(session_id)


def test_title_and_usage_are_sent(v2: ClientV2) -> None:
    title, usage = v2.prompt(v2.new(), "title and usage")[:2]
    assert title == {"sessionUpdate": "session_info_update", "title": "title and usage"}
    assert usage["cost"] == {"amount": 0.0, "currency": "USD"}
    assert 0 < usage["used"] < usage["size"]
    assert v2.call("session/list", {})["sessions"][0]["title"] == "title and usage"


def test_error_ends_the_turn_and_not_the_session(v2: ClientV2) -> None:
    session_id = v2.new()
    v2.insert(session_id, "error")
    idle = v2.state(session_id, "idle")
    error = {"code": -32603, "message": "failed, as the prompt asked"}
    assert (idle["stopReason"], idle["error"]) == ("error", error)
    assert v2.reply(session_id, "how many prompts?") == "You sent 1 prompt before this one."


def test_crash_ends_the_process_in_the_middle_of_a_turn(agent_v2: Start, tmp_path: Path) -> None:
    client = agent_v2("--memory", str(tmp_path))
    session_id = client.new()
    client.start(session_id, "crash, now")
    client.until(lambda m: "about" in json.dumps(m))
    assert client.end(hang_up=False)[0] == 3

    client = agent_v2("--memory", str(tmp_path))
    client.resume(session_id, CWD)
    assert client.reply(session_id, "what did I say last") == "You said last: crash, now"


TRANSCRIPT = "Earlier:\n\nUser: find the bug\nAgent: found.\nUser:  thanks \n"


@pytest.mark.parametrize(
    "handed",
    [text(TRANSCRIPT), {"type": "resource", "resource": {"uri": "x:y", "text": TRANSCRIPT}}],
)
def test_handover_becomes_part_of_the_memory(v2: ClientV2, handed: Json) -> None:
    session_id = v2.new()
    prompt = [handed, text("what did I say first?")]
    v2.call("session/prompt", {"sessionId": session_id, "prompt": prompt})
    v2.state(session_id, "idle")
    updates = v2.updates(session_id)
    assert said(updates) == "You said first: find the bug"
    assert updates[0]["content"] == prompt


# -- cancel, and waiting prompts --


def test_cancel_withdraws_the_permission_request(v2: ClientV2) -> None:
    session_id = v2.new()
    v2.start(session_id, "edit")
    asked = v2.asked()
    v2.cancel(session_id)
    (withdrawn,) = [m for m in v2.received if m.get("method") == "$/cancel_request"]
    assert withdrawn["params"] == {"requestId": asked["id"]}
    updates = v2.updates(session_id)
    assert states(updates) == ["running", "requires_action", "idle"]
    assert statuses(updates) == ["pending", "cancelled"]
    v2.send(id=asked["id"], **selected("allow-once"))
    assert "hello" in v2.reply(session_id, "hello")


def test_slow_waits_until_cancelled(v2: ClientV2) -> None:
    session_id = v2.new()
    v2.go_slow(session_id)
    v2.cancel(session_id)
    assert v2.reply(session_id, "still there?").startswith("You said: still there?")


def test_prompt_waits_for_the_previous_turn(v2: ClientV2) -> None:
    session_id = v2.new()
    v2.start(session_id, "edit")
    asked = v2.asked()
    waiting = [v2.start(session_id, "apples"), v2.start(session_id, "what did I say last?")]
    assert v2.call("session/list", {})["sessions"]
    assert not any(m.get("id") in waiting and "result" in m for m in v2.received)
    v2.received.clear()
    v2.send(id=asked["id"], **selected("reject-once"))
    for _ in range(3):
        assert v2.state(session_id, "idle")["stopReason"] == "end_turn"
    updates = v2.updates(session_id)
    assert states(updates) == ["running", "idle", "running", "idle", "running", "idle"]
    ids = [it["messageId"] for it in updates if kind(it) == "user_message"]
    answers = {m["id"]: m["result"] for m in v2.received if "result" in m}
    assert [answers[it] for it in waiting] == [{"messageId": it} for it in ids]
    assert said(updates).endswith("You said last: apples")


def test_cancel_refuses_waiting_prompts(v2: ClientV2) -> None:
    session_id = v2.new()
    v2.go_slow(session_id)
    waiting = v2.start(session_id, "hello")
    v2.send(method="session/cancel", params={"sessionId": session_id})
    assert v2.answer(waiting)["error"]["code"] == -32800
    if v2.updates(session_id)[-1].get("state") != "idle":
        v2.state(session_id, "idle")
    assert v2.updates(session_id)[-1]["stopReason"] == "cancelled"
    assert v2.reply(session_id, "how many prompts") == "You sent 1 prompt before this one."


def test_sessions_run_turns_at_the_same_time(v2: ClientV2) -> None:
    one, two = v2.new(), v2.new()
    v2.go_slow(one)
    v2.go_slow(two)
    v2.cancel(two)
    v2.cancel(one)


def test_cancel_without_a_turn_does_nothing(v2: ClientV2) -> None:
    session_id = v2.new()
    v2.received.clear()
    for params in ({"sessionId": session_id}, {"sessionId": "no such"}, None):
        v2.send(method="session/cancel", params=params)
    assert "hello" in v2.reply(session_id, "hello")


def test_end_of_input_ends_running_and_waiting_turns(agent_v2: Start) -> None:
    client = agent_v2()
    session_id = client.new()
    client.go_slow(session_id)
    client.start(session_id, "hello")
    client.start(client.new(), "edit")
    client.asked()
    assert client.end() == (0, "")
