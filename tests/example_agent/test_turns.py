"""The turns of the example agent in version 1."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from stdio_client import CWD, NEW, Client, Json, kind, kinds, said, selected, statuses, text

Start = Callable[..., Client]

# -- messages --


def test_answer_is_streamed_in_chunks_of_one_message(client: Client) -> None:
    session_id = client.new()
    updates = client.prompt(session_id, "Hello  there,\n old friend")
    assert said(updates) == "You said: Hello  there,\n old friend. That makes 1 message so far."
    assert len(updates) > 2
    assert len({it["messageId"] for it in updates}) == 1
    again = client.prompt(session_id, "Is it?")
    assert said(again) == "You said: Is it? That makes 2 messages so far."
    assert again[0]["messageId"] != updates[0]["messageId"]


def test_message_ids_can_be_left_out(agent: Start) -> None:
    client = agent("--no-message-ids", "--echo", "--offer", "load")
    session_id = client.new()
    client.prompt(session_id, "think and count to 2")
    client.call("session/load", {"sessionId": session_id, **NEW})
    chunks = [it for it in client.updates(session_id) if "content" in it]
    assert len(chunks) > 10
    assert not any("messageId" in it for it in chunks)


def test_echo_repeats_every_block_of_the_prompt(agent: Start) -> None:
    client = agent("--echo")
    updates = client.prompt(client.new(), "context", "hello")
    assert kinds(updates) == ["user_message_chunk", "agent_message_chunk"]
    assert [it["content"] for it in updates[:2]] == [text("context"), text("hello")]
    assert updates[0]["messageId"] == updates[1]["messageId"] != updates[2]["messageId"]


def test_delay_between_chunks_can_be_cancelled(agent: Start) -> None:
    client = agent("--delay", "600")
    session_id = client.new()
    client.cancel(session_id, client.start(session_id, "hello"))
    assert client.updates(session_id) == []


@pytest.mark.parametrize("prompt", [None, "hello", ["hello"], [{"type": "text"}], [{}]])
def test_invalid_prompt_is_refused(client: Client, prompt: object) -> None:
    params = {"sessionId": client.new(), "prompt": prompt}
    assert client.error("session/prompt", params) == (-32602, {"field": "prompt"})


@pytest.mark.parametrize("words", ["half \ud83d a pair", "d\u00eda \u65e5 \u2028 \U0001f600"])
def test_any_text_is_returned_unchanged(client: Client, words: str) -> None:
    assert words in client.reply(client.new(), words)


# -- actions --


def test_whole_words_select_actions_in_a_fixed_order(client: Client) -> None:
    session_id = client.new()
    assert kinds(client.prompt(session_id, "credit, reading, planet")) == ["agent_message_chunk"]
    updates = client.prompt(session_id, "Count to 3, USAGE, title, Run, read, plan and think!")
    assert kinds(updates) == [
        "agent_thought_chunk",
        "plan",
        "tool_call",
        "tool_call_update",
        "tool_call",
        "tool_call_update",
        "session_info_update",
        "usage_update",
        "agent_message_chunk",
    ]
    assert said(updates) == "1 2 3"


def test_think_streams_a_thought(client: Client) -> None:
    updates = client.prompt(client.new(), "think")
    thoughts = [it for it in updates if kind(it) == "agent_thought_chunk"]
    assert len(thoughts) > 2
    assert len({it["messageId"] for it in thoughts}) == 1


def test_plan_is_completed_step_by_step(client: Client) -> None:
    plans = [it for it in client.prompt(client.new(), "plan") if kind(it) == "plan"]
    assert [[entry["status"] for entry in it["entries"]] for it in plans] == [
        ["in_progress", "pending", "pending"],
        ["completed", "in_progress", "pending"],
        ["completed", "completed", "in_progress"],
        ["completed", "completed", "completed"],
    ]


def test_read_sends_a_file_in_the_session_folder(client: Client) -> None:
    call, done = [it for it in client.prompt(client.new(), "read") if "toolCallId" in it]
    assert (call["kind"], call["status"]) == ("read", "pending")
    assert call["locations"][0]["path"] == f"{CWD}/notes.txt"
    assert (done["toolCallId"], done["status"]) == (call["toolCallId"], "completed")
    assert done["content"][0]["content"]["type"] == "text"


def test_run_sends_a_command_and_its_output(client: Client) -> None:
    updates = client.prompt(client.new(), "run")
    assert statuses(updates) == ["pending", "in_progress", "completed"]
    assert updates[0]["kind"] == "execute"
    assert updates[2]["content"] == [{"type": "content", "content": text("hello\n")}]


@pytest.mark.parametrize(
    ("response", "then"),
    [
        (selected("allow-once"), ["in_progress", "completed"]),
        (selected("allow-always"), ["in_progress", "completed"]),
        (selected("reject-once"), ["failed"]),
        (selected("something else"), ["failed"]),
        ({"result": {"outcome": {"outcome": "cancelled"}}}, ["failed"]),
        ({"result": {"outcome": {"outcome": "perhaps"}}}, ["failed"]),
        ({"result": None}, ["failed"]),
        ({"error": {"code": -32603, "message": "no"}}, ["failed"]),
    ],
)
def test_edit_happens_only_if_allowed(client: Client, response: Json, then: list[str]) -> None:
    session_id = client.new()
    turn = client.start(session_id, "edit")
    asked = client.asked()
    client.send(id=asked["id"], **response)
    assert client.answer(turn)["result"] == {"stopReason": "end_turn"}
    updates = client.updates(session_id)
    assert statuses(updates) == ["pending", *then]
    options = asked["params"]["options"]
    assert [it["kind"] for it in options] == ["allow_once", "allow_always", "reject_once"]
    assert {"sessionUpdate": "tool_call", **asked["params"]["toolCall"]} == updates[0]
    diff = updates[0]["content"][0]
    assert (diff["type"], diff["path"]) == ("diff", f"{CWD}/notes.txt")
    assert diff["oldText"] != diff["newText"]


def test_title_is_set_from_the_prompt(client: Client) -> None:
    update = client.prompt(client.new(), "Title: one two three four five six seven")[0]
    title = "Title: one two three four five"
    assert update == {"sessionUpdate": "session_info_update", "title": title}
    assert client.call("session/list", {})["sessions"][0]["title"] == title


def test_usage_grows_with_the_conversation(client: Client) -> None:
    session_id = client.new()
    first, second = (client.prompt(session_id, "usage")[0] for _ in range(2))
    assert kind(first) == "usage_update"
    assert 0 < first["used"] < second["used"] < second["size"]


def test_count_sends_one_chunk_per_number_in_constant_memory(agent: Start, tmp_path: Path) -> None:
    client = agent("--memory", str(tmp_path))
    updates = client.prompt(client.new(), "count to 5000")
    assert [it["content"]["text"].strip() for it in updates] == [str(n) for n in range(1, 5001)]
    assert len({it["messageId"] for it in updates}) == 1
    (kept,) = tmp_path.iterdir()
    assert kept.stat().st_size < 1000


def test_long_count_can_be_cancelled(client: Client) -> None:
    session_id = client.new()
    turn = client.start(session_id, f"count to {'9' * 5000}")
    client.until(lambda m: "agent_message_chunk" in json.dumps(m))
    client.cancel(session_id, turn)


def test_slow_waits_until_cancelled(client: Client) -> None:
    session_id = client.new()
    client.cancel(session_id, client.go_slow(session_id))
    assert client.reply(session_id, "still there?").startswith("You said: still there?")


def test_error_fails_the_prompt_and_not_the_session(client: Client) -> None:
    session_id = client.new()
    assert client.answer(client.start(session_id, "error"))["error"]["code"] == -32603
    assert client.reply(session_id, "how many prompts?") == "You sent 1 prompt before this one."


def test_crash_ends_the_process_in_the_middle_of_a_turn(agent: Start, tmp_path: Path) -> None:
    flags = ("--offer", "resume", "--memory", str(tmp_path))
    client = agent(*flags)
    session_id = client.new()
    client.start(session_id, "crash, now")
    client.until(lambda m: "about" in json.dumps(m))
    status, stderr = client.end(hang_up=False)
    assert (status, len(stderr.splitlines())) == (3, 1)
    with pytest.raises(AssertionError, match="the agent has ended"):
        client.until(lambda m: "id" in m)

    client = agent(*flags)
    client.call("session/resume", {"sessionId": session_id, "cwd": CWD})
    assert client.reply(session_id, "what did I say last") == "You said last: crash, now"


# -- memory --


@pytest.mark.parametrize(
    "question", ["What did I say first?", "what did i say last", "how many PROMPTS"]
)
def test_new_session_has_no_memory(client: Client, question: str) -> None:
    assert client.reply(client.new(), question) == "I remember nothing before this."


def test_answers_use_the_memory_of_the_session(client: Client) -> None:
    session_id = client.new()
    client.prompt(session_id, "apples")
    client.prompt(session_id, "think, plan, error", "pears")
    assert client.reply(session_id, "What did I say last?") == "You said last: pears"
    assert client.reply(session_id, "What did I say first?") == "You said first: apples"
    assert client.reply(session_id, "How many prompts?") == "You sent 4 prompts before this one."


TRANSCRIPT = "Earlier:\n\nUser: find the bug\nAgent: found.\nUser:  thanks \n"


@pytest.mark.parametrize(
    "handed",
    [text(TRANSCRIPT), {"type": "resource", "resource": {"uri": "x:y", "text": TRANSCRIPT}}],
)
def test_handover_becomes_part_of_the_memory(client: Client, handed: Json) -> None:
    session_id = client.new()

    def ask(*prompt: Json) -> str:
        client.received.clear()
        client.call("session/prompt", {"sessionId": session_id, "prompt": prompt})
        return said(client.updates(session_id))

    first, last = text("what did I say first?"), text("what did I say last?")
    assert ask(handed, first) == "You said first: find the bug"
    assert ask(first) == "You said first: find the bug"
    assert ask(handed, last) == "You said last: what did I say first?"


def test_other_blocks_are_no_handover(client: Client) -> None:
    session_id = client.new()
    link = {"type": "resource_link", "uri": "file:///a", "name": "User: a"}
    prompt = [link, text("what did I say first?"), link]
    client.call("session/prompt", {"sessionId": session_id, "prompt": prompt})
    assert said(client.updates(session_id)) == "I remember nothing before this."


# -- cancel, and parallel turns --


def test_cancel_fails_the_call_that_waits_for_permission(client: Client) -> None:
    session_id = client.new()
    turn = client.start(session_id, "edit")
    asked = client.asked()
    client.cancel(session_id, turn)
    assert statuses(client.updates(session_id)) == ["pending", "failed"]
    client.send(id=asked["id"], result={"outcome": {"outcome": "cancelled"}})
    assert "hello" in client.reply(session_id, "hello")


def test_sessions_run_one_turn_each_at_the_same_time(client: Client) -> None:
    one, two = client.new(), client.new()
    turns = client.go_slow(one), client.go_slow(two)
    error = client.answer(client.start(one, "hello"))["error"]
    assert error["code"] == -32600
    assert "running turn" in error["message"]
    assert client.error("session/load", {"sessionId": one, **NEW})[0] == -32600
    client.cancel(two, turns[1])
    client.cancel(one, turns[0])


def test_cancel_without_a_turn_does_nothing(client: Client) -> None:
    session_id = client.new()
    for params in ({"sessionId": session_id}, {"sessionId": "no such"}, None):
        client.send(method="session/cancel", params=params)
    assert "hello" in client.reply(session_id, "hello")
