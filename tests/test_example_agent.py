"""The example agent, driven as a client drives it: a process, and lines on its pipes."""

import itertools
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 10.0
COMMAND = (sys.executable, "-m", "rekindle", "example-agent")
CWD = "/home/user/project"
NEW = {"cwd": CWD, "mcpServers": []}

Json = dict[str, Any]


class Client:
    """A client of one agent process. Every wait is bounded."""

    def __init__(self, *flags: str) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([*COMMAND, *flags], stdin=pipe, stdout=pipe, stderr=pipe)
        self.passed: list[Json] = []
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._ids = 0
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def write(self, line: bytes) -> None:
        """Send bytes as they are."""
        assert self.process.stdin
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def send(self, **message: object) -> None:
        """Send a message."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def receive(self) -> Json:
        """Return the next message."""
        line = self._lines.get(timeout=PATIENCE)
        assert line, "the agent has ended"
        message: Json = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        self.passed.append(message)
        return message

    def until(self, is_it: Callable[[Json], bool]) -> Json:
        """Return the first message that `is_it`."""
        while not is_it(message := self.receive()):
            pass
        return message

    def request(self, method: str, params: object) -> int:
        """Send a request, and return its id."""
        self._ids += 1
        self.send(id=self._ids, method=method, params=params)
        return self._ids

    def answer(self, request_id: object) -> Json:
        """Return the answer to a request."""
        return self.until(lambda m: "method" not in m and m["id"] == request_id)

    def call(self, method: str, params: object) -> Json:
        """Return the result of a request."""
        return self.answer(self.request(method, params))["result"]

    def error(self, method: str, params: object) -> tuple[int, Json]:
        """Return the code and the data of a request's error."""
        error = self.answer(self.request(method, params))["error"]
        return error["code"], error.get("data")

    def new(self, cwd: str = CWD) -> str:
        """Return the id of a new session."""
        return self.call("session/new", {"cwd": cwd, "mcpServers": []})["sessionId"]

    def start(self, session_id: str, *texts: str) -> int:
        """Begin a turn, and return the id of its request."""
        blocks = [{"type": "text", "text": text} for text in texts]
        return self.request("session/prompt", {"sessionId": session_id, "prompt": blocks})

    def prompt(self, session_id: str, *texts: str) -> list[Json]:
        """Return the updates of a turn that ends as it should."""
        self.passed.clear()
        assert self.answer(self.start(session_id, *texts))["result"] == {"stopReason": "end_turn"}
        return self.updates(session_id)

    def reply(self, session_id: str, *texts: str) -> str:
        """Return what the agent says in a turn."""
        return said(self.prompt(session_id, *texts))

    def asked(self) -> Json:
        """Return the agent's question for permission."""
        return self.until(lambda m: m.get("method") == "session/request_permission")

    def go_slow(self, session_id: str) -> int:
        """Begin a turn that does not end, and return when it is waiting."""
        turn = self.start(session_id, "slow")
        self.until(lambda m: session_id in json.dumps(m) and "cancel." in json.dumps(m))
        return turn

    def cancel(self, session_id: str, turn: int) -> None:
        """Cancel a turn, and see it cancelled."""
        self.send(method="session/cancel", params={"sessionId": session_id})
        assert self.answer(turn)["result"] == {"stopReason": "cancelled"}

    def updates(self, session_id: str) -> list[Json]:
        """Return the updates received, those about slash commands aside."""
        params = [m["params"] for m in self.passed if m.get("method") == "session/update"]
        updates = [it["update"] for it in params if it["sessionId"] == session_id]
        return [it for it in updates if kind(it) != "available_commands_update"]

    def end(self, *, hang_up: bool = True) -> tuple[int, str]:
        """Return the exit status and what was written to stderr."""
        assert self.process.stdin
        assert self.process.stderr
        if hang_up:
            self.process.stdin.close()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return self.process.returncode, self.process.stderr.read().decode()

    def close(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe
            pipe.close()


Start = Callable[..., Client]


@pytest.fixture
def agent() -> Iterator[Start]:
    """Start agents of the test's own."""
    clients: list[Client] = []

    def start(*flags: str) -> Client:
        clients.append(Client(*flags))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[Client]:
    """Start one agent for all tests that need only a session of their own."""
    client = Client("--offer", "all")
    yield client
    client.close()


@pytest.fixture
def client(shared: Client) -> Client:
    shared.passed.clear()
    return shared


def kind(update: Json) -> str:
    return update["sessionUpdate"]


def kinds(updates: list[Json]) -> list[str]:
    """Return the kinds of the updates, without repetition of neighbours."""
    return [name for name, _ in itertools.groupby(map(kind, updates))]


def said(updates: list[Json], by: str = "agent_message_chunk") -> str:
    return "".join(it["content"]["text"] for it in updates if kind(it) == by)


def statuses(updates: list[Json]) -> list[str]:
    return [it["status"] for it in updates if kind(it).startswith("tool_call")]


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def selected(option_id: str) -> Json:
    return {"result": {"outcome": {"outcome": "selected", "optionId": option_id}}}


# Beginning.


@pytest.mark.parametrize(
    ("offer", "load", "others"),
    [
        ("none", False, {}),
        ("load, list", True, {"list": {}}),
        ("all", True, {"list": {}, "resume": {}, "close": {}, "delete": {}, "fork": {}}),
    ],
)
def test_it_advertises_exactly_what_it_offers(
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


def test_what_is_not_offered_is_not_there(agent: Start) -> None:
    client = agent()
    params = {"sessionId": client.new(), **NEW}
    for name in ("load", "resume", "list", "close", "delete", "fork"):
        assert client.error(f"session/{name}", params)[0] == -32601


def test_a_new_session_has_modes_and_then_commands(agent: Start) -> None:
    client = agent()
    answer = client.call("session/new", NEW)
    assert answer["sessionId"].startswith("example-")
    assert answer["modes"]["currentModeId"] == "ask"
    assert [mode["id"] for mode in answer["modes"]["availableModes"]] == ["ask", "code"]
    assert len(client.passed) == 1
    update = client.receive()["params"]["update"]
    assert kind(update) == "available_commands_update"
    assert [it["name"] for it in update["availableCommands"]] == ["plan", "count"]


def test_early_updates_come_before_the_answer(agent: Start) -> None:
    client = agent("--early-updates")
    session_id = client.new()
    early, answer = client.passed
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
def test_a_new_session_is_refused_by_the_field_that_is_wrong(
    client: Client, params: object, field: str
) -> None:
    assert client.error("session/new", params) == (-32602, {"field": field})


def test_the_mode_can_be_changed_to_one_that_there_is(client: Client) -> None:
    session_id = client.new()
    client.call("session/set_mode", {"sessionId": session_id, "modeId": "code"})
    update = {"sessionUpdate": "current_mode_update", "currentModeId": "code"}
    assert client.updates(session_id) == [update]
    refused = client.error("session/set_mode", {"sessionId": session_id, "modeId": "sing"})
    assert refused == (-32602, {"field": "modeId"})
    modes = client.call("session/resume", {"sessionId": session_id, "cwd": CWD})["modes"]
    assert modes["currentModeId"] == "code"


# Talking.


def test_a_reply_is_streamed_in_pieces_of_one_message(client: Client) -> None:
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


def test_an_echo_repeats_every_block_of_the_prompt(agent: Start) -> None:
    client = agent("--echo")
    updates = client.prompt(client.new(), "context", "hello")
    assert kinds(updates) == ["user_message_chunk", "agent_message_chunk"]
    assert [it["content"] for it in updates[:2]] == [text("context"), text("hello")]
    assert updates[0]["messageId"] == updates[1]["messageId"] != updates[2]["messageId"]


def test_a_delay_holds_back_the_pieces_and_can_be_cancelled(agent: Start) -> None:
    client = agent("--delay", "600")
    session_id = client.new()
    client.cancel(session_id, client.start(session_id, "hello"))
    assert client.updates(session_id) == []


@pytest.mark.parametrize("prompt", [None, "hello", ["hello"], [{"type": "text"}], [{}]])
def test_a_prompt_that_is_none_is_refused(client: Client, prompt: object) -> None:
    params = {"sessionId": client.new(), "prompt": prompt}
    assert client.error("session/prompt", params) == (-32602, {"field": "prompt"})


@pytest.mark.parametrize("words", ["half \ud83d a pair", "d\u00eda \u65e5 \u2028 \U0001f600"])
def test_any_text_comes_back_as_it_was(client: Client, words: str) -> None:
    assert words in client.reply(client.new(), words)


# Scenes.


def test_words_are_whole_and_their_scenes_come_in_a_fixed_order(client: Client) -> None:
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


def test_plan_advances_until_all_is_done(client: Client) -> None:
    plans = [it for it in client.prompt(client.new(), "plan") if kind(it) == "plan"]
    assert [[entry["status"] for entry in it["entries"]] for it in plans] == [
        ["in_progress", "pending", "pending"],
        ["completed", "in_progress", "pending"],
        ["completed", "completed", "in_progress"],
        ["completed", "completed", "completed"],
    ]


def test_read_tells_of_a_file_in_the_session_folder(client: Client) -> None:
    call, done = [it for it in client.prompt(client.new(), "read") if "toolCallId" in it]
    assert (call["kind"], call["status"]) == ("read", "pending")
    assert call["locations"][0]["path"] == f"{CWD}/notes.txt"
    assert (done["toolCallId"], done["status"]) == (call["toolCallId"], "completed")
    assert done["content"][0]["content"]["type"] == "text"


def test_run_tells_of_a_command_and_its_output(client: Client) -> None:
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


def test_title_names_the_session_after_the_prompt(client: Client) -> None:
    update = client.prompt(client.new(), "Title: one two three four five six seven")[0]
    title = "Title: one two three four five"
    assert update == {"sessionUpdate": "session_info_update", "title": title}
    assert client.call("session/list", {})["sessions"][0]["title"] == title


def test_usage_grows_with_the_conversation(client: Client) -> None:
    session_id = client.new()
    first, second = (client.prompt(session_id, "usage")[0] for _ in range(2))
    assert kind(first) == "usage_update"
    assert 0 < first["used"] < second["used"] < second["size"]


def test_counting_takes_a_chunk_a_number_and_next_to_no_memory(
    agent: Start, tmp_path: Path
) -> None:
    client = agent("--memory", str(tmp_path))
    updates = client.prompt(client.new(), "count to 5000")
    assert [it["content"]["text"].strip() for it in updates] == [str(n) for n in range(1, 5001)]
    assert len({it["messageId"] for it in updates}) == 1
    (kept,) = tmp_path.iterdir()
    assert kept.stat().st_size < 1000


def test_a_count_without_end_can_be_cancelled(client: Client) -> None:
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


# Memory.


@pytest.mark.parametrize(
    "question", ["What did I say first?", "what did i say last", "how many PROMPTS"]
)
def test_at_first_it_remembers_nothing(client: Client, question: str) -> None:
    assert client.reply(client.new(), question) == "I remember nothing before this."


def test_it_answers_from_its_memory_of_the_session(client: Client) -> None:
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
def test_a_transcript_handed_over_is_remembered_as_a_model_would(
    client: Client, handed: Json
) -> None:
    session_id = client.new()

    def ask(*prompt: Json) -> str:
        client.passed.clear()
        client.call("session/prompt", {"sessionId": session_id, "prompt": prompt})
        return said(client.updates(session_id))

    first, last = text("what did I say first?"), text("what did I say last?")
    assert ask(handed, first) == "You said first: find the bug"
    assert ask(first) == "You said first: find the bug"
    assert ask(handed, last) == "You said last: what did I say first?"


def test_a_block_without_a_transcript_hands_nothing_over(client: Client) -> None:
    session_id = client.new()
    link = {"type": "resource_link", "uri": "file:///a", "name": "User: a"}
    prompt = [link, text("what did I say first?"), link]
    client.call("session/prompt", {"sessionId": session_id, "prompt": prompt})
    assert said(client.updates(session_id)) == "I remember nothing before this."


# Cancelling, and turns side by side.


def test_cancelling_an_open_question_fails_its_tool_call(client: Client) -> None:
    session_id = client.new()
    turn = client.start(session_id, "edit")
    asked = client.asked()
    client.cancel(session_id, turn)
    assert statuses(client.updates(session_id)) == ["pending", "failed"]
    client.send(id=asked["id"], result={"outcome": {"outcome": "cancelled"}})
    assert "hello" in client.reply(session_id, "hello")


def test_sessions_have_turns_at_the_same_time_but_one_each(client: Client) -> None:
    one, two = client.new(), client.new()
    turns = client.go_slow(one), client.go_slow(two)
    error = client.answer(client.start(one, "hello"))["error"]
    assert error["code"] == -32600
    assert "running turn" in error["message"]
    assert client.error("session/load", {"sessionId": one, **NEW})[0] == -32600
    client.cancel(two, turns[1])
    client.cancel(one, turns[0])


def test_cancelling_what_does_not_run_does_nothing(client: Client) -> None:
    session_id = client.new()
    for params in ({"sessionId": session_id}, {"sessionId": "no such"}, None):
        client.send(method="session/cancel", params=params)
    assert "hello" in client.reply(session_id, "hello")


# The lifecycle.


def test_load_tells_the_whole_conversation_again_before_its_answer(
    agent: Start, tmp_path: Path
) -> None:
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


def test_resume_brings_the_memory_back_and_tells_nothing(agent: Start, tmp_path: Path) -> None:
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


def test_without_a_memory_folder_all_is_forgotten_at_the_end(agent: Start) -> None:
    client = agent()
    session_id = client.new()
    client.prompt(session_id, "remember me")
    client.end()
    client = agent("--offer", "all")
    refused = client.error("session/load", {"sessionId": session_id, **NEW})
    assert refused == (-32002, {"sessionId": session_id})
    assert client.call("session/list", {}) == {"sessions": []}


def test_load_and_resume_want_to_know_the_folder(client: Client) -> None:
    session_id = client.new()
    for method, params, field in (
        ("session/load", {"cwd": "x", "mcpServers": []}, "cwd"),
        ("session/load", {"cwd": CWD}, "mcpServers"),
        ("session/resume", {}, "cwd"),
    ):
        refused = client.error(method, {"sessionId": session_id, **params})
        assert refused == (-32602, {"field": field})


@pytest.mark.parametrize("keep", [True, False])
def test_list_tells_the_newest_first_and_can_look_at_one_folder(
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


def test_close_ends_the_turn_first_and_keeps_the_file(agent: Start, tmp_path: Path) -> None:
    client = agent("--offer", "close,load", "--memory", str(tmp_path))
    session_id = client.new()
    turn = client.go_slow(session_id)
    closing = client.request("session/close", {"sessionId": session_id})
    assert client.answer(turn)["result"] == {"stopReason": "cancelled"}
    assert client.answer(closing)["result"] == {}
    assert client.answer(client.start(session_id, "hello"))["error"]["code"] == -32002
    client.call("session/load", {"sessionId": session_id, **NEW})
    assert client.reply(session_id, "what did I say first") == "You said first: slow"


def test_close_frees_a_session_that_is_not_on_disk(client: Client) -> None:
    session_id = client.new()
    client.call("session/close", {"sessionId": session_id})
    for method in ("session/load", "session/close"):
        refused = client.error(method, {"sessionId": session_id, **NEW})
        assert refused == (-32002, {"sessionId": session_id})


def test_delete_forgets_a_session_as_often_as_it_is_asked(agent: Start, tmp_path: Path) -> None:
    client = agent("--offer", "delete,list,load", "--memory", str(tmp_path))
    session_id = client.new()
    client.go_slow(session_id)
    for _ in range(2):
        assert client.call("session/delete", {"sessionId": session_id}) == {}
    assert list(tmp_path.iterdir()) == []
    assert client.call("session/list", {}) == {"sessions": []}
    assert client.error("session/load", {"sessionId": session_id, **NEW})[0] == -32002


def test_a_fork_remembers_the_past_and_has_its_own_future(client: Client) -> None:
    session_id = client.new()
    client.prompt(session_id, "apples")
    fork = client.call("session/fork", {"sessionId": session_id, "cwd": "/elsewhere"})
    assert fork["modes"]["currentModeId"] == "ask"
    client.prompt(fork["sessionId"], "pears")
    assert client.reply(fork["sessionId"], "what did I say first") == "You said first: apples"
    assert client.reply(session_id, "how many prompts") == "You sent 1 prompt before this one."


def test_a_fork_of_a_running_turn_has_nothing_open(client: Client) -> None:
    session_id = client.new()
    turn = client.start(session_id, "edit")
    client.asked()
    fork = client.call("session/fork", {"sessionId": session_id, **NEW})["sessionId"]
    client.call("session/load", {"sessionId": fork, **NEW})
    assert statuses(client.updates(fork)) == ["failed"]
    client.cancel(session_id, turn)


def test_no_session_id_leads_out_of_the_memory_folder(agent: Start, tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("{}", encoding="utf-8")
    client = agent("--offer", "all", "--memory", str(tmp_path / "memory"))
    for session_id in ("../outside", str(tmp_path / "outside"), "", "x" * 9999, "\ud83d", "\0"):
        refused = client.error("session/load", {"sessionId": session_id, **NEW})
        assert refused == (-32002, {"sessionId": session_id})
        assert client.call("session/delete", {"sessionId": session_id}) == {}
    assert outside.exists()


def test_a_damaged_file_is_passed_over_and_told_of(agent: Start, tmp_path: Path) -> None:
    for name, content in (("example-1", b"{"), ("example-2", b"[]"), ("example-3", b'{"cwd":1}')):
        (tmp_path / f"{name}.json").write_bytes(content)
    client = agent("--offer", "all", "--memory", str(tmp_path))
    assert client.call("session/list", {}) == {"sessions": []}
    assert client.error("session/load", {"sessionId": "example-1", **NEW})[0] == -32002
    status, stderr = client.end()
    assert status == 0
    assert [line.count("cannot read") for line in stderr.splitlines()] == [1] * 4


# JSON-RPC.


@pytest.mark.parametrize("request_id", [0, 12345678901234567890, -1, 2.5, "", "a\u2028b", None])
def test_an_id_comes_back_as_it_was(client: Client, request_id: object) -> None:
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
def test_a_line_that_is_no_message_is_refused(client: Client, line: bytes, code: int) -> None:
    client.write(line)
    assert client.answer(None)["error"]["code"] == code


def test_a_line_ends_at_a_newline_only(client: Client) -> None:
    params = {"sessionId": client.new(), "prompt": [text("one \u2028 two \x85 three")]}
    message = {"jsonrpc": "2.0", "id": "line", "method": "session/prompt", "params": params}
    client.write(b"\n \r\n")
    client.write(json.dumps(message, ensure_ascii=False).encode() + b"\r\n")
    assert client.answer("line")["result"] == {"stopReason": "end_turn"}


def test_an_unknown_method_is_refused_and_an_unknown_notification_ignored(agent: Start) -> None:
    client = agent()
    client.send(method="_rekindle/whatever", params={})
    client.send(method="session/new", params=NEW)
    client.send(id=0, result={})
    client.send(id=[], error={})
    assert client.error("authenticate", {"methodId": "x"})[0] == -32601
    assert len(client.passed) == 1


@pytest.mark.parametrize("method", ["session/prompt", "session/set_mode", "session/fork"])
def test_an_unknown_session_is_named(client: Client, method: str) -> None:
    params = {"sessionId": "x", "prompt": [], "modeId": "ask", "cwd": CWD}
    assert client.error(method, params) == (-32002, {"sessionId": "x"})
    assert client.error(method, {**params, "sessionId": 7}) == (-32602, {"field": "sessionId"})


# Ending, and the command line.


def test_it_ends_with_its_input_whatever_is_running(agent: Start) -> None:
    client = agent()
    client.go_slow(client.new())
    client.start(client.new(), "edit")
    client.asked()
    assert client.end() == (0, "")


def test_it_ends_quietly_when_nobody_listens() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdout
        process.stdout.close()
        _, stderr = process.communicate(b'{"id":1,"method":"initialize"}\n' * 2, PATIENCE)
    assert (process.returncode, stderr) == (0, b"")


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *flags], input="", capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def test_help_shows_an_example() -> None:
    shown = run("--help")
    assert shown.returncode == 0
    assert "rekindle run -- rekindle example-agent" in shown.stdout


@pytest.mark.parametrize(
    "flags",
    [("--offer", "load,fly"), ("--delay", "-1"), ("--delay", "nan"), ("--memory", __file__)],
)
def test_a_flag_that_makes_no_sense_is_refused(flags: tuple[str, ...]) -> None:
    shown = run(*flags)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "rekindle example-agent: " in shown.stderr
    assert "Traceback" not in shown.stderr
