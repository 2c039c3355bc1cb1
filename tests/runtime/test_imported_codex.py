"""Sessions imported from Codex for a client: listed, loaded and continued."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import warm_start
from codex_files import CWD, SESSION, CodexFile, thread
from codex_sessions import legacy, paginated
from stdio_client import EXAMPLE_AGENT, REKINDLE, TIMEOUT, Client, kind, said

INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}


def run_import(home: Path, store: Path) -> subprocess.CompletedProcess[bytes]:
    return warm_start.run(
        [*REKINDLE, "import", "codex", "--store", store],
        env={**os.environ, "HOME": str(home), "CODEX_HOME": ""},
        capture_output=True,
        timeout=TIMEOUT,
        check=True,
    )


def test_a_codex_session_is_handed_over_to_the_agent(
    start: Callable[..., Client], store_path: Path, tmp_path: Path
) -> None:
    it = CodexFile(mode="paginated")
    it.begin(1)
    it.ask("My name is Ada.")
    it.answer("Hello, Ada.")
    it.end(1)
    it.write(tmp_path, is_compressed=True)
    put_away = CodexFile(thread(9))
    put_away.turn(1)
    put_away.write(tmp_path, is_archived=True)
    for number, file in enumerate((legacy(), paginated()), 2):
        file.thread_id = thread(number)
        file.write(tmp_path)
    assert b"Codex: 4 sessions: 4 new" in run_import(tmp_path, store_path).stderr
    # The client validates every message with the published schemas.
    client = start(*EXAMPLE_AGENT, "--offer", "none")
    client.call("initialize", INITIALIZE)
    listed = client.call("session/list", {"cwd": CWD})["sessions"]
    assert thread(9) not in {it["sessionId"] for it in listed}
    about = next(it for it in listed if it["sessionId"] == SESSION)
    assert about["title"] == "My name is Ada."
    assert about["_meta"]["rekindle"]["importedFrom"] == "codex"
    for number in (2, 3):
        client.call("session/load", {"sessionId": thread(number), "cwd": CWD, "mcpServers": []})
        assert {kind(it) for it in client.updates(thread(number))} >= {
            "user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "plan",
        }  # fmt: skip
    client.call("session/load", {"sessionId": SESSION, "cwd": CWD, "mcpServers": []})
    assert said(client.updates(SESSION)) == "Hello, Ada."
    updates = client.prompt(SESSION, "what did I say first?")
    assert said(updates).endswith("You said first: My name is Ada.")
    client.end()
    assert b"Codex: 4 sessions: 4 unchanged" in run_import(tmp_path, store_path).stderr
    # Codex has continued the session too.
    it.turn(2)
    it.write(tmp_path, is_compressed=True)
    for done in (
        "1 kept as a fork, because both copies have new turns, 3 unchanged",
        "4 unchanged",
    ):
        assert f"Codex: 4 sessions: {done}".encode() in run_import(tmp_path, store_path).stderr
    client = start(*EXAMPLE_AGENT, "--offer", "none")
    client.call("initialize", INITIALIZE)
    client.call("session/load", {"sessionId": SESSION, "cwd": CWD, "mcpServers": []})
    assert said(client.updates(SESSION)).endswith("You said first: My name is Ada.")
    listed = client.call("session/list", {"cwd": CWD})["sessions"]
    (fork,) = [it["sessionId"] for it in listed if it["sessionId"].startswith(f"{SESSION}~")]
    client.call("session/load", {"sessionId": fork, "cwd": CWD, "mcpServers": []})
    assert said(client.updates(fork)) == "Hello, Ada.Answer 2"
    client.end()
