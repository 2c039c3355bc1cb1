"""Rewinds through `rekindle run`, for every pair of versions, and what the commands show then."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_runs import run
from stdio_client import CWD, EXAMPLE_AGENT, NEW, REKINDLE, Client, Json
from stdio_client_v2 import HELLO, ClientV2

CASES = [(client, agent, offer) for client in (1, 2) for agent in (1, 2) for offer in (False, True)]


class Place:
    """A store and an agent; starts clients of them."""

    def __init__(self, folder: Path, client: int, agent: int, *, is_native: bool) -> None:
        self.folder = folder
        self.store = folder / "store" / "sessions.db"
        self.client_version, self.agent_version, self.is_native = client, agent, is_native
        self.clients: list[Client] = []

    def start(self) -> Client:
        """Start Rekindle with the agent, and initialize them."""
        agent = [*EXAMPLE_AGENT, "--memory", str(self.folder / "memory")]
        agent += ["--offer", "rewind,load" if self.is_native else "none"]
        if self.agent_version > 1:
            agent += ["--protocol", "2", "--only-v2"]
        command = (*REKINDLE, "run", "--store", self.store, "--", *agent)
        is_v1 = self.client_version == 1
        client = Client(*command) if is_v1 else ClientV2(*command)
        self.clients.append(client)
        answer = client.call("initialize", {"protocolVersion": 1} if is_v1 else HELLO)
        capabilities = answer["agentCapabilities" if is_v1 else "capabilities"]
        served = capabilities["_meta"]["rekindle"]["methods"]
        assert served["rewind"] == ("agent" if self.is_native else "rekindle")
        assert served["edit_prompt"] == "rekindle"
        return client

    def command(self, name: str, *words: str | Path, store: Path | None = None) -> str:
        """Run a command on the store; return its output."""
        done = run(name, "--store", store or self.store, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(params=CASES, ids=lambda it: f"{it[0]}-{it[1]}-{'native' if it[2] else 'handover'}")
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    client, agent, is_native = request.param
    found = Place(tmp_path, client, agent, is_native=is_native)
    yield found
    for it in found.clients:
        it.close()


def replayed(client: Client, session_id: str) -> list[tuple[str, str, str]]:
    """Load a session; return the author, the id and the text of each message."""
    client.received.clear()
    params = NEW | {"sessionId": session_id}
    if isinstance(client, ClientV2):
        client.call("session/resume", params | {"replayFrom": {"type": "start"}})
    else:
        client.call("session/load", params)
    found: dict[tuple[str, str], str] = {}
    for update in client.updates(session_id):
        name = update["sessionUpdate"].removesuffix("_chunk")
        if name in {"user_message", "agent_message"} and "handover" not in update["messageId"]:
            content = update["content"]
            blocks: list[Json] = content if isinstance(content, list) else [content]
            key = (name.split("_")[0], update["messageId"])
            found[key] = found.get(key, "") + "".join(block["text"] for block in blocks)
    return [(author, name, text) for (author, name), text in found.items()]


@pytest.mark.one_of(3)
def test_a_session_continues_from_an_earlier_message(place: Place) -> None:
    client = place.start()
    session_id = client.new()
    for words in ("Remember apples", "Remember bananas", "Remember cherries"):
        client.prompt(session_id, words)
    messages = replayed(client, session_id)
    assert [text for author, _, text in messages if author == "user"] == [
        "Remember apples",
        "Remember bananas",
        "Remember cherries",
    ]
    bundle, copy = place.folder / "copy.rekindle", place.folder / "other" / "sessions.db"
    place.command("export", session_id, "-o", bundle)
    place.command("import", bundle, store=copy)
    (_, last_id, _) = messages[1]
    client.received.clear()
    result = client.call("session/rewind", {"sessionId": session_id, "toMessageId": last_id})
    how = "native" if place.is_native else "handover"
    assert result == {"lastMessageId": last_id, "_meta": {"rekindle": {"restored": how}}}
    assert client.updates(session_id)[-1] == {
        "sessionUpdate": "history_truncated",
        "lastMessageId": last_id,
    }
    assert "You sent 1 prompt" in client.reply(session_id, "how many prompts?")
    # The commands show the live branch, and the old one stays in the record.
    shown = place.command("show", session_id)
    assert "apples" in shown
    assert "bananas" not in shown
    assert "bananas" not in place.command("export", session_id)
    assert json.loads(place.command("search", "bananas", "--json")) == []
    assert json.loads(place.command("search", "apples", "--json")) != []
    (row,) = json.loads(place.command("list", "--json"))
    assert row["turns"] == 2
    # A bundle has everything, and the copy shows the same.
    bundle.unlink()
    place.command("export", session_id, "-o", bundle)
    place.command("import", bundle, store=copy)
    assert json.loads(place.command("list", "--json", store=copy))[0]["turns"] == 2
    assert place.command("show", session_id, store=copy) == place.command("show", session_id)
    for store in (copy, place.store):
        assert "bananas" in place.command("show", session_id, "--raw", store=store)
    # A fork and a load have the live branch too.
    fork_id = client.call("session/fork", NEW | {"sessionId": session_id})["sessionId"]
    assert "You sent 2 prompts" in client.reply(fork_id, "how many prompts?")
    client.close()
    client = place.start()
    texts = [text for author, _, text in replayed(client, session_id) if author == "user"]
    assert texts == ["Remember apples", "how many prompts?"]
    assert "You sent 2 prompts" in client.reply(session_id, "how many prompts?")


@pytest.mark.one_of(2)
def test_a_prompt_is_edited_while_its_turn_is_running(place: Place) -> None:
    client = place.start()
    session_id = client.new()
    client.prompt(session_id, "Remember apples")
    client.prompt(session_id, "Remember bananas")
    client.go_slow(session_id)
    edited_id = [name for author, name, _ in replayed(client, session_id) if author == "user"][1]
    client.received.clear()
    content = [{"type": "text", "text": "how many prompts?"}]
    params = {"sessionId": session_id, "messageId": edited_id, "content": content}
    result = client.call("session/edit_prompt", params)
    if isinstance(client, ClientV2):
        assert result.keys() == {"messageId"}
        client.state(session_id, "idle")
    else:
        assert result["stopReason"] == "end_turn"
    messages = replayed(client, session_id)
    texts = [text for author, _, text in messages if author == "user"]
    assert texts == ["Remember apples", "how many prompts?"]
    assert messages[-1][2].startswith("You sent 1 prompt")
    (row,) = json.loads(place.command("list", "--json"))
    assert (row["turns"], row["cwd"]) == (2, CWD)
