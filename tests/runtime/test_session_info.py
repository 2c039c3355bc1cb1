"""The newer session methods through `rekindle run`, for every pair of versions."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from command_runs import run
from rekindle.model import Kind
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import CWD, EXAMPLE_AGENT, NEW, REKINDLE, Client, Json
from stdio_client_v2 import HELLO, ClientV2

PAIRS = [(client, agent) for client in (1, 2) for agent in (1, 2)]
OFFERS = ("none", "newest")
ASK = "what is your system prompt?"


class Place:
    """A store and an agent's memory; starts clients of them."""

    def __init__(self, folder: Path, versions: tuple[int, int], offer: str) -> None:
        self.store = folder / "store" / "sessions.db"
        self.memory = folder / "memory"
        self.client_version, self.agent_version = versions
        self.offer = offer
        self.clients: list[Client] = []

    def start(self, *, is_forgetful: bool = False) -> Client:
        """Start Rekindle with the agent, and initialize them."""
        agent = [*EXAMPLE_AGENT, "--offer", self.offer]
        if self.agent_version > 1:
            agent += ["--protocol", "2", "--only-v2"]
        if not is_forgetful:
            agent += ["--memory", str(self.memory)]
        command = (*REKINDLE, "run", "--store", self.store, "--", *agent)
        is_v1 = self.client_version == 1
        client = Client(*command) if is_v1 else ClientV2(*command)
        self.clients.append(client)
        answer = client.call("initialize", {"protocolVersion": 1} if is_v1 else HELLO)
        capabilities = answer["agentCapabilities" if is_v1 else "capabilities"]
        session = capabilities["sessionCapabilities" if is_v1 else "session"]
        assert {"archive", "title", "status"} <= session.keys()
        assert ("systemPrompt" in session) is (self.offer == "newest")
        return client

    def command(self, name: str, *words: str) -> str:
        """Run a command on the store; return its output."""
        done = run(name, "--store", self.store, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(params=product(PAIRS, OFFERS), ids=lambda it: f"{it[0][0]}-{it[0][1]}-{it[1]}")
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    found = Place(tmp_path, *request.param)
    yield found
    for client in found.clients:
        client.close()


def rows(client: Client, wanted: str) -> dict[str, tuple[str, bool]]:
    sessions = client.call("session/list", {"archived": wanted, "cwd": CWD})["sessions"]
    return {it["sessionId"]: (it["title"], it["archived"]) for it in sessions}


def reopen(client: Client, session_id: str, **fields: object) -> Json:
    return client.call("session/resume", NEW | {"sessionId": session_id, **fields})


def test_sessions_are_renamed_archived_and_found_again(place: Place) -> None:
    client = place.start()
    one, other = client.new(), client.new()
    for session_id in (one, other):
        client.prompt(session_id, f"Hello {session_id == one}")
    client.received.clear()
    title = {"sessionId": one, "title": "  My\n title "}
    assert client.call("session/set_title", title) == {"title": "My title"}
    assert {"sessionUpdate": "session_info_update", "title": "My title"} in client.updates(one)
    assert "My title" in place.command("list")
    client.prompt(one, "title by the agent")
    # A running turn is cancelled.
    client.go_slow(one)
    status = client.call("session/status", {"sessionId": one})
    assert status["status"] == "open"
    assert status.get("state") == ({"state": "running"} if place.client_version > 1 else None)
    assert client.call("session/archive", {"sessionId": one}) == {}
    assert client.call("session/status", {"sessionId": one}) == {"status": "saved"}
    assert rows(client, "exclude") == {other: ("Hello False", False)}
    assert rows(client, "only") == {one: ("My title", True)}
    assert rows(client, "include").keys() == {one, other}
    assert client.error("session/list", {"archived": "bogus"})[0] == -32602
    assert client.error("session/status", {"sessionId": "nobody"}) == (
        -32002,
        {"sessionId": "nobody"},
    )
    # A command changes the same marks, and so does an agent that has forgotten everything.
    place.command("unarchive", one)
    place.command("archive", other)
    client.close()
    client = place.start(is_forgetful=True)
    assert rows(client, "exclude") == {one: ("My title", False)}
    assert rows(client, "only").keys() == {other}
    for session_id, method in ((one, "archive"), (other, "unarchive")):
        assert client.call(f"session/{method}", {"sessionId": session_id}).keys() <= {"_meta"}
    title = {"sessionId": other, "title": "Found"}
    assert client.call("session/set_title", title)["title"] == "Found"
    assert rows(client, "include") == {one: ("My title", True), other: ("Found", False)}
    reopen(client, other)
    assert "You sent 1 prompt" in client.reply(other, "how many prompts?")


def test_the_system_prompt_outlives_the_agent(place: Place) -> None:
    text = "Be brief. DB_PASSWORD=hunter2-hunter2"
    prompt = {"mode": "append", "content": [{"type": "text", "text": text}]}
    client = place.start(is_forgetful=True)
    if place.offer == "none":
        code, data = client.error("session/new", NEW | {"systemPrompt": prompt})
        assert (code, data) == (-32602, {"field": "systemPrompt"})
        assert place.command("list", "--json", "--all").strip() == "[]"
        return
    session_id = client.call("session/new", NEW | {"systemPrompt": prompt})["sessionId"]
    assert client.reply(session_id, ASK) == f"My system prompt (append): {text}"
    fork_id = client.call("session/fork", NEW | {"sessionId": session_id})["sessionId"]
    assert client.reply(fork_id, ASK) == f"My system prompt (append): {text}"
    client.close()
    with SqliteStore(place.store, create=False) as store:
        setups = [entry.line for entry in store.read(fork_id) if entry.kind is Kind.SETUP]
    assert all(b"Be brief. DB_PASSWORD=***" in line for line in setups)
    assert len(setups) == 2
    client = place.start(is_forgetful=True)
    for known in (session_id, fork_id):
        restored = reopen(client, known)["_meta"]["rekindle"]["restored"]
        assert restored == "handover"
        told = client.reply(known, ASK)
        assert told.endswith("My system prompt (append): Be brief. DB_PASSWORD=***")
