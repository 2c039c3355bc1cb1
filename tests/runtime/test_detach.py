"""Turns that outlive the client: `rekindle run --detach` between real processes."""

import json
import os
import pty
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rekindle.process.detach import DetachedProcess
from rekindle.runtime.detachment import MAX_DETACHED_HOSTS, Detachment
from rekindle.runtime.host_requests import hosts_of
from rekindle.store.address import StoreAddress, requested_address
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import EXAMPLE_AGENT, NEW, REKINDLE, TIMEOUT, Client, Json, is_running, said
from warm_start import run

Start = Callable[..., Client]
YES = {"outcome": {"outcome": "selected", "optionId": "allow-once"}}
SLOW = ("--delay", "0.05")


@pytest.fixture
def address(store_path: Path) -> Iterator[StoreAddress]:
    """Return the store; in the end, kill the hosts that a failed test has left."""
    address = requested_address(str(store_path))
    assert address is not None
    yield address
    for host in hosts_of(address):
        with suppress(ProcessLookupError, TypeError):
            os.kill((host.status or {})["pid"], signal.SIGKILL)


def connect(start: Start, *agent: str, options: tuple[str, ...] = ("--detach",)) -> Client:
    client = start(*EXAMPLE_AGENT, *agent, options=options)
    client.call("initialize", {"protocolVersion": 1})
    return client


def host_of(address: StoreAddress, session_id: str) -> int:
    """Return the process that has the lease of a session."""
    with SqliteStore(Path(address.location), create=False) as store:
        holder = store.lease_holder(session_id)
    assert holder is not None
    return holder.pid


def wait_for_end(pid: int) -> None:
    """Wait until a process has ended. It may be a zombie that no process reaps."""
    with suppress(ProcessLookupError):
        fd = os.pidfd_open(pid)
        try:
            assert select.select([fd], [], [], TIMEOUT)[0], "the host is still there"
        finally:
            os.close(fd)


def begin_turn(client: Client, session_id: str, text: str) -> int:
    """Start a turn; return when the agent has begun to answer."""
    turn = client.start(session_id, text)
    client.until(lambda m: "agent_message_chunk" in json.dumps(m))
    return turn


def recorded_text(address: StoreAddress, session_id: str) -> str:
    """Return the text of the agent in the record."""
    with SqliteStore(Path(address.location), create=False) as store:
        return b"".join(it.line for it in store.read(session_id)).decode()


def descendants(pid: int) -> set[int]:
    """Return the descendants of a process, as an editor finds them that ends all of them."""
    stats = [it.read_text(errors="replace") for it in Path("/proc").glob("[0-9]*/stat")]
    parents = {int(it.split()[0]): int(it.rpartition(")")[2].split()[1]) for it in stats}
    found: set[int] = set()
    while more := {it for it, parent in parents.items() if parent in {pid, *found}} - found:
        found |= more
    return found


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="waits with pidfd_open")


@pytest.mark.parametrize("way", ["kill all descendants", "close the pipes"])
def test_a_turn_ends_without_its_editor(start: Start, address: StoreAddress, way: str) -> None:
    editor = connect(start, *SLOW)
    session_id = editor.new()
    begin_turn(editor, session_id, "count to 20")
    host = host_of(address, session_id)
    if way == "close the pipes":
        assert editor.end() == (0, "")
    else:
        for pid in (editor.process.pid, *descendants(editor.process.pid)):
            os.kill(pid, signal.SIGKILL)
        assert host not in descendants(os.getpid())
        editor.process.wait(TIMEOUT)
    while editor.next_line():
        # The host closes the pipes of the editor.
        pass
    (found,) = hosts_of(address)
    assert found.status is not None
    assert (found.status["pid"], found.status["detached"]) == (host, True)
    wait_for_end(host)
    # Nothing of it is left.
    assert not list(Path(f"{address.location}.hosts").iterdir())
    later = connect(start, options=())
    later.call("session/load", NEW | {"sessionId": session_id})
    replayed = said(later.updates(session_id))
    assert [it for it in range(1, 21) if str(it) not in replayed] == []
    assert "stopReason" in recorded_text(address, session_id)


def test_the_next_client_receives_the_rest_of_the_turn(start: Start, address: StoreAddress) -> None:
    editor = connect(start, *SLOW)
    session_id = editor.new()
    begin_turn(editor, session_id, "count to 40")
    editor.close()
    later = connect(start)
    opened = later.call("session/load", NEW | {"sessionId": session_id})
    assert opened["_meta"]["rekindle"]["turn"] == {"state": "running"}
    later.until(lambda m: '"state": "idle"' in json.dumps(m))
    text = said(later.updates(session_id))
    assert [it for it in range(1, 41) if str(it) not in text] == []
    host = host_of(address, session_id)
    assert "You said: Hello" in later.reply(session_id, "Hello")
    later.close()
    wait_for_end(host)


def test_a_close_in_mid_turn_detaches(start: Start, address: StoreAddress) -> None:
    editor = connect(start, *SLOW)
    session_id = editor.new()
    turn = begin_turn(editor, session_id, "count to 20")
    editor.send(id="close", method="session/close", params={"sessionId": session_id})
    assert editor.answer(turn)["result"] == {"stopReason": "cancelled"}
    assert editor.answer("close")["result"] == {}
    opened = editor.call("session/load", NEW | {"sessionId": session_id})
    assert opened["_meta"]["rekindle"]["turn"] == {"state": "running"}
    editor.until(lambda m: '"state": "idle"' in json.dumps(m))
    assert '"stopReason":"cancelled"' not in recorded_text(address, session_id)
    assert editor.end()[0] == 0


def test_a_pending_permission_waits_for_the_next_client(
    start: Start, address: StoreAddress
) -> None:
    editor = connect(start)
    session_id = editor.new()
    editor.start(session_id, "edit")
    editor.asked()
    editor.close()
    later = connect(start)
    opened = later.call("session/load", NEW | {"sessionId": session_id})
    assert opened["_meta"]["rekindle"]["turn"] == {"state": "requires_action"}
    request = later.asked()
    later.send(id=request["id"], result=YES)
    later.until(lambda m: '"state": "idle"' in json.dumps(m))
    assert "allow-once" in recorded_text(address, session_id)
    later.close()


def test_a_turn_that_waits_too_long_is_cancelled(start: Start, address: StoreAddress) -> None:
    editor = connect(start, options=("--detach=1s",))
    session_id = editor.new()
    editor.start(session_id, "edit")
    editor.asked()
    host = host_of(address, session_id)
    editor.close()
    wait_for_end(host)
    recorded = recorded_text(address, session_id)
    assert '"outcome":{"outcome":"cancelled"}' in recorded
    assert '"stopReason":"cancelled"' in recorded
    assert "allow-once" not in recorded.replace('"optionId":"allow-once"', "")


def test_an_idle_host_ends_with_its_client(start: Start, address: StoreAddress) -> None:
    editor = connect(start)
    session_id = editor.new()
    editor.prompt(session_id, "Hello")
    host = host_of(address, session_id)
    assert editor.end() == (0, "")
    wait_for_end(host)
    with SqliteStore(Path(address.location), create=False) as store:
        assert store.lease_holder(session_id) is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_an_idle_host_and_detaches_a_busy_one(
    start: Start, address: StoreAddress, number: signal.Signals
) -> None:
    idle, busy = connect(start), connect(start, *SLOW)
    idle_host = host_of(address, idle.new())
    session_id = busy.new()
    busy_host = host_of(address, session_id)
    begin_turn(busy, session_id, "count to 20")
    for client in (idle, busy):
        client.process.send_signal(number)
    assert busy.end(hang_up=False) == (0, "")
    assert idle.end(hang_up=False)[0] in {0, 128 + number}
    assert not is_running(idle_host)
    wait_for_end(busy_host)
    assert "stopReason" in recorded_text(address, session_id)


def test_ctrl_c_reaches_the_agent(start: Start) -> None:
    code = (
        "import signal, sys; signal.signal(2, lambda *_: print('{}') or sys.exit(7));"
        "print('ready'); input()"
    )
    client = start(sys.executable, "-uc", code, options=("--detach",))
    assert client.next_line() == b"ready\n"
    client.process.send_signal(signal.SIGINT)
    assert client.next_line() == b"{}\n"
    assert client.end(hang_up=False)[0] == 7


def test_an_agent_that_does_not_start_is_reported(start: Start) -> None:
    client = start("/does/not/exist", options=("--detach",))
    code, stderr = client.end()
    assert code == 127
    assert "command not found: /does/not/exist" in stderr


def test_the_agent_is_offered_no_tools_of_the_client(start: Start) -> None:
    echo = (
        "import json, sys\n"
        "line = json.loads(input())\n"
        "print(json.dumps({'jsonrpc': '2.0', 'id': line['id'], 'result': {'protocolVersion': 1,"
        " '_meta': line['params']}}), flush=True)\n"
        "sys.stdin.read()"
    )
    client = start(sys.executable, "-c", echo, options=("--detach",))
    tools = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    result = client.call("initialize", {"protocolVersion": 1, "clientCapabilities": tools})
    offered: Json = result["_meta"]["clientCapabilities"]
    assert not offered.get("terminal")
    assert not any((offered.get("fs") or {}).values())


def test_a_terminal_is_refused(store_path: Path) -> None:
    master, slave = pty.openpty()
    command = [*REKINDLE, "run", "--store", store_path, "--detach", "--", *EXAMPLE_AGENT]
    done = run(command, stdin=slave, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    os.close(master)
    os.close(slave)
    assert done.returncode == 2
    assert "--detach needs a client on standard input" in done.stderr


@pytest.mark.parametrize("words", [("--detach=soon",), ("--detach=0h",)])
def test_a_wrong_duration_is_refused(store_path: Path, words: tuple[str, ...]) -> None:
    command = [*REKINDLE, "run", "--store", store_path, *words, "--", *EXAMPLE_AGENT]
    done = run(command, input="", capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 2
    assert "not a duration" in done.stderr


def test_the_number_of_detached_hosts_is_bounded(tmp_path: Path) -> None:
    read, write = os.pipe()
    process = DetachedProcess(read, write)
    counts = iter([MAX_DETACHED_HOSTS - 1, MAX_DETACHED_HOSTS])
    detachment = Detachment(process, wait=1, log_path=tmp_path / "log", count=lambda: next(counts))
    assert detachment.is_allowed()
    assert not detachment.is_allowed()
    process.release()
    os.close(read)
