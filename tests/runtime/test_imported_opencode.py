"""Sessions imported from OpenCode for a client: listed, loaded and continued."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import warm_start
from opencode_files import CWD, SESSION, OpenCode, everything, open_database, said
from stdio_client import EXAMPLE_AGENT, REKINDLE, TIMEOUT, Client, kind, said as heard

Start = Callable[..., Client]
OPEN = {"sessionId": SESSION, "cwd": CWD, "mcpServers": []}


def run_import(data: Path, store: Path) -> subprocess.CompletedProcess[bytes]:
    return warm_start.run(
        [*REKINDLE, "import", "opencode", "--store", store],
        env={**os.environ, "XDG_DATA_HOME": str(data), "OPENCODE_DB": ""},
        capture_output=True,
        timeout=TIMEOUT,
        check=True,
    )


def connect(start: Start, *agent: str) -> Client:
    client = start(*EXAMPLE_AGENT, *agent)
    client.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    return client


def test_an_opencode_session_is_handed_over_to_the_agent(
    start: Start, store_path: Path, tmp_path: Path
) -> None:
    it = OpenCode(title="Names")
    it.user(said("My name is Ada."))
    it.agent(said("Hello, Ada."))
    # OpenCode is still running.
    db = open_database(tmp_path / "opencode" / "opencode.db")
    it.into(db)
    assert b"1 session: 1 new" in run_import(tmp_path, store_path).stderr
    client = connect(start, "--offer", "none")
    (listed,) = client.call("session/list", {"cwd": CWD})["sessions"]
    assert (listed["sessionId"], listed["title"]) == (SESSION, "Names")
    assert listed["_meta"]["rekindle"]["importedFrom"] == "opencode"
    client.received.clear()
    client.call("session/load", OPEN)
    updates = client.updates(SESSION)
    assert heard(updates, "user_message_chunk") == "My name is Ada."
    assert heard(updates) == "Hello, Ada."
    updates = client.prompt(SESSION, "what did I say first?")
    assert heard(updates).endswith("You said first: My name is Ada.")
    client.end()
    assert b"1 session: 1 unchanged" in run_import(tmp_path, store_path).stderr
    # OpenCode has continued the session too.
    it.turn(2)
    it.into(db)
    for done in (b"1 kept as a fork, because both copies have new turns", b"1 unchanged"):
        assert b"OpenCode: 1 session: %b\n" % done in run_import(tmp_path, store_path).stderr
    client = connect(start, "--offer", "none")
    listed = client.call("session/list", {"cwd": CWD})["sessions"]
    (fork,) = [it["sessionId"] for it in listed if it["sessionId"] != SESSION]
    client.call("session/load", {**OPEN, "sessionId": fork})
    assert heard(client.updates(fork)) == "Hello, Ada.Answer 2"
    client.call("session/load", OPEN)
    assert heard(client.updates(SESSION)).endswith("You said first: My name is Ada.")
    client.end()
    db.close()


def test_the_replay_conforms_to_the_schema(start: Start, store_path: Path, tmp_path: Path) -> None:
    everything().to_database(tmp_path / "opencode" / "opencode.db")
    run_import(tmp_path, store_path)
    # The client validates every message with the published schemas.
    client = connect(start)
    client.call("session/load", OPEN)
    updates = client.updates(SESSION)
    assert {kind(it) for it in updates} >= {
        "user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "plan",
    }  # fmt: skip
    calls = {it["toolCallId"]: it for it in updates if kind(it) == "tool_call"}
    assert calls["call_edit"]["content"][0]["type"] == "diff"
    assert calls["failed_edit"]["status"] == "failed"
