"""The modules that `rekindle run` imports, and when: editors wait for its start."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stdio_client import TIMEOUT

OURS_BEFORE_THE_AGENT_STARTS = {
    "rekindle",
    "rekindle.cli",
    "rekindle.cli.commands",
    "rekindle.cli.main",
    "rekindle.process",
    "rekindle.cli.arguments",
    "rekindle.cli.commands.run",
    "rekindle.configuration",
    "rekindle.configuration.location",
    "rekindle.errors",
    "rekindle.runtime",
    "rekindle.runtime.agent_process",
    "rekindle.process.orphan_guard",
    "rekindle.runtime.log",
    "rekindle.process.deadline",
    "rekindle.process.group",
    "rekindle.runtime.signals",
    "rekindle.store",
    "rekindle.store.address",
}
OURS_AFTER = {
    "rekindle.proxy.handlers.host",
    "rekindle.proxy.handlers.ask_host",
    "rekindle.proxy.handlers.attach",
    "rekindle.proxy.host_connections",
    "rekindle.proxy.host_messages",
    "rekindle.proxy.missed_updates",
    "rekindle.process.peers",
    "rekindle.runtime.local_server",
    "rekindle.runtime.long_readings",
    "rekindle.runtime.outlets",
    "rekindle.runtime.host_files",
    "rekindle.runtime.transports.pipe_writer",
    "rekindle.runtime.transports.unix_socket",
    "rekindle.proxy.handlers.passthrough",
    "rekindle.proxy.message_queues",
    "rekindle.proxy.outbox",
    "rekindle.runtime.stdio_proxy",
    "rekindle.runtime.transports.base",
    "rekindle.proxy.handlers.replay_cursor",
    "rekindle.proxy.handlers.archive_filter",
    "rekindle.proxy.handlers.placeholders",
    "rekindle.proxy.handlers.session_info",
    "rekindle.proxy.agent_choice",
    "rekindle.proxy.handlers.switch_agent",
    "rekindle.proxy.subagent_updates",
    "rekindle.proxy.subagents",
    "rekindle.acp.translate.subagents",
    "rekindle.transcript.replay_subagents",
    "rekindle.transcript.subagents",
    "rekindle.proxy.system_prompt",
    "rekindle.jsonvalue",
    "rekindle.proxy.advertising",
    "rekindle.acp.terminal_output",
    "rekindle.acp.translate.content",
    "rekindle.acp.update_kinds",
    "rekindle.proxy.handlers",
    "rekindle.text",
    "rekindle.text.redact",
    "rekindle.transcript",
    "rekindle.runtime.transports",
    "rekindle.store.sqlite",
    "rekindle.proxy",
    "rekindle.proxy.handlers.adopt",
    "rekindle.acp.capabilities",
    "rekindle.proxy.handlers.close",
    "rekindle.proxy.flow_scheduler",
    "rekindle.proxy.foreign_turns",
    "rekindle.proxy.connection_state",
    "rekindle.transcript.replay_cursor",
    "rekindle.transcript.replay_match",
    "rekindle.proxy.translation",
    "rekindle.acp.prompt_echo",
    "rekindle.proxy.flow",
    "rekindle.proxy.handlers.forget",
    "rekindle.proxy.handlers.fork",
    "rekindle.proxy.agent_messages",
    "rekindle.proxy.batches",
    "rekindle.proxy.client_messages",
    "rekindle.transcript.forks",
    "rekindle.transcript.handover",
    "rekindle.transcript.model",
    "rekindle.transcript.preface",
    "rekindle.proxy.handlers.registry",
    "rekindle.proxy.handlers.list",
    "rekindle.text.redact.recorded_command",
    "rekindle.proxy.handlers.initialize",
    "rekindle.proxy.handlers.open",
    "rekindle.proxy.validation",
    "rekindle.proxy.handlers.prompt",
    "rekindle.proxy.journal",
    "rekindle.proxy.leak_guard",
    "rekindle.proxy.engine",
    "rekindle.transcript.replay_state",
    "rekindle.transcript.replay_v1",
    "rekindle.transcript.replay_v2",
    "rekindle.proxy.echo_tracker",
    "rekindle.proxy.open_requests",
    "rekindle.proxy.peers",
    "rekindle.proxy.permissions",
    "rekindle.proxy.session_clients",
    "rekindle.acp.recorded_fields",
    "rekindle.cli.agent_command",
    "rekindle.proxy.handlers.agent_start",
    "rekindle.proxy.handlers.restore",
    "rekindle.proxy.handlers.rewind",
    "rekindle.text.sanitize",
    "rekindle.proxy.live_session",
    "rekindle.proxy.step",
    "rekindle.proxy.chunk_fast_path",
    "rekindle.transcript.terminals",
    "rekindle.transcript.truncation",
    "rekindle.transcript.item_index",
    "rekindle.acp.text_chunk",
    "rekindle.proxy.strict",
    "rekindle.text.times",
    "rekindle.transcript.titles",
    "rekindle.transcript.unused",
    "rekindle.transcript.reducer",
    "rekindle.acp.translate",
    "rekindle.acp.translate.commands",
    "rekindle.acp.translate.diff",
    "rekindle.acp.translate.endings",
    "rekindle.acp.translate.initialize",
    "rekindle.acp.translate.live_tool_calls",
    "rekindle.acp.translate.live_v1",
    "rekindle.acp.translate.live_v2",
    "rekindle.acp.translate.config",
    "rekindle.acp.translate.permissions",
    "rekindle.acp.translate.plans",
    "rekindle.acp.translate.mcp_servers",
    "rekindle.acp.translate.session_state",
    "rekindle.acp.translate.tool_calls",
    "rekindle.model",
    "rekindle.runtime.query_handler",
    "rekindle.runtime.write_buffer",
    "rekindle.runtime.clock",
    "rekindle.runtime.agent_connection",
    "rekindle.runtime.recorder",
    "rekindle.runtime.driver",
    "rekindle.runtime.transports.stdio",
    "rekindle.runtime.unused_sessions",
    "rekindle.store.base",
    "rekindle.store.fencing",
    "rekindle.composition",
    "rekindle.store.sqlite.filelock",
    "rekindle.store.sqlite.leases",
    "rekindle.store.sqlite.schema",
    "rekindle.store.sqlite.connection",
    "rekindle.store.sqlite.codec",
    "rekindle.store.sqlite.store",
    "rekindle.store.sqlite.sql",
    "rekindle.store.sqlite.backend",
    "rekindle.store.sqlite.wal",
    "rekindle.store.sqlite.files",
    "rekindle.store.sqlite.writer",
    "rekindle.acp",
    "rekindle.acp.agent_families",
    "rekindle.acp.jsonrpc",
    "rekindle.acp.framing",
    "rekindle.acp.methods",
    "rekindle.acp.rewrite",
}
OTHERS_AFTER = {"apsw", "msgspec"}
TAKEN_BY_MSGSPEC_WHERE_INSTALLED = {"typing_extensions"}
OURS_FOR_A_NAME = {"rekindle.cli.agent_lookup", "rekindle.cli.known_agents"}
OURS_FOR_A_FILE = {"rekindle.configuration.file", "rekindle.configuration.keys"}
NEVER = {"asyncio", "logging", "sqlite3", "rich", "http", "email", "ssl", "platformdirs"}

# Prints the modules that are loaded when the agent is started, and those at the end.
PROBE = """
import json, subprocess, sys
present = set(sys.modules)
start = subprocess.Popen.__init__
at_start = []
def spying(self, *args, **options):
    at_start.extend(set(sys.modules) - present)
    start(self, *args, **options)
subprocess.Popen.__init__ = spying
from rekindle.cli.main import main
main(["run", "--store", *sys.argv[1:]])
json.dump([at_start, list(set(sys.modules) - present)], sys.stderr)
"""


def imported(store: Path, *agent: str) -> tuple[set[str], set[str]]:
    """Return the modules that are imported when the agent is started, and at the end."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, store, *agent],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT,
        check=True,
    )
    before, after = (set(names) for names in json.loads(done.stderr))
    return before, after


def ours(names: set[str]) -> set[str]:
    return {name for name in names if name.startswith("rekindle")}


def test_a_name_and_a_configuration_file_import_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f"[agents.mine]\ncommand = ['{sys.executable}', '-c', '']")
    monkeypatch.setenv("REKINDLE_CONFIG", str(path))
    before, _ = imported(tmp_path / "s.db", "mine")
    assert ours(before) - OURS_BEFORE_THE_AGENT_STARTS == OURS_FOR_A_NAME | OURS_FOR_A_FILE
    assert not before & (NEVER | OTHERS_AFTER | {"difflib"})


def test_run_imports_exactly_these_modules(tmp_path: Path) -> None:
    before, after = imported(tmp_path / "s.db", "--", sys.executable, "-c", "")
    assert ours(before) == OURS_BEFORE_THE_AGENT_STARTS
    assert ours(after - before) == OURS_AFTER
    packages = {name.partition(".")[0] for name in after}
    others = packages - sys.stdlib_module_names - TAKEN_BY_MSGSPEC_WHERE_INSTALLED - {"rekindle"}
    assert others == OTHERS_AFTER
    # The socket for other processes comes last.
    assert not before & (OTHERS_AFTER | {"socket"})
    assert not after & (NEVER | {"tomllib"})
