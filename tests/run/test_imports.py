"""What `rekindle run` imports, and when: its start is what an editor waits for."""

import json
import subprocess
import sys
from pathlib import Path

from acp import PATIENCE

OURS_BEFORE_THE_AGENT_STARTS = {
    "rekindle",
    "rekindle.cli",
    "rekindle.cli.arguments",
    "rekindle.cli.run",
    "rekindle.errors",
    "rekindle.run",
    "rekindle.run.agent",
    "rekindle.run.guard",
    "rekindle.run.log",
    "rekindle.run.patience",
    "rekindle.run.process_group",
    "rekindle.run.signals",
    "rekindle.store",
    "rekindle.store.location",
}
OURS_AFTER = {
    "rekindle.core",
    "rekindle.core.adopting",
    "rekindle.core.capabilities",
    "rekindle.core.claiming",
    "rekindle.core.closing",
    "rekindle.core.conductor",
    "rekindle.core.connection",
    "rekindle.core.cursors",
    "rekindle.core.desk",
    "rekindle.core.dialect",
    "rekindle.core.echo",
    "rekindle.core.ended",
    "rekindle.core.flow",
    "rekindle.core.forking",
    "rekindle.core.from_agent",
    "rekindle.core.from_client",
    "rekindle.core.handover",
    "rekindle.core.items",
    "rekindle.core.lifecycle",
    "rekindle.core.listing",
    "rekindle.core.masking",
    "rekindle.core.negotiating",
    "rekindle.core.opening",
    "rekindle.core.params",
    "rekindle.core.prompting",
    "rekindle.core.recording",
    "rekindle.core.relay",
    "rekindle.core.replay",
    "rekindle.core.replay_v2",
    "rekindle.core.requests",
    "rekindle.core.restart",
    "rekindle.core.restore",
    "rekindle.core.safety",
    "rekindle.core.sessions",
    "rekindle.core.step",
    "rekindle.core.streak",
    "rekindle.core.terminals",
    "rekindle.core.text_chunks",
    "rekindle.core.strict",
    "rekindle.core.times",
    "rekindle.core.titles",
    "rekindle.core.transcript",
    "rekindle.core.translate",
    "rekindle.core.translate.blocks",
    "rekindle.core.translate.commands",
    "rekindle.core.translate.diffs",
    "rekindle.core.translate.endings",
    "rekindle.core.translate.greetings",
    "rekindle.core.translate.live_calls",
    "rekindle.core.translate.live_v1",
    "rekindle.core.translate.live_v2",
    "rekindle.core.translate.options",
    "rekindle.core.translate.permissions",
    "rekindle.core.translate.plans",
    "rekindle.core.translate.servers",
    "rekindle.core.translate.tool_calls",
    "rekindle.core.written",
    "rekindle.model",
    "rekindle.run.answers",
    "rekindle.run.backlog",
    "rekindle.run.clock",
    "rekindle.run.link",
    "rekindle.run.recorder",
    "rekindle.run.runner",
    "rekindle.run.stdio",
    "rekindle.store.base",
    "rekindle.store.filelock",
    "rekindle.store.forking",
    "rekindle.store.leases",
    "rekindle.store.migrations",
    "rekindle.store.opening",
    "rekindle.store.rows",
    "rekindle.store.sqlite",
    "rekindle.store.statements",
    "rekindle.store.upkeep",
    "rekindle.store.wal",
    "rekindle.store.weeks",
    "rekindle.store.whereabouts",
    "rekindle.store.writing",
    "rekindle.wire",
    "rekindle.wire.envelope",
    "rekindle.wire.framing",
    "rekindle.wire.methods",
    "rekindle.wire.rewrite",
}
OTHERS_AFTER = {"apsw", "msgspec"}
TAKEN_BY_MSGSPEC_WHERE_INSTALLED = {"typing_extensions"}
NEVER = {"asyncio", "logging", "sqlite3", "rich", "http", "email", "socket", "ssl", "platformdirs"}

# Tells the modules present when the agent is started, and those at the end.
PROBE = """
import json, subprocess, sys
present = set(sys.modules)
start = subprocess.Popen.__init__
at_start = []
def spying(self, *args, **options):
    at_start.extend(set(sys.modules) - present)
    start(self, *args, **options)
subprocess.Popen.__init__ = spying
from rekindle.cli import main
main(["run", "--store", sys.argv[1], "--", sys.executable, "-c", ""])
json.dump([at_start, list(set(sys.modules) - present)], sys.stderr)
"""


def test_the_run_path_imports_this_and_no_more(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, tmp_path / "s.db"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    before, after = (set(names) for names in json.loads(done.stderr))
    assert {name for name in before if name.startswith("rekindle")} == OURS_BEFORE_THE_AGENT_STARTS
    assert {name for name in after - before if name.startswith("rekindle")} == OURS_AFTER
    packages = {name.partition(".")[0] for name in after}
    others = packages - sys.stdlib_module_names - TAKEN_BY_MSGSPEC_WHERE_INSTALLED - {"rekindle"}
    assert others == OTHERS_AFTER
    assert not before & OTHERS_AFTER
    assert not after & NEVER
