"""Clients of several real processes use one session."""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle.process.deadline import Deadline
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import EXAMPLE_AGENT, NEW, TIMEOUT, Client, Json, said

Start = Callable[..., Client]
YES = {"outcome": {"outcome": "selected", "optionId": "allow"}}


def connect(start: Start, *agent_options: str, version: int = 1) -> Client:
    client = start(*EXAMPLE_AGENT, *agent_options)
    params: Json = {"protocolVersion": version}
    if version > 1:
        params["info"] = {"name": "client", "version": "1"}
    client.call("initialize", params)
    return client


def attach(start: Start, session_id: str, *agent_options: str, **ours: object) -> Client:
    client = connect(start, *agent_options)
    meta = {"_meta": {"rekindle": ours}}
    opened = client.call("session/load", NEW | {"sessionId": session_id} | meta)
    assert opened["_meta"]["rekindle"]["restored"] == "live"
    return client


def until_idle(client: Client) -> Json:
    """Return the update that reports the end of another client's turn."""

    def is_idle(message: Json) -> bool:
        update = message.get("params", {}).get("update", {})
        turn = update.get("_meta", {}).get("rekindle", {}).get("turn", {})
        return turn.get("state") == "idle"

    return client.until(is_idle)


def test_both_clients_see_the_prompts_and_answers_of_each_other(start: Start) -> None:
    first = connect(start)
    session_id = first.new()
    first.prompt(session_id, "Hello")
    second = attach(start, session_id)
    for client, other, text in ((second, first, "From the second"), (first, second, "Back")):
        other.received.clear()
        answer = client.reply(session_id, text)
        until_idle(other)
        updates = other.updates(session_id)
        assert said(updates, "user_message_chunk") == text
        assert said(updates) == answer


def test_a_version_2_client_shares_the_session_of_a_version_1_client(start: Start) -> None:
    first = connect(start)
    session_id = first.new()
    first.prompt(session_id, "Hello")
    second = connect(start, version=2)
    opening = {"sessionId": session_id, "cwd": NEW["cwd"], "replayFrom": {"type": "start"}}
    second.call("session/resume", opening)
    texts = [it for it in second.updates(session_id) if it["sessionUpdate"] == "agent_message"]
    assert "You said: Hello" in texts[0]["content"][0]["text"]
    second.received.clear()
    first.prompt(session_id, "Again")
    second.until(lambda m: m.get("params", {}).get("update", {}).get("stopReason") == "end_turn")


def test_a_killed_host_is_replaced_and_nothing_that_was_seen_is_lost(
    start: Start, store_path: Path
) -> None:
    host = connect(start, "--delay", "0.01")
    session_id = host.new()
    host.prompt(session_id, "Hello")
    other = attach(start, session_id, "--delay", "0.01")
    other.received.clear()
    turn = other.start(session_id, "count to 200")
    while len(said(other.updates(session_id))) < 20:
        other.receive()
    host.process.kill()
    error = other.answer(turn)["error"]
    assert error["data"] == {"agentEnded": True}
    seen = said(other.updates(session_id))
    with SqliteStore(store_path, create=False) as store:
        holder = store.lease_holder(session_id)
        assert holder is not None
        assert holder.pid == other.process.pid
        lines = b"".join(it.line for it in store.read(session_id))
    reader = connect(start)
    reader.call("session/load", NEW | {"sessionId": session_id})
    assert said(reader.updates(session_id)).endswith(seen)
    assert lines.count(b"count to 200") == 1
    reply = other.reply(session_id, "what did I say first?")
    assert reply.endswith("You said first: Hello")


def test_of_several_attached_clients_one_continues_and_the_others_follow(start: Start) -> None:
    host = connect(start)
    session_id = host.new()
    host.prompt(session_id, "Hello")
    others = [attach(start, session_id) for _ in range(3)]
    host.process.kill()
    for client in others:
        until_idle(client)
    for number, client in enumerate(others):
        answer = client.reply(session_id, f"This is turn {number}")
        assert f"turn {number}" in answer
        for other in others:
            while other is not client and answer not in said(other.updates(session_id)):
                other.receive()
    reply = others[0].reply(session_id, "what did I say first?")
    assert reply.endswith("You said first: Hello")


def test_a_client_that_does_not_read_holds_no_other_back(start: Start) -> None:
    host = connect(start)
    session_id = host.new()
    host.prompt(session_id, "Hello")
    second = attach(start, session_id)
    os.kill(second.process.pid, signal.SIGSTOP)
    try:
        assert "2000" in host.reply(session_id, "count to 2000")
    finally:
        os.kill(second.process.pid, signal.SIGCONT)
    until_idle(second)
    assert "2000" in said(second.updates(session_id))


def test_a_permission_request_goes_to_the_clients_that_opted_in(start: Start) -> None:
    host = connect(start)
    session_id = host.new()
    host.call("session/set_mode", {"sessionId": session_id, "modeId": "code"})
    asking = attach(start, session_id, permissions=True)
    quiet = attach(start, session_id)
    turn = host.start(session_id, "edit")
    request = asking.asked()
    own = host.asked()
    option = request["params"]["options"][0]["optionId"]
    outcome = {"outcome": {"outcome": "selected", "optionId": option}}
    asking.send(id=request["id"], result=outcome)
    withdrawn = host.until(lambda m: m.get("method") == "$/cancel_request")
    assert withdrawn["params"]["requestId"] == own["id"]
    assert host.answer(turn)["result"] == {"stopReason": "end_turn"}
    until_idle(quiet)
    assert not [it for it in quiet.received if it.get("method") == "session/request_permission"]


def test_the_socket_is_made_again(start: Start, store_path: Path) -> None:
    host = connect(start)
    session_id = host.new()
    host.prompt(session_id, "Hello")
    folder = Path(f"{store_path}.hosts")
    shutil.rmtree(folder)
    deadline = Deadline(TIMEOUT)
    while not list(folder.glob("*.sock")):
        assert not deadline.has_passed
    attach(start, session_id)


def test_sockets_of_ended_and_killed_hosts_are_removed(start: Start, store_path: Path) -> None:
    folder = Path(f"{store_path}.hosts")
    clients = [connect(start), connect(start)]
    deadline = Deadline(TIMEOUT)
    while len(list(folder.glob("*.sock"))) < 2:
        assert not deadline.has_passed
    clients[0].end()
    clients[1].process.kill()
    clients[1].process.wait(TIMEOUT)
    third = connect(start)
    while len(list(folder.glob("*.sock"))) != 1:
        assert not deadline.has_passed
    third.end()
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_agent_cannot_attach_to_its_own_host(start: Start, store_path: Path) -> None:
    script = (
        "import glob, os, socket, sys\n"
        "paths = []\n"
        "while not paths:\n"
        "    paths = glob.glob(sys.argv[1] + '/*.sock')\n"
        "s = socket.socket(socket.AF_UNIX)\n"
        "s.connect(os.path.realpath(paths[0]))\n"
        "sys.stderr.write(f'received {s.recv(1)!r}')\n"
    )
    client = start(sys.executable, "-c", script, f"{store_path}.hosts")
    client.send(id=1, method="initialize", params={"protocolVersion": 1})
    client.answer(1)
    assert "received b''" in client.end()[1]
