"""Sessions imported from Gemini CLI for a client: listed, loaded and continued."""

import os
from collections.abc import Callable
from pathlib import Path

import warm_start
from gemini_files import CWD, SESSION, GeminiFile, everything
from stdio_client import EXAMPLE_AGENT, REKINDLE, TIMEOUT, Client, kind, said

Start = Callable[..., Client]
INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}
OPEN = {"sessionId": SESSION, "cwd": CWD, "mcpServers": []}


def run_import(home: Path, store: Path) -> str:
    done = warm_start.run(
        [*REKINDLE, "import", "--store", store, "gemini"],
        env={**os.environ, "HOME": str(home), "GEMINI_CLI_HOME": ""},
        capture_output=True,
        timeout=TIMEOUT,
        check=True,
    )
    return done.stderr.decode()


def connect(start: Start, *agent: str | Path) -> Client:
    client = start(*(agent or EXAMPLE_AGENT))
    client.call("initialize", INITIALIZE)
    return client


def test_a_gemini_session_is_handed_over_to_the_agent(
    start: Start, store_path: Path, tmp_path: Path
) -> None:
    it = GeminiFile()
    it.user("My name is Ada.")
    it.agent("Hello, Ada.")
    it.begin()
    it.write(tmp_path)
    assert "Gemini CLI: 1 session: 1 new" in run_import(tmp_path, store_path)
    client = connect(start, *EXAMPLE_AGENT, "--offer", "none")
    (listed,) = client.call("session/list", {"cwd": CWD})["sessions"]
    assert (listed["sessionId"], listed["title"]) == (SESSION, "My name is Ada.")
    assert listed["_meta"]["rekindle"]["importedFrom"] == "gemini"
    client.received.clear()
    client.call("session/load", OPEN)
    updates = client.updates(SESSION)
    assert said(updates, "user_message_chunk") == "My name is Ada."
    assert said(updates) == "Hello, Ada."
    updates = client.prompt(SESSION, "what did I say first?")
    assert said(updates).endswith("You said first: My name is Ada.")
    client.end()
    assert "Gemini CLI: 1 session: 1 unchanged" in run_import(tmp_path, store_path)


def test_the_replay_conforms_to_the_schema(start: Start, store_path: Path, tmp_path: Path) -> None:
    everything().write(tmp_path)
    run_import(tmp_path, store_path)
    # The client validates every message with the published schemas.
    client = connect(start)
    client.call("session/load", OPEN)
    updates = client.updates(SESSION)
    assert {kind(it) for it in updates} >= {
        "user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "plan",
    }  # fmt: skip
    calls = {it["toolCallId"]: it for it in updates if kind(it) == "tool_call"}
    assert calls["replace_9"]["content"][0]["type"] == "diff"
    assert calls["read_file_25"]["status"] == "failed"
