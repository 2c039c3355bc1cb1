"""The same life cycle with every agent: the client sees the same, whatever the agent supports."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_imitations import AGENTS
from client_model_v1 import Editor
from stdio_client import REKINDLE, Client, Json, is_running, kind, said

QUIRKY = Path(__file__).parents[1] / "agents" / "agent_imitations.py"
CWD = "/home/user/project"
OPEN = {"cwd": CWD, "mcpServers": []}

# Agents that lose a session when they are killed, or cannot restore one.
FORGETFUL = {
    *("agentao", "bare-sdk", "deepagents", "renumbering", "amnesia", "one-chunk"),
    "wrong-session",
}

Connect = Callable[[], "Setup"]


class Setup:
    """An editor, Rekindle and an agent, which can be killed together."""

    def __init__(self, name: str, folder: Path) -> None:
        self.pid_file = folder / "agent.pid"
        self.pid_file.unlink(missing_ok=True)
        (folder / "memory").mkdir(exist_ok=True)
        agent = f'echo $$ > {self.pid_file}; exec "$0" "$@"'
        command = ("sh", "-c", agent, sys.executable, QUIRKY, name, folder / "memory")
        self.client = Client(*REKINDLE, "run", "--store", folder / "s.db", "--", *command)
        self.client.skips_plain_text = name == "banner"
        self.client.excused = {"craft/drainMidTurnQueue"}
        params = {"protocolVersion": 1, "clientCapabilities": {}}
        self.capabilities: Json = self.client.call("initialize", params)["agentCapabilities"]
        if name == "auth":
            assert self.client.error("session/new", OPEN)[0] == -32000
            self.client.call("authenticate", {"methodId": "key"})

    def kill(self) -> None:
        """Kill everything at once."""
        agent = int(self.pid_file.read_text())
        # Stopped, Rekindle does not see the exit of the agent. Killed first, it would close the
        # input of the agent, which may save its session then.
        self.client.process.send_signal(signal.SIGSTOP)
        os.kill(agent, signal.SIGKILL)
        self.client.process.kill()
        self.client.close()
        while is_running(agent):
            pass

    def load(self, session_id: str) -> tuple[Json, list[Json]]:
        """Return the answer to a load, and the updates before it."""
        self.client.received.clear()
        answer = self.client.call("session/load", {"sessionId": session_id, **OPEN})
        return answer, self.client.updates(session_id)

    def remembered_prompts(self, session_id: str) -> str:
        """Return the agent's list of prompts that it remembers."""
        updates = self.client.prompt(session_id, "what did I say first?")
        assert not [it for it in updates if kind(it) == "tool_call"], "history came late"
        return said(updates).removeprefix(HANDED_OVER).rpartition("You said first: ")[2]

    def listed(self, **params: object) -> list[Json]:
        """Return the list of sessions."""
        return self.client.call("session/list", params)["sessions"]


HANDED_OVER = "[Rekindle: the agent had lost this session, so Rekindle sent it the history.]\n\n"


@pytest.fixture
def connect(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Connect]:
    desks: list[Setup] = []

    def connect() -> Setup:
        desks.append(Setup(request.getfixturevalue("name"), tmp_path))
        return desks[-1]

    yield connect
    for desk in desks:
        desk.client.close()


@pytest.fixture(params=AGENTS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def visible_updates(updates: list[Json]) -> list[Json]:
    """Return the updates that an editor shows, without those that only live agents send."""
    editor = Editor()
    for update in updates:
        editor.apply(update)
    return editor.shown()


@pytest.mark.one_of(3)
@pytest.mark.requirement(8, 9, 13, 14, 15, 16, 17, 18, 19, 20, 22, 27, 28, 29, 39)
def test_a_session_survives_its_whole_life_cycle(connect: Connect, name: str) -> None:
    restored = "handover" if name in FORGETFUL else "native"

    # Create a session, and prompt.
    desk = connect()
    assert desk.capabilities["loadSession"] is True
    assert {"list", "resume", "close", "delete", "fork"} <= desk.capabilities[
        "sessionCapabilities"
    ].keys()
    session_id = desk.client.call("session/new", OPEN)["sessionId"]
    live = Editor()
    for words in ("Hello", "tool"):
        live.prompt([{"type": "text", "text": words}])
        for update in desk.client.prompt(session_id, words):
            if kind(update) != "user_message_chunk":
                live.apply(update)
    desk.kill()

    # List.
    desk = connect()
    (info,) = desk.listed()
    assert (info["sessionId"], info["cwd"], info["title"]) == (session_id, CWD, "Hello")
    assert info["updatedAt"].endswith("+00:00")
    assert desk.listed(cwd="/elsewhere") == []

    # Load: the whole conversation, once, before the answer. The agent remembers it.
    answer, updates = desk.load(session_id)
    assert answer["_meta"]["rekindle"]["restored"] == restored
    assert visible_updates(updates) == live.shown()
    assert all(it["_meta"]["rekindle"]["replayed"] for it in updates)
    assert desk.remembered_prompts(session_id) == "Hello"
    again, same = desk.load(session_id)
    assert again["_meta"]["rekindle"]["restored"] == "live"
    ids = [it["messageId"] for it in updates if "messageId" in it]
    assert [it["messageId"] for it in same if "messageId" in it][: len(ids)] == ids
    desk.kill()

    # Resume: no replay. The agent remembers the conversation.
    desk = connect()
    desk.client.received.clear()
    desk.client.call("session/resume", {"sessionId": session_id, **OPEN})
    assert [kind(it) for it in desk.client.updates(session_id)] == []
    assert desk.remembered_prompts(session_id) == "Hello"

    # Fork: another session with the same history. The first one does not change.
    _, before = desk.load(session_id)
    fork_id = desk.client.call("session/fork", {"sessionId": session_id, **OPEN})["sessionId"]
    assert fork_id != session_id
    assert desk.remembered_prompts(fork_id) == "Hello"
    desk.client.prompt(fork_id, "only in the fork")
    _, after = desk.load(session_id)
    assert visible_updates(after) == visible_updates(before)
    titles = {it["sessionId"]: it["title"] for it in desk.listed()}
    assert titles[session_id] == "Hello"
    assert titles[fork_id].endswith("(fork)") or AGENTS[name].late_title

    # Close: no more prompts, but the record stays.
    assert desk.client.call("session/close", {"sessionId": session_id}) == {}
    prompt = {"sessionId": session_id, "prompt": []}
    assert desk.client.error("session/prompt", prompt) == (-32002, {"sessionId": session_id})
    desk.load(session_id)
    assert desk.remembered_prompts(session_id) == "Hello"

    # Delete: the session is gone at once. Deleting it again is allowed.
    for _ in range(2):
        assert desk.client.call("session/delete", {"sessionId": session_id}) == {}
        assert session_id not in json.dumps(desk.listed())
    code, data = desk.client.error("session/load", {"sessionId": session_id, **OPEN})
    assert (code, data) == (-32002, {"sessionId": session_id})
    assert fork_id in json.dumps(desk.listed())


@pytest.mark.one_of(3)
@pytest.mark.requirement(39)
@pytest.mark.usefixtures("name")
def test_an_unknown_session_is_refused(connect: Connect) -> None:
    desk = connect()
    for method in ("load", "resume", "fork"):
        params = {"sessionId": "nobody", **OPEN}
        assert desk.client.error(f"session/{method}", params) == (-32002, {"sessionId": "nobody"})
    assert desk.client.call("session/close", {"sessionId": "nobody"}) == {}
    assert desk.client.call("session/delete", {"sessionId": "nobody"}) == {}


@pytest.mark.one_of(3)
def test_a_dead_agent_is_restarted_with_its_session(connect: Connect, name: str) -> None:
    desk = connect()
    session_id = desk.client.call("session/new", OPEN)["sessionId"]
    desk.client.prompt(session_id, "Hello")
    error = desk.client.answer(desk.client.start(session_id, "crash"))["error"]
    assert error["message"] == "the agent exited with 3 before it answered session/prompt"
    if name == "auth":
        assert desk.client.error("session/prompt", {"sessionId": session_id, "prompt": []}) == (
            -32000,
            None,
        )
        desk.client.call("authenticate", {"methodId": "key"})
    assert desk.remembered_prompts(session_id) == "Hello"
