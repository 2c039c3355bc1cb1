"""Imported sessions for a client: listed, loaded, and continued by any agent."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import warm_start
from claude_files import CWD, SESSION, ClaudeFile, everything
from stdio_client import EXAMPLE_AGENT, REKINDLE, TIMEOUT, Client, kind, said

Start = Callable[..., Client]
INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}
OPEN = {"sessionId": SESSION, "cwd": CWD, "mcpServers": []}


def run_import(home: Path, store: Path, *words: str | Path) -> subprocess.CompletedProcess[bytes]:
    return warm_start.run(
        [*REKINDLE, "import", "--store", store, *words],
        env={**os.environ, "HOME": str(home), "CLAUDE_CONFIG_DIR": ""},
        capture_output=True,
        timeout=TIMEOUT,
        check=True,
    )


def connect(start: Start, *agent: str | Path) -> Client:
    client = start(*(agent or EXAMPLE_AGENT))
    client.call("initialize", INITIALIZE)
    return client


def test_an_imported_session_is_handed_over_to_the_agent(
    start: Start, store_path: Path, tmp_path: Path
) -> None:
    it = ClaudeFile()
    it.user("My name is Ada.")
    it.agent("msg_1", {"type": "text", "text": "Hello, Ada."}, "end_turn")
    it.write(tmp_path)
    run_import(tmp_path, store_path, "claude")
    client = connect(start, *EXAMPLE_AGENT, "--offer", "none")
    (listed,) = client.call("session/list", {"cwd": CWD})["sessions"]
    assert listed["sessionId"] == SESSION
    assert listed["title"] == "My name is Ada."
    assert listed["_meta"]["rekindle"]["importedFrom"] == "claude"
    assert listed["_meta"]["rekindle"]["restoresNatively"] is False
    assert client.call("session/list", {"cwd": "/elsewhere"})["sessions"] == []
    client.received.clear()
    client.call("session/load", OPEN)
    updates = client.updates(SESSION)
    assert said(updates, "user_message_chunk") == "My name is Ada."
    assert said(updates) == "Hello, Ada."
    updates = client.prompt(SESSION, "what did I say first?")
    assert said(updates).endswith("You said first: My name is Ada.")
    client.end()
    # The file has not changed, and the entries recorded here stay.
    run_import(tmp_path, store_path, "claude")
    client = connect(start, *EXAMPLE_AGENT, "--offer", "none")
    client.call("session/resume", OPEN)
    assert "My name is Ada." in client.reply(SESSION, "what did I say first?")


def test_the_replay_conforms_to_the_schema(start: Start, store_path: Path, tmp_path: Path) -> None:
    everything().write(tmp_path)
    run_import(tmp_path, store_path, "claude")
    # The client validates every message with the published schemas.
    client = connect(start)
    client.call("session/load", OPEN)
    updates = client.updates(SESSION)
    assert {kind(it) for it in updates} >= {
        "user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "plan",
    }  # fmt: skip
    calls = {it["toolCallId"]: it for it in updates if kind(it) == "tool_call"}
    assert calls["toolu_4"]["content"][0]["type"] == "diff"
    assert calls["toolu_9"]["status"] == "failed"
    assert [it["messageId"] for it in updates if it.get("messageId") == "msg_10"] == ["msg_10"]


def test_an_imported_session_keeps_its_origin_in_a_bundle(store_path: Path, tmp_path: Path) -> None:
    everything().write(tmp_path)
    run_import(tmp_path, store_path, "claude")
    bundle, there = tmp_path / "b.rekindle", tmp_path / "there.db"
    export = [
        *REKINDLE,
        "export",
        "--store",
        store_path,
        "--all",
        "--format",
        "bundle",
        "-o",
        bundle,
    ]
    subprocess.run(export, check=True, timeout=TIMEOUT)
    run_import(tmp_path, there, bundle)
    done = run_import(tmp_path, there, "claude")
    assert done.stdout == b""
    assert b"1 session: 1 unchanged" in done.stderr
    show = [*REKINDLE, "list", "--store", there, "--json"]
    (session,) = json.loads(subprocess.check_output(show, timeout=TIMEOUT))
    assert session["origin"]["tool"] == "claude"
    assert len(session["origin"]["sha256"]) == 64
