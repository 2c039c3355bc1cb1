"""Takeovers between real processes: a stopped host, and the agent of a killed one."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle.model import Kind, LeaseHolder, Page, Session
from rekindle.process.agent_helpers import is_agent_group_gone
from rekindle.process.deadline import Deadline
from rekindle.process.group import send_signal
from rekindle.store.base import Store
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import EXAMPLE_AGENT, NEW, TIMEOUT, Client, Json

Start = Callable[..., Client]
WAITING_AGENT = Path(__file__).parents[1] / "agents" / "agent_waits_for_file.py"
WITH_CHILD = 'trap "" TERM; sleep 60 & exec "$@"'
"""A shell script: the agent has a child that ignores SIGTERM and the end of the input."""


def connect(start: Start, *command: str | Path, options: tuple[str, ...] = ()) -> Client:
    client = start(*command, options=options)
    client.call("initialize", {"protocolVersion": 1})
    return client


def holder_of(store_path: Path, session_id: str) -> LeaseHolder:
    with SqliteStore(store_path, create=False) as store:
        holder = store.lease_holder(session_id)
    assert holder is not None
    return holder


def stop(pid: int) -> None:
    """Stop a process, and wait until all of its threads have stopped."""
    os.kill(pid, signal.SIGSTOP)
    deadline, tasks = Deadline(TIMEOUT), Path(f"/proc/{pid}/task")
    while any(") T " not in (it / "stat").read_text() for it in tasks.iterdir()):
        assert not deadline.has_passed


def let_the_agent_go_on(gate: Path) -> None:
    gate.touch()
    deadline = Deadline(TIMEOUT)
    while gate.exists():
        assert not deadline.has_passed


def is_plan(message: Json) -> bool:
    return message.get("params", {}).get("update", {}).get("sessionUpdate") == "plan"


def plans(store: Store, session_id: str) -> int:
    return sum(b'"sessionUpdate":"plan"' in entry.line for entry in store.read(session_id))


def branch_of(store: Store, session_id: str) -> Session:
    (branch,) = (it for it in store.sessions(Page()) if it.parent_id == session_id)
    return branch


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_stopped_host_finds_its_session_taken_over(
    start: Start, store_path: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    stopped = connect(start, sys.executable, WAITING_AGENT, gate)
    session_id = stopped.new()
    stopped.prompt(session_id, "Hello")
    turn = stopped.start(session_id, "plan")
    stopped.until(is_plan)
    stop(stopped.process.pid)
    # The agent continues, while another process uses the session.
    let_the_agent_go_on(gate)
    other = connect(start, *EXAMPLE_AGENT, options=("--takeover",))
    other.call("session/load", NEW | {"sessionId": session_id})
    assert other.reply(session_id, "what did I say first?").endswith("You said first: Hello")

    stopped.process.send_signal(signal.SIGCONT)
    error: Json = stopped.answer(turn)["error"]
    pid = other.process.pid
    assert error["message"].startswith(
        f"another process has taken over this session (pid {pid} on "
    )
    assert error["data"]["pid"] == pid
    message = stopped.answer(stopped.start(session_id, "Still there?"))["error"]["message"]
    assert "in use by process" in message

    with SqliteStore(store_path, create=False) as store:
        branch = branch_of(store, session_id)
        assert (branch.title, branch.turns) == ("Hello (fork)", 2)
        # One update came before the takeover. The other process has no entry of ours after it.
        assert (plans(store, session_id), plans(store, branch.id)) == (1, 2)
        ours, theirs = list(store.read(branch.id)), list(store.read(session_id))
        common = sum(one == two for one, two in zip(ours, theirs, strict=False))
        assert b"Still there" not in b"".join(it.line for it in (*ours, *theirs))
        assert [it.kind for it in ours[common:]] == [Kind.UPDATE, Kind.ANSWER]
        assert b"has taken over" in ours[-1].line
        assert theirs[common].kind is Kind.SETUP
        assert store.lease_holder(session_id) == holder_of(store_path, session_id)
    assert holder_of(store_path, session_id).pid == pid
    # The former host has no lease to release, and both can go on.
    assert stopped.reply(stopped.new(), "Hello again").startswith("You said: Hello again")
    _, stderr = stopped.end()
    assert f"session {session_id} was taken over by process {pid} on " in stderr
    assert f"its further messages here are in {branch.id}" in stderr
    assert holder_of(store_path, session_id).pid == pid


def test_the_agent_of_a_killed_host_has_ended_before_the_session_continues(
    start: Start, store_path: Path
) -> None:
    agent = ("/bin/sh", "-c", WITH_CHILD, "sh", *EXAMPLE_AGENT)
    killed = connect(start, *agent, options=("--grace", "0.1"))
    session_id = killed.new()
    killed.prompt(session_id, "Hello")
    group = holder_of(store_path, session_id).agent_group
    assert not is_agent_group_gone(group)
    killed.process.kill()
    killed.process.wait()
    other = connect(start, *EXAMPLE_AGENT)
    other.call("session/load", NEW | {"sessionId": session_id})
    assert is_agent_group_gone(group)
    assert other.reply(session_id, "what did I say first?").endswith("You said first: Hello")


def test_the_holder_names_the_group_of_a_restarted_agent(start: Start, store_path: Path) -> None:
    client = connect(start, *EXAMPLE_AGENT)
    session_id = client.new()
    client.prompt(session_id, "Hello")
    first = holder_of(store_path, session_id)
    client.answer(client.start(session_id, "crash"))
    client.prompt(session_id, "Hello again")
    second = holder_of(store_path, session_id)
    assert first.token == second.token
    assert first.agent_group != second.agent_group
    assert send_signal(second.agent_group, 0)
