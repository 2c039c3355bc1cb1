"""Sessions recorded with real agents, and runs of the command line without a terminal."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import warm_start
from rekindle.model import AgentIdentity, Opened
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import EXAMPLE_AGENT, REKINDLE, TIMEOUT, Client

STOPPING = (
    sys.executable,
    str(Path(__file__).parents[1] / "agents" / "agent_chosen_stop_reason.py"),
)
HARMFUL = ("\x1b]", "\x1b[2J", "\x9b", "\x07")
"""Sequences of an agent that must not reach a terminal."""


def record(store: Path, cwd: Path, *prompts: str, agent: tuple[str, ...] = EXAMPLE_AGENT) -> str:
    """Record a session in a folder; return its id.

    Without prompts, Rekindle is killed: at a clean end it forgets a session that was never used.
    """
    client = Client(*REKINDLE, "run", "--store", store, "--", *agent)
    client.call("initialize", {"protocolVersion": 1})
    session_id = client.new(str(cwd))
    for prompt in prompts:
        client.prompt(session_id, prompt)
    if prompts:
        client.end()
    else:
        client.process.kill()
        client.process.wait()
    client.close()
    return session_id


def alter(store: Path, session_id: str, *command: str, cwd: str | None = None) -> None:
    """Change the recorded command or folder of a session."""
    agent = AgentIdentity(name="other", command=command)
    with SqliteStore(store) as opened:
        opened.write([Opened(session_id=session_id, at_us=1, agent=agent, cwd=cwd)])


def cli(
    *arguments: str | Path, stdin: str = "", cwd: Path | None = None, **environ: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return warm_start.run(
        [*REKINDLE, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        cwd=cwd,
        env=os.environ | environ,
    )


def install(folder: Path, *programs: str) -> Path:
    """Write programs that start the example agent, whatever their arguments; return the folder."""
    folder.mkdir(exist_ok=True)
    for name in programs:
        program = folder / name
        program.write_text(f"#!/bin/sh\nexec {shlex.join(EXAMPLE_AGENT)}\n")
        program.chmod(0o700)
    return folder
