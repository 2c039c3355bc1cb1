"""The proxy between standard streams and an agent's process."""

import sys
import time

import pytest

from rekindle.model import LeaseHolder
from rekindle.proxy.connection_state import AgentPhase, EngineSettings
from rekindle.proxy.engine import Engine
from rekindle.runtime.agent_process import AgentProcess
from rekindle.runtime.log import Log
from rekindle.runtime.recorder import Recorder
from rekindle.runtime.stdio_proxy import StdioProxy
from rekindle.store.memory import MemoryStore
from stdio_client import TIMEOUT

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
