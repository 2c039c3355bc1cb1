"""The newer session methods of the example agent, in both versions."""

from collections.abc import Callable
from pathlib import Path

import pytest

from stdio_client import CWD, NEW, Client, Json
from stdio_client_v2 import HELLO

Start = Callable[..., Client]
METHODS = ("session/archive", "session/unarchive", "session/set_title", "session/status")


@pytest.fixture(params=[1, 2])
def newest(request: pytest.FixtureRequest, tmp_path: Path) -> Client:
    """Return an agent with all methods, in either version."""
    start = request.getfixturevalue("agent" if request.param == 1 else "agent_v2")
    client: Client = start("--offer", "newest", "--memory", str(tmp_path))
    client.call("initialize", {"protocolVersion": 1} if request.param == 1 else HELLO)
    return client


def rows(client: Client, **params: object) -> list[tuple[str, object]]:
    sessions = client.call("session/list", params)["sessions"]
    return [(info["sessionId"], info["archived"]) for info in sessions]


def test_capabilities_announce_the_offered_methods(agent: Start) -> None:
    client = agent("--offer", "title,systemPrompt")
    answer = client.call("initialize", {"protocolVersion": 1})
    assert answer["agentCapabilities"]["sessionCapabilities"] == {
        "title": {},
        "systemPrompt": {"mode": {"override": {}}},
    }
    for method in ("session/archive", "session/unarchive", "session/status"):
        assert client.error(method, {"sessionId": "x"})[0] == -32601


def test_an_archived_session_is_hidden_and_closed(newest: Client) -> None:
    one, other = newest.new(), newest.new()
    assert newest.call("session/archive", {"sessionId": one}) == {}
    assert newest.call("session/archive", {"sessionId": one}) == {}
    assert rows(newest) == rows(newest, archived="exclude") == [(other, False)]
    assert rows(newest, archived="only", cwd=CWD) == [(one, True)]
    assert sorted(rows(newest, archived="include")) == sorted([(one, True), (other, False)])
    assert rows(newest, archived="only", cwd="/other") == []
    for value in ("bogus", 17, []):
        assert newest.error("session/list", {"archived": value})[0] == -32602
    assert newest.call("session/status", {"sessionId": one}) == {"status": "saved"}
    assert newest.call("session/unarchive", {"sessionId": one}) == {}
    assert sorted(rows(newest)) == sorted([(one, False), (other, False)])


def test_a_title_of_the_client_is_kept(newest: Client) -> None:
    session_id = newest.new()
    given = {"sessionId": session_id, "title": " My  title "}
    assert newest.call("session/set_title", given) == {"title": "My title"}
    newest.prompt(session_id, "title of the agent")
    (info,) = newest.call("session/list", {})["sessions"]
    assert info["title"] == "My title"
    for title in ("", "  ", 7, None):
        assert newest.error("session/set_title", {**given, "title": title})[0] == -32602


def test_unknown_sessions_are_not_found(newest: Client) -> None:
    for method in METHODS:
        code, data = newest.error(method, {"sessionId": "nobody", "title": "x"})
        assert (code, data) == (-32002, {"sessionId": "nobody"})


def test_the_status_of_an_open_session(agent: Start, agent_v2: Start) -> None:
    clients: list[tuple[Client, Json]] = [
        (agent("--offer", "newest"), {}),
        (agent_v2("--offer", "newest"), {"state": {"state": "idle"}}),
    ]
    for client, state in clients:
        if state:
            client.call("initialize", HELLO)
        session_id = client.new()
        status = client.call("session/status", {"sessionId": session_id})
        assert status == {"status": "open", **state}


def test_the_system_prompt_is_kept_with_the_session(newest: Client) -> None:
    prompt = {"mode": "override", "content": [{"type": "text", "text": "Be brief."}]}
    ask = "what is your system prompt?"
    session_id = newest.call("session/new", NEW | {"systemPrompt": prompt})["sessionId"]
    assert newest.reply(session_id, ask) == "My system prompt (override): Be brief."
    params = NEW | {"sessionId": session_id}
    fork_id = newest.call("session/fork", params)["sessionId"]
    assert newest.reply(fork_id, ask) == "My system prompt (override): Be brief."
    newest.call("session/close", {"sessionId": session_id})
    appended = prompt | {"mode": "append"}
    newest.call("session/resume", params | {"systemPrompt": appended})
    assert newest.reply(session_id, ask) == "My system prompt (append): Be brief."
    assert newest.reply(newest.new(), ask) == "I have no system prompt."


@pytest.mark.parametrize(
    "prompt",
    [
        {"mode": "other", "content": [{"type": "text", "text": "x"}]},
        {"mode": "append", "content": []},
        {"mode": "append", "content": [{"type": "image", "data": "", "mimeType": "image/png"}]},
        {"mode": "append", "content": [7]},
        "x",
    ],
)
def test_a_system_prompt_that_is_not_supported_creates_no_session(
    newest: Client, prompt: object
) -> None:
    assert newest.error("session/new", NEW | {"systemPrompt": prompt})[0] == -32602
    assert rows(newest) == []


def test_an_agent_without_system_prompts_refuses_them(agent: Start) -> None:
    prompt = {"mode": "append", "content": [{"type": "text", "text": "x"}]}
    client = agent("--offer", "all")
    assert client.error("session/new", NEW | {"systemPrompt": prompt})[0] == -32602
