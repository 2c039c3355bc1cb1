"""`rekindle run` with the example agent: the messages to the editor, and the record."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle.model import Entry, Kind, Page
from rekindle.store.sqlite.store import SqliteStore
from rekindle.transcript.model import Role, TranscriptMessage
from rekindle.transcript.reducer import fold
from stdio_client import EXAMPLE_AGENT, NEW, Client, selected

Start = Callable[..., Client]
IMITATIONS = Path(__file__).parents[1] / "agents" / "agent_imitations.py"


def entries(path: Path, session_id: str) -> list[Entry]:
    with SqliteStore(path, create=False) as store:
        return list(store.read(session_id))


def test_a_conversation_is_recorded_as_on_the_wire(start: Start, store_path: Path) -> None:
    client = start(*EXAMPLE_AGENT)
    client.call("initialize", {"protocolVersion": 1})
    session_id = client.new()
    turn = client.start(session_id, "think, plan, edit, title")
    client.send(id=client.asked()["id"], **selected("allow-once"))
    client.answer(turn)
    assert client.end() == (0, "")

    received = [message for message in client.received if message.get("method") == "session/update"]
    recorded = entries(store_path, session_id)
    updates = [json.loads(entry.line) for entry in recorded if entry.kind is Kind.UPDATE]
    assert updates == received
    kinds = [entry.kind for entry in recorded]
    assert kinds[:2] == [Kind.SETUP, Kind.READY]
    assert [kinds.count(kind) for kind in (Kind.PROMPT, Kind.PERMISSION, Kind.OUTCOME)] == [1, 1, 1]
    assert kinds[-1] is Kind.ANSWER

    with SqliteStore(store_path) as store:
        (session,) = store.sessions(Page())
    assert (session.id, session.cwd, session.turns) == (session_id, NEW["cwd"], 1)
    assert (session.agent.name, session.agent.command[-1]) == ("example-agent", "example-agent")
    assert session.title_source == "agent"


def test_an_echoed_prompt_is_recorded_once(start: Start, store_path: Path) -> None:
    client = start(*EXAMPLE_AGENT, "--echo")
    session_id = client.new()
    client.prompt(session_id, "hello there")
    assert "user_message_chunk" in json.dumps(client.received)
    client.end()
    (turn,) = fold(entries(store_path, session_id)).turns
    users = [
        item
        for item in turn.items
        if isinstance(item, TranscriptMessage) and item.role is Role.USER
    ]
    assert [user.text for user in users] == ["hello there"]


def test_updates_before_the_answer_to_new_are_held_back(start: Start, store_path: Path) -> None:
    client = start(*EXAMPLE_AGENT, "--early-updates")
    session_id = client.new()
    told = client.receive()["params"]["update"]
    assert told["sessionUpdate"] == "available_commands_update"
    assert [entry.kind for entry in entries(store_path, session_id)] == [
        Kind.SETUP,
        Kind.READY,
        Kind.UPDATE,
    ]


def test_a_replay_is_not_recorded_again(start: Start, store_path: Path, tmp_path: Path) -> None:
    agent = (*EXAMPLE_AGENT, "--offer", "load", "--memory", tmp_path / "memory")
    client = start(*agent)
    session_id = client.new()
    client.prompt(session_id, "remember this")
    client.end()
    before = fold(entries(store_path, session_id)).turns

    client = start(*agent)
    client.call("session/load", NEW | {"sessionId": session_id})
    assert "remember this" in json.dumps(client.received)
    client.prompt(session_id, "and this")
    client.end()
    first, second = fold(entries(store_path, session_id)).turns
    first.precedes_opening = False
    assert [first] == before
    assert second.number == 2


def test_an_unrecorded_session_is_recorded_from_its_replay(
    start: Start, store_path: Path, tmp_path: Path
) -> None:
    agent = (*EXAMPLE_AGENT, "--offer", "load", "--memory", str(tmp_path / "memory"))
    bare = Client(*agent)
    session_id = bare.new()
    bare.prompt(session_id, "made before Rekindle")
    bare.end()
    bare.close()

    client = start(*agent)
    client.call("initialize", {"protocolVersion": 1})
    client.call("session/load", NEW | {"sessionId": session_id})
    client.end()
    (turn,) = fold(entries(store_path, session_id)).turns
    assert isinstance(turn.items[0], TranscriptMessage)
    assert turn.items[0].text == "made before Rekindle"


def test_secrets_are_not_stored(start: Start, store_path: Path) -> None:
    secret = "hunter2-hunter2"  # noqa: S105 - that is the point
    server = {
        "name": "db",
        "command": "/bin/false",
        "args": ["--token", secret],
        "env": [{"name": "KEY", "value": secret}],
    }
    web = {
        "type": "http",
        "name": "w",
        "url": "https://x.invalid",
        "headers": [{"name": "Authorization", "value": secret}],
    }
    client = start(*EXAMPLE_AGENT)
    client.request("authenticate", {"methodId": "x", "_meta": {"key": secret}})
    session_id = client.call("session/new", NEW | {"mcpServers": [server, web]})["sessionId"]
    client.prompt(session_id, "hello")
    client.process.kill()
    client.process.wait()
    files = [file for file in store_path.parent.rglob("*") if file.is_file()]
    assert store_path in files
    for file in files:
        assert secret.encode() not in file.read_bytes()


def test_many_processes_can_share_one_store(start: Start, store_path: Path) -> None:
    clients = [start(*EXAMPLE_AGENT) for _ in range(8)]
    sessions = [client.new() for client in clients]
    turns = [
        client.start(session_id, "count to 2000")
        for client, session_id in zip(clients, sessions, strict=True)
    ]
    for client, turn in zip(clients, turns, strict=True):
        client.answer(turn)
    assert [client.end() for client in clients] == [(0, "")] * 8
    for client, session_id in zip(clients, sessions, strict=True):
        received = [m for m in client.received if m.get("method") == "session/update"]
        recorded = [e for e in entries(store_path, session_id) if e.kind is Kind.UPDATE]
        assert len(recorded) > 2000
        updates = [json.loads(entry.line) for entry in recorded]
        assert updates == received


def test_updates_under_the_id_of_another_session_are_not_recorded(
    start: Start, store_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "memory").mkdir()
    client = start(sys.executable, IMITATIONS, "droid", tmp_path / "memory")
    sessions = [client.new() for _ in range(3)]
    for prompted in (sessions[1], sessions[0]):
        client.prompt(prompted, "hello there")
    turns = {it: fold(entries(store_path, it)).turns for it in sessions}
    status, reported = client.end()
    assert status == 0
    assert reported.count("under the id of another") == 1
    assert [len(turns[it]) for it in sessions] == [1, 1, 0]
    one, other = (turns[it][0].items for it in sessions[:2])
    assert [type(it) for it in one] == [type(it) for it in other]
    assert client.updates(sessions[2]) == []


@pytest.mark.parametrize("with_log", [True, False])
def test_the_log_has_events_and_no_content(start: Start, tmp_path: Path, *, with_log: bool) -> None:
    log = tmp_path / "run.log"
    client = start(*EXAMPLE_AGENT, options=("--log", log) if with_log else ())
    client.prompt(client.new(), "private words")
    client.end()
    assert log.exists() is with_log
    if with_log:
        words = log.read_text()
        assert "started agent" in words
        assert "private" not in words
        assert log.stat().st_mode & 0o777 == 0o600
