"""Sub-agents of the example agent, for clients and agents of every version."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from command_runs import run
from stdio_client import CWD, EXAMPLE_AGENT, NEW, REKINDLE, Client, Json, kind, selected
from stdio_client_v2 import HELLO, START, ClientV2

Open = Callable[[int, int], Client]
INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {"subagents": {}}}
PAIRS = [(1, 1), (1, 2), (2, 1), (2, 2)]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Open]:
    """Start Rekindle for a client and an agent of these versions, each time with the same store."""
    clients: list[Client] = []

    def start(client_version: int, agent_version: int) -> Client:
        agent = [*EXAMPLE_AGENT, "--memory", tmp_path / "memory"]
        if agent_version > 1:
            agent += ["--protocol", "2", "--only-v2"]
        command = [*REKINDLE, "run", "--store", tmp_path / "store", "--", *agent]
        client = Client(*command) if client_version == 1 else ClientV2(*command)
        clients.append(client)
        client.call("initialize", INITIALIZE if client_version == 1 else HELLO)
        return client

    yield start
    for client in clients:
        client.close()


def delegate(client: Client, session_id: str, words: str) -> str:
    """Start a turn, and allow the sub-agent's edit; return the sub-agent's id."""
    client.received.clear()
    client.start(session_id, words)
    asked = client.asked()
    assert asked["params"]["sessionId"] != session_id
    client.send(id=asked["id"], **selected("allow-once"))
    return asked["params"]["sessionId"]


def end_turn(client: Client, session_id: str) -> None:
    """Wait for the end of the turn of a session."""

    def is_end(message: Json) -> bool:
        params = message.get("params", {})
        update = params.get("update", {}) if params.get("sessionId") == session_id else {}
        is_idle = (
            (kind(update), update.get("state")) == ("state_update", "idle") if update else False
        )
        return is_idle or "stopReason" in message.get("result", {})

    client.until(is_end)


def of(client: Client, child: str) -> list[Json]:
    return [it for it in client.updates(child) if kind(it) != "state_update"]


def text_of(updates: list[Json]) -> str:
    parts = [it["content"] for it in updates if kind(it).startswith("agent_message")]
    blocks = [it for part in parts for it in (part if isinstance(part, list) else [part])]
    return "".join(block["text"] for block in blocks)


def states(client: Client, session_id: str, child: str) -> list[str]:
    reports = [it for it in client.updates(session_id) if kind(it) == "subagent_update"]
    return [it["state"]["state"] for it in reports if it["sessionId"] == child and "state" in it]


def replay(client: Client, session_id: str) -> None:
    client.received.clear()
    if isinstance(client, ClientV2):
        client.call("session/resume", {"sessionId": session_id, "cwd": CWD, **START})
    else:
        client.call("session/load", NEW | {"sessionId": session_id})


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"client-{pair[0]}-agent-{pair[1]}")
def test_sub_agents_are_recorded_and_replayed(connect: Open, pair: tuple[int, int]) -> None:
    client = connect(*pair)
    session_id = client.new()
    first = delegate(client, session_id, "delegate")
    end_turn(client, session_id)
    second = delegate(client, session_id, "delegate and crash")
    client.until(lambda m: "unknown" in str(m) and second in str(m))
    client.process.kill()
    client.process.wait()

    client = connect(*pair)
    replay(client, session_id)
    assert text_of(of(client, first)) == "I am on it.It is done."
    calls = [it for it in of(client, first) if kind(it).startswith("tool_call")]
    assert [call["status"] for call in calls] == ["completed"]
    assert states(client, session_id, first) == ["idle"]
    assert states(client, session_id, second) == ["unknown"]
    assert "running" not in [
        it.get("state") for child in (first, second) for it in client.updates(child)
    ]
    messages = [it for it in client.updates(session_id) if kind(it) == "session_message"]
    assert [it["content"][0]["text"] for it in messages] == [
        "Buy oat milk instead.",
        "I have edited the notes.",
        "Buy oat milk instead.",
    ]
    assert [it["recipientSessionId"] for it in messages] == [first, session_id, second]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"client-{pair[0]}-agent-{pair[1]}")
def test_a_fork_has_the_sub_agents_up_to_its_message(
    connect: Open, pair: tuple[int, int], tmp_path: Path
) -> None:
    client = connect(*pair)
    session_id = client.new()
    first = delegate(client, session_id, "delegate")
    end_turn(client, session_id)
    second = delegate(client, session_id, "delegate again")
    end_turn(client, session_id)
    replay(client, session_id)
    updates = client.updates(session_id)
    started = [kind(it) for it in updates].index("subagent_update")
    until = next(it for it in updates[started:] if kind(it).startswith("agent_message"))
    params = {"sessionId": session_id, "cwd": CWD, "mcpServers": []}
    meta = {"_meta": {"rekindle": {"messageId": until["messageId"]}}}
    forks = [client.call("session/fork", {**params, **more})["sessionId"] for more in ({}, meta)]
    for fork_id, children in zip(forks, ((first, second), (first,)), strict=True):
        replay(client, fork_id)
        copies = [f"{fork_id}.{session_id}.{child}" for child in children]
        told = [it for it in client.updates(fork_id) if kind(it) == "subagent_update"]
        assert list(dict.fromkeys(it["sessionId"] for it in told)) == copies
        assert [text_of(of(client, it)) for it in copies] == ["I am on it.It is done."] * len(
            copies
        )
        assert [states(client, fork_id, it) for it in copies] == [["idle"]] * len(copies)
        messages = [it for it in client.updates(fork_id) if kind(it) == "session_message"]
        parties = {it[f"{who}SessionId"] for it in messages for who in ("sender", "recipient")}
        assert parties == {fork_id, *copies}
        # A bundle has the copies too, and the commands show them.
        bundle, other = tmp_path / f"{fork_id}.rekindle", tmp_path / fork_id / "store"
        assert run("export", "--store", tmp_path / "store", fork_id, "-o", bundle).returncode == 0
        assert run("import", "--store", other, bundle).returncode == 0
        shown = [run("show", "--store", it, fork_id).stdout for it in (tmp_path / "store", other)]
        assert shown[0].count("It is done.") == len(copies)
        assert shown[1] == shown[0]


def test_a_client_without_sub_agents_is_asked_in_its_own_session(
    start: Callable[..., Client],
) -> None:
    client = start(*EXAMPLE_AGENT, "--protocol", "2", "--only-v2")
    client.call("initialize", {"protocolVersion": 1})
    session_id = client.new()
    turn = client.start(session_id, "delegate")
    asked = client.asked()
    assert asked["params"]["sessionId"] == session_id
    assert asked["params"]["toolCall"]["title"].startswith("Edit ")
    client.send(id=asked["id"], **selected("allow-once"))
    assert client.answer(turn)["result"] == {"stopReason": "end_turn"}
    params = [m.get("params", {}) for m in client.received]
    assert {it["sessionId"] for it in params if "sessionId" in it} == {session_id}
