"""`rekindle hosts` and `rekindle stop`, with a real host."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_runs import run
from stdio_client import EXAMPLE_AGENT, REKINDLE, Client

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "json.md"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
def host(store: Path) -> Iterator[Client]:
    client = Client(*REKINDLE, "run", "--store", store, "--", *EXAMPLE_AGENT)
    params = {"protocolVersion": 1, "clientInfo": {"name": "editor", "version": "1"}}
    client.call("initialize", params)
    yield client
    client.close()


def test_hosts_are_listed_with_their_sessions_and_clients(store: Path, host: Client) -> None:
    session_id = host.new()
    host.prompt(session_id, "Hello")
    listed = run("hosts", "--store", store)
    heading, row = listed.stdout.splitlines()
    assert heading.split() == ["PID", "AGENT", "SESSIONS", "CLIENTS", "UPTIME", "MEMORY", "VERSION"]
    pid, agent, sessions, clients, *_ = row.split()
    assert (pid, agent) == (str(host.process.pid), "example-agent")
    assert (sessions, clients) == ("1", "1")


def test_json_has_documented_fields(store: Path, host: Client) -> None:
    session_id = host.new()
    host.go_slow(session_id)
    (listed,) = json.loads(run("hosts", "--store", store, "--json").stdout)
    (session,) = listed["sessions"]
    assert session["sessionId"] == session_id
    assert session["state"] == "running"
    assert session["clients"] == [{"name": "editor", "version": "1", "role": "controller"}]
    text = DOCUMENT.read_text(encoding="utf-8").partition("rekindle hosts --json")[2]
    (documented,) = json.loads(text.partition("```json\n")[2].partition("```")[0])
    assert documented.keys() == listed.keys()
    assert documented["sessions"][0].keys() == session.keys()
    assert documented["agent"].keys() == listed["agent"].keys()
    assert "1 (1 running)" in run("hosts", "--store", store).stdout


def test_a_store_without_hosts_has_none(store: Path, host: Client) -> None:
    host.prompt(host.new(), "Hello")
    host.end()
    done = run("hosts", "--store", store)
    assert (done.stdout, done.returncode) == ("", 0)
    assert "no process runs an agent now" in done.stderr
    assert run("hosts", "--store", store, "--json").stdout == "[]\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the child is stopped")
def test_a_host_that_does_not_answer_is_listed(store: Path, host: Client) -> None:
    session_id = host.new()
    host.prompt(session_id, "Hello")
    os.kill(host.process.pid, signal.SIGSTOP)
    try:
        listed = run("hosts", "--store", store).stdout
        assert f"{host.process.pid}  does not answer" in listed
        described = json.loads(run("hosts", "--store", store, "--json").stdout)
        assert described == [{"answers": False, "pid": host.process.pid}]
        attached = run("attach", "--store", store)
        assert "do not answer; see `rekindle hosts`" in attached.stderr
        done = run("stop", "--store", store, session_id)
        assert done.returncode == 1
        assert f"process {host.process.pid} on" in done.stderr
        assert "--takeover" in done.stderr
    finally:
        os.kill(host.process.pid, signal.SIGCONT)


def test_stop_cancels_the_turn_and_frees_the_session(store: Path, host: Client) -> None:
    session_id = host.new()
    host.prompt(session_id, "Hello")
    turn = host.go_slow(session_id)
    done = run("stop", "--store", store, session_id)
    assert done.returncode == 0
    assert done.stdout == f"{session_id}: stopped Hello in process {host.process.pid}\n"
    assert host.answer(turn)["result"] == {"stopReason": "cancelled"}
    again = run("stop", "--store", store, session_id)
    assert again.returncode == 0
    assert f"no process uses session {session_id}" in again.stderr
    assert "not open" in host.answer(host.start(session_id, "Hello?"))["error"]["message"]
