"""What Gemini CLI has on record, as a client has it: listed, loaded, and gone on with."""

import os
from collections.abc import Callable
from pathlib import Path

import warm_start
from gemini_files import CWD, SESSION, GeminiFile, everything
from stdio_client import EXAMPLE_AGENT, PATIENCE, REKINDLE, Client, kind, said

Start = Callable[..., Client]
INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}
OPEN = {"sessionId": SESSION, "cwd": CWD, "mcpServers": []}


def imports(home: Path, store: Path) -> str:
    done = warm_start.run(
        [*REKINDLE, "import", "--store", store, "gemini"],
        env={**os.environ, "HOME": str(home), "GEMINI_CLI_HOME": ""},
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    return done.stderr.decode()


def connect(start: Start, *agent: str | Path) -> Client:
    client = start(*(agent or EXAMPLE_AGENT))
    client.call("initialize", INITIALIZE)
    return client


def test_an_agent_is_handed_what_gemini_cli_has_buried(
    start: Start, store_path: Path, tmp_path: Path
) -> None:
    it = GeminiFile()
    it.user("My name is Ada.")
    it.agent("Hello, Ada.")
    it.begin()
    it.write(tmp_path)
    assert "Gemini CLI: 1 session: 1 new" in imports(tmp_path, store_path)
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
    assert "Gemini CLI: 1 session: 1 unchanged" in imports(tmp_path, store_path)


def test_all_of_it_is_replayed_as_the_protocol_wants_it(
    start: Start, store_path: Path, tmp_path: Path
) -> None:
    everything().write(tmp_path)
    imports(tmp_path, store_path)
    # The client judges every message by the published schemas.
    client = connect(start)
    client.call("session/load", OPEN)
    updates = client.updates(SESSION)
    assert {kind(it) for it in updates} >= {
        "user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "plan",
    }  # fmt: skip
    calls = {it["toolCallId"]: it for it in updates if kind(it) == "tool_call"}
    assert calls["replace_9"]["content"][0]["type"] == "diff"
    assert calls["read_file_25"]["status"] == "failed"
