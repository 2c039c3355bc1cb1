"""The proxy between standard streams and an agent's process."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rekindle.acp.jsonrpc import update_line
from rekindle.jsonvalue import encode
from rekindle.model import EntryBatch, Kind, LeaseHolder, Opened, Side
from rekindle.proxy.connection_state import AgentPhase, EngineSettings
from rekindle.proxy.engine import Engine
from rekindle.runtime.agent_process import AgentProcess
from rekindle.runtime.log import Log
from rekindle.runtime.recorder import Recorder
from rekindle.runtime.stdio_proxy import StdioProxy
from rekindle.store.memory import MemoryStore
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import EXAMPLE_AGENT, REKINDLE, TIMEOUT

ENTRIES = 100_000
"""The thread reads them for longer than the agent needs to exit."""

OURS = LeaseHolder(token="ours", pid=1, machine="here")  # noqa: S106 - not a password
INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'
AGENT = """
import os, sys
sys.stdin.readline()
print('{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}', flush=True)
os.close(1)
sys.stdin.read()
"""
"""Answers `initialize`, closes its output, and stays until its input ends."""


def test_an_agent_that_closes_its_output_is_asked_nothing_more(
    capfd: pytest.CaptureFixture[str],
) -> None:
    engine = Engine(EngineSettings())
    process = AgentProcess((sys.executable, "-c", AGENT), grace=1.0)
    recorder = Recorder(MemoryStore, Log())
    proxy = StdioProxy(process, engine, recorder, Log(), holder=OURS)
    proxy._agent.start(proxy._receive_from_agent, proxy._agent_event)  # noqa: SLF001
    proxy._driver.receive(proxy._client, INITIALIZE)  # noqa: SLF001
    deadline = time.monotonic() + TIMEOUT
    try:
        while engine._conn.agent.phase is not AgentPhase.SILENT:  # noqa: SLF001
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.end(1.0)
        process.wait()
        proxy._agent.drain(lambda: False)  # noqa: SLF001
        proxy._agent.exit()  # noqa: SLF001
        proxy._agent.close()  # noqa: SLF001
    assert '"protocolVersion":1' in capfd.readouterr().out


def test_a_client_receives_a_long_replay_after_it_has_closed_its_side(tmp_path: Path) -> None:
    """A thread reads the session for the second load, because it joins the first."""
    path = tmp_path / "s.db"
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
    lines = b"\n".join([update_line("s", chunk)] * ENTRIES)
    with SqliteStore(path) as store:
        entries = EntryBatch(
            session_id="s", side=Side.AGENT, kind=Kind.UPDATE, at_us=2, data=lines, count=ENTRIES
        )
        store.write([Opened(session_id="s", at_us=1, cwd="/p"), entries])
    params = {"sessionId": "s", "cwd": "/p", "mcpServers": []}
    loads = [
        encode({"id": it, "method": "session/load", "params": params}) + b"\n" for it in (2, 3)
    ]
    command = [*REKINDLE, "run", "--store", str(path), "--", *EXAMPLE_AGENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(INITIALIZE + b"\n" + loads[0])
        process.stdin.flush()
        while "result" not in (message := json.loads(process.stdout.readline())) or (
            message["id"] != 2
        ):
            pass
        process.stdin.write(loads[1])
        process.stdin.close()
        received = [json.loads(line) for line in process.stdout]
    assert "result" in next(it for it in received if it.get("id") == 3)
