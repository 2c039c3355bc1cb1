"""`rekindle attach` and `rekindle prompt --wait`: a session that another process has."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from command_runs import run
from pty_terminal import Terminal
from rekindle.model import AgentIdentity, Counted, EntryBatch, Kind, Opened, Side
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import EXAMPLE_AGENT, NEW, REKINDLE, TIMEOUT, Client, selected
from warm_start import Popen

AT = 1_700_000_000_000_000
ANSWERED = b'{"id":1,"result":{"stopReason":"end_turn"}}'
CTRL_C, CTRL_D = "\x03", "\x04"
HINT = "leaves; the session continues without you"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
def host(store: Path) -> Iterator[Client]:
    client = start(store)
    yield client
    client.close()


def start(store: Path, *options: str) -> Client:
    agent = (*EXAMPLE_AGENT, "--delay", "0.02")
    client = Client(*REKINDLE, "run", "--store", store, *options, "--", *agent)
    client.call("initialize", {"protocolVersion": 1})
    return client


def attach(store: Path, *arguments: str) -> Terminal:
    terminal = Terminal("attach", "--store", store, *arguments)
    terminal.wait_for(HINT)
    return terminal


def used(host: Client) -> str:
    """Return the id of a session with one turn."""
    session_id = host.new()
    host.prompt(session_id, "Hello")
    return session_id


def test_turns_are_shown_as_they_happen(store: Path, host: Client) -> None:
    session_id = used(host)
    with attach(store, session_id) as terminal:
        assert "You said: Hello" in terminal.shown
        host.prompt(session_id, "count to 9")
        terminal.wait_for("1 2 3 4 5 6 7 8 9")
        assert "turn 2" in terminal.shown
        turn = host.go_slow(session_id)
        host.send(method="session/cancel", params={"sessionId": session_id})
        assert host.answer(turn)["result"] == {"stopReason": "cancelled"}
        terminal.wait_for("(cancelled)")
        terminal.type("q")
        assert terminal.end() == 0
    assert host.prompt(session_id, "Still here?")


def test_earlier_turns_have_their_recorded_times(store: Path) -> None:
    line = b'{"id":1,"params":{"prompt":[{"type":"text","text":"Long ago"}]}}'
    prompt, answer = Kind.PROMPT, Kind.ANSWER
    with SqliteStore(store) as opened:
        agent = AgentIdentity(name="example-agent")
        opened.write([Opened(session_id="s1", at_us=AT, agent=agent, cwd=str(NEW["cwd"]))])
        for kind, side, data in ((prompt, Side.CLIENT, line), (answer, Side.AGENT, ANSWERED)):
            entry = EntryBatch(session_id="s1", side=side, kind=kind, at_us=AT, data=data)
            opened.write([entry])
        opened.write([Counted(session_id="s1", at_us=AT, turns=1)])
    host = start(store)
    host.call("session/load", NEW | {"sessionId": "s1"})
    with attach(store, "s1") as terminal:
        assert "turn 1 · 2023-11-14" in terminal.shown
        terminal.type("q")
        assert terminal.end() == 0
    host.close()


def test_permission_is_answered(store: Path, host: Client) -> None:
    session_id = used(host)
    with attach(store) as terminal:
        turn = host.start(session_id, "edit")
        asked = host.asked()
        terminal.wait_for("3  Reject (n)")
        assert "+the oat milk" in terminal.shown
        terminal.answer("y")
        terminal.wait_for("→ Allow once")
        assert host.answer(turn)["result"] == {"stopReason": "end_turn"}
        terminal.wait_for("✓ Edit")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    withdrawn = [it for it in host.received if it.get("method") == "$/cancel_request"]
    assert [it["params"]["requestId"] for it in withdrawn] == [asked["id"]]


def test_leaving_does_not_answer(store: Path, host: Client) -> None:
    session_id = used(host)
    turn = host.start(session_id, "edit")
    asked = host.asked()
    for key in ("q", CTRL_D, CTRL_C):
        with attach(store) as terminal:
            terminal.wait_for("3  Reject (n)")
            terminal.answer(key)
            assert terminal.end() == 0
            assert "the turn continues" in terminal.shown
    host.send(id=asked["id"], **selected("allow-once"))
    assert host.answer(turn)["result"] == {"stopReason": "end_turn"}
    assert not [it for it in host.received if it.get("method") == "$/cancel_request"]


def test_an_answer_elsewhere_removes_the_question(store: Path, host: Client) -> None:
    session_id = used(host)
    with attach(store) as terminal:
        host.start(session_id, "edit")
        asked = host.asked()
        terminal.wait_for("3  Reject (n)")
        host.send(id=asked["id"], **selected("allow-once"))
        terminal.wait_for("answered elsewhere")
        terminal.wait_for("✓ Edit")
        terminal.type("q")
        assert terminal.end() == 0


def test_the_end_of_the_process_is_reported(store: Path, host: Client) -> None:
    session_id = used(host)
    with attach(store) as terminal:
        host.end()
        terminal.wait_for("has ended")
        assert terminal.end() == 0
        assert f"rekindle resume {session_id}" in terminal.shown.replace("\n", "")


def test_a_killed_process_is_an_error_in_mid_turn(store: Path, host: Client) -> None:
    session_id = used(host)
    host.go_slow(session_id)
    with attach(store) as terminal:
        os.kill(host.process.pid, signal.SIGKILL)
        terminal.wait_for("in the middle of the turn")
        assert terminal.end() == 1


def test_the_next_process_is_followed(store: Path, host: Client) -> None:
    session_id = used(host)
    other = start(store)
    other.call("session/load", NEW | {"sessionId": session_id})
    with attach(store, session_id) as terminal:
        os.kill(host.process.pid, signal.SIGKILL)
        terminal.wait_for(f"process {other.process.pid} has the session now")
        other.prompt(session_id, "count to 5")
        terminal.wait_for("1 2 3 4 5")
        assert terminal.shown.count("You said: Hello") == 1
        terminal.type("q")
        assert terminal.end() == 0
    other.close()


def test_without_a_terminal_the_session_is_only_shown(store: Path, host: Client) -> None:
    session_id = used(host)
    command = [*REKINDLE, "attach", "--store", str(store), session_id]
    with Popen(command, stdin=-3, stdout=-1, stderr=-1, text=True) as watching:
        assert watching.stdout is not None
        seen = ""
        while "You said: Hello" not in seen:
            seen += watching.stdout.readline()
        turn = host.start(session_id, "edit")
        asked = host.asked()
        while "waits for an answer" not in seen:
            seen += watching.stdout.readline()
        host.send(id=asked["id"], **selected("allow-once"))
        assert host.answer(turn)["result"] == {"stopReason": "end_turn"}
        host.end()
        out, err = watching.communicate(timeout=TIMEOUT)
        assert "Edit" in out
        assert "has ended" in err
        assert watching.returncode == 0


def test_a_session_without_a_process_is_shown(store: Path, host: Client) -> None:
    session_id = used(host)
    host.end()
    done = run("attach", "--store", store, session_id)
    assert done.returncode == 0
    assert "You said: Hello" in done.stdout
    assert f"`rekindle resume {session_id}` continues it" in done.stderr
    done = run("attach", "--store", store)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no process has a session now" in done.stderr


def test_the_running_session_is_chosen(store: Path, host: Client) -> None:
    first, second = used(host), used(host)
    done = run("attach", "--store", store)
    assert done.returncode == 1
    assert "2 sessions are in use" in done.stderr
    assert first in done.stderr
    host.go_slow(second)
    with attach(store) as terminal:
        assert second in terminal.shown.replace("\n", "")
        terminal.type("q")
        assert terminal.end() == 0


def test_list_marks_running_and_waiting_sessions(store: Path, host: Client) -> None:
    open_only, running, waiting = used(host), used(host), used(host)
    host.go_slow(running)
    host.start(waiting, "edit")
    host.asked()
    listed = json.loads(run("list", "--store", store, "--json").stdout)
    assert {it["id"]: it["turnState"] for it in listed} == {
        open_only: "idle",
        running: "running",
        waiting: "requires_action",
    }
    with Terminal("list", "--store", store) as terminal:
        terminal.wait_for("● live  ▶ running  ? waiting")
        assert terminal.end() == 0


# -- prompt --wait ----------------------------------------------------------------------------


def test_wait_prints_the_answer_of_a_detached_turn(store: Path, host: Client) -> None:
    created = host.call("session/new", {"cwd": str(store.parent), "mcpServers": []})
    session_id = created["sessionId"]
    host.prompt(session_id, "Hello")
    host.end()
    started = run("prompt", "--store", store, "--detach", session_id, "count to 20")
    assert started.stdout == f"{session_id}\n", started.stderr
    done = run("prompt", "--store", store, "--wait", session_id)
    assert done.returncode == 0
    assert done.stdout == " ".join(map(str, range(1, 21))) + "\n"
    again = run("prompt", "--store", store, "--wait", "--json", session_id)
    described = json.loads(again.stdout)
    assert (described["sessionId"], described["stopReason"]) == (session_id, "end_turn")


def test_wait_exits_by_the_stop_reason(store: Path, host: Client) -> None:
    session_id = used(host)
    turn = host.start(session_id, "edit")
    asked = host.asked()
    command = [*REKINDLE, "prompt", "--store", str(store), "--wait", session_id]
    with Popen(command, stdin=-3, stdout=-1, stderr=-1, text=True) as waiting:
        assert waiting.stderr is not None
        assert f"`rekindle attach {session_id}` answers" in waiting.stderr.readline()
        host.send(id=asked["id"], result={"outcome": {"outcome": "cancelled"}})
        host.send(method="session/cancel", params={"sessionId": session_id})
        assert host.answer(turn)["result"] == {"stopReason": "cancelled"}
        waiting.communicate(timeout=TIMEOUT)
        assert waiting.returncode == 6


def test_wait_reports_a_process_that_was_killed(store: Path, host: Client) -> None:
    session_id = used(host)
    host.go_slow(session_id)
    command = [*REKINDLE, "prompt", "--store", str(store), "--wait", session_id]
    with Popen(command, stdin=-3, stdout=-1, stderr=-1, text=True) as waiting:
        os.kill(host.process.pid, signal.SIGKILL)
        _, err = waiting.communicate(timeout=TIMEOUT)
    assert waiting.returncode == 1
    assert "in the middle of it; `rekindle resume" in err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--new",), "leave out --new"),
        (("--last", "Hello"), "leave out TEXT and AGENT"),
        (("x", "--detach"), "--detach"),
        ((), "no session given"),
    ],
)
def test_wait_sends_nothing(store: Path, host: Client, arguments: list[str], reason: str) -> None:
    used(host)
    done = run("prompt", "--store", store, "--wait", *arguments)
    assert done.returncode == 2
    assert reason in done.stderr


def test_a_question_that_is_open_already_is_noted_in_a_pipe(store: Path, host: Client) -> None:
    session_id = used(host)
    turn = host.start(session_id, "edit")
    asked = host.asked()
    with Popen([*REKINDLE, "attach", "--store", store], stdout=PIPE, stderr=PIPE) as process:
        shown = b""
        while b"waits for an answer" not in shown:
            shown += process.stdout.readline()
        host.send(id=asked["id"], **selected("allow-once"))
        assert host.answer(turn)["result"] == {"stopReason": "end_turn"}
        process.kill()


def test_a_detached_prompt_to_a_window_that_may_be_closed_is_noted(
    store: Path, host: Client
) -> None:
    created = host.call("session/new", {"cwd": str(store.parent), "mcpServers": []})
    session_id = created["sessionId"]
    host.prompt(session_id, "Hello")
    started = run("prompt", "--store", store, "--detach", session_id, "Hello again")
    assert started.returncode == 0, started.stderr
    assert started.stdout == f"{session_id}\n"
    assert f"process {host.process.pid} runs the turn, and cancels it" in started.stderr
