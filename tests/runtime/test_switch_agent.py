"""An editor switches the agent of a session with a configuration option."""

import json
import shlex
from pathlib import Path

import pytest

from stdio_client import CWD, EXAMPLE_AGENT, NEW, REKINDLE, Client, Json, said
from stdio_client_v2 import HELLO, ClientV2


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure two agents: one of version 1, and one of version 2 that names itself otherwise."""
    first, second = (tmp_path / name for name in ("first", "second"))
    words = " ".join(shlex.quote(str(word)) for word in EXAMPLE_AGENT)
    first.write_text(f"#!/bin/sh\nexec {words}\n")
    rename = "sed -u 's/example-agent/another-agent/'"
    second.write_text(f"#!/bin/sh\n{words} --protocol 2 --only-v2 | {rename}\n")
    for script in (first, second):
        script.chmod(0o755)
    sections = [
        f"[agents.{it.name}]\ncommand = [{json.dumps(str(it))}]\n" for it in (first, second)
    ]
    (tmp_path / "config.toml").write_text("\n".join(sections))
    monkeypatch.setenv("REKINDLE_CONFIG", str(tmp_path / "config.toml"))


@pytest.mark.usefixtures("configured")
def test_another_agent_continues_the_session(tmp_path: Path) -> None:
    client = Client(*REKINDLE, "run", "--store", tmp_path / "store", "--agent-option", "first")
    try:
        client.call("initialize", {"protocolVersion": 1})
        opened = client.call("session/new", {"cwd": CWD, "mcpServers": []})
        session_id = opened["sessionId"]
        (option,) = [it for it in opened["configOptions"] if it.get("category") == "agent"]
        assert option["currentValue"] == "first"
        assert {"first", "second"} <= {it["value"] for it in option["options"]}
        client.prompt(session_id, "My name is Ada.")
        params = {"sessionId": session_id, "configId": option["id"], "value": "second"}
        switched = client.call("session/set_config_option", params)
        assert switched["configOptions"][-1]["currentValue"] == "second"
        answer = client.prompt(session_id, "what did I say first?")
        assert said(answer).endswith("You said first: My name is Ada.")
        assert "Rekindle sent it the history" in said(answer)
        # And back again.
        client.call("session/set_config_option", {**params, "value": "first"})
        assert said(client.prompt(session_id, "how many prompts")).endswith(
            "2 prompts before this one."
        )
        loaded = client.call("session/load", NEW | {"sessionId": session_id})
        assert loaded["configOptions"][-1]["currentValue"] == "first"
    finally:
        client.close()


def ask(client: Client, session_id: str) -> list[Json]:
    """Run a turn; return its updates. The options of a new agent may come before the prompt."""
    if not isinstance(client, ClientV2):
        return client.prompt(session_id, "what did I say first?")
    client.received.clear()
    client.insert(session_id, "what did I say first?")
    client.state(session_id, "idle")
    return client.updates(session_id)


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize("version", [1, 2])
def test_all_open_sessions_continue_with_the_new_agent(tmp_path: Path, version: int) -> None:
    command = (*REKINDLE, "run", "--store", tmp_path / "store", "--agent-option", "first")
    client = Client(*command) if version == 1 else ClientV2(*command)
    try:
        client.call("initialize", {"protocolVersion": 1} if version == 1 else HELLO)
        names = {client.new(): name for name in ("Ada", "Grace", "Alan")}
        for session_id, name in names.items():
            client.prompt(session_id, f"My name is {name}.")
        here, other, closed = names
        client.call("session/close", {"sessionId": closed})
        for agent in ("second", "first"):
            # Each time in another session: the switch is the same for both.
            chosen, beside = (here, other) if agent == "second" else (other, here)
            params = {"sessionId": chosen, "configId": "rekindle_agent", "value": agent}
            client.received.clear()
            switched = client.call("session/set_config_option", params)
            (update,) = client.updates(beside)
            for options in (switched, update):
                assert options["configOptions"][-1]["currentValue"] == agent
            for session_id in (beside, chosen):
                answer = ask(client, session_id)
                assert f"You said first: My name is {names[session_id]}." in said(answer)
                assert "another agent continues this session" in said(answer)
        # The first agent still knows this session by itself.
        reopened = {"sessionId": closed, "cwd": CWD, "mcpServers": []}
        client.call("session/resume", reopened)
        answer = ask(client, closed)
        assert "You said first: My name is Alan." in said(answer)
        assert "another agent" not in said(answer)
    finally:
        client.close()


@pytest.mark.usefixtures("configured")
def test_the_option_is_not_offered_by_default(tmp_path: Path) -> None:
    client = Client(*REKINDLE, "run", "--store", tmp_path / "store", "first")
    try:
        client.call("initialize", {"protocolVersion": 1})
        assert "configOptions" not in client.call("session/new", {"cwd": CWD, "mcpServers": []})
    finally:
        client.close()
