"""The agent as a child process: start, signals, exit, and reports about it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import warm_start
from stdio_client import EXAMPLE_AGENT, REKINDLE, TIMEOUT, Client, is_running

AGENTS = Path(__file__).parents[1] / "agents"

Start = Callable[..., Client]


def python(code: str) -> tuple[str, str, str]:
    return (sys.executable, "-c", code)


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_is_that_of_the_agent(start: Start, code: int) -> None:
    client = start(*python(f"import sys; sys.stdin.read(); sys.exit({code})"))
    assert client.end() == (code, "")


def test_a_signal_gives_the_exit_code_of_a_shell(start: Start) -> None:
    client = start(*python("import os; os.kill(os.getpid(), 9)"))
    assert client.end(hang_up=False) == (128 + 9, "")


def test_agent_stderr_is_forwarded_unchanged(start: Start) -> None:
    client = start(*python(r"import sys; sys.stderr.write('\x1b[31mred\r\x07')"))
    assert client.end(hang_up=False) == (0, "\x1b[31mred\r\x07")


def test_agent_stderr_is_sanitized_for_a_terminal(tmp_path: Path) -> None:
    said = r"import sys; sys.stderr.write('\x1b]0;title\x07\x1b[31mred\r\x9b5n \xe9\n')"
    ours, theirs = os.openpty()
    warm_start.run(
        [*REKINDLE, "run", "--store", tmp_path / "s.db", "--", *python(said)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        check=True,
        timeout=TIMEOUT,
    )
    os.close(theirs)
    shown = os.read(ours, 1000).decode()
    os.close(ours)
    assert shown == "red\ufffd \xe9\r\n"


def test_reports_are_sanitized_for_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "\x1b[31m").touch()
    done = warm_start.run(
        [*REKINDLE, "run", "--store", tmp_path / "\x1b[31m" / "s.db", "--", *python("")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=TIMEOUT,
    )
    assert done.stderr.startswith(b"rekindle: not recording: ")
    assert b"\\x1b[31m" in done.stderr
    assert b"\x1b" not in done.stderr


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (["no-such-agent-anywhere"], 127, "command not found: no-such-agent-anywhere"),
        (["/no/such/agent"], 127, "command not found: /no/such/agent"),
        (["/"], 126, "cannot run /"),
    ],
)
def test_a_command_that_cannot_be_run_is_reported_in_one_line(
    start: Start, command: list[str], code: int, words: str
) -> None:
    exit_code, stderr = start(*command).end()
    assert exit_code == code
    assert words in stderr
    assert stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--"],
        ["--store", "postgres://x", "--", "true"],
        ["--log", "/no/such/dir/x", "--", "true"],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    done = warm_start.run(
        [*REKINDLE, "run", *arguments],
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
        text=True,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("rekindle: error: ")
    assert "Traceback" not in done.stderr


def test_the_command_may_be_given_without_dashes(tmp_path: Path) -> None:
    client = Client(*REKINDLE, "run", "--store", tmp_path / "s.db", *python("print('hi')"))
    try:
        assert client.next_line() == b"hi\n"
    finally:
        client.close()


def test_agent_stderr_reaches_our_stderr(start: Start) -> None:
    client = start(*python("import sys; sys.stderr.write('careful\\nhalf')"))
    assert client.end(hang_up=False) == (0, "careful\nhalf")


def test_open_requests_are_answered_when_the_agent_dies(start: Start) -> None:
    client = start(*EXAMPLE_AGENT)
    session_id = client.new()
    turn = client.start(session_id, "crash")
    error = client.answer(turn)["error"]
    assert error["code"] == -32603
    assert error["message"] == "the agent exited with 3 before it answered session/prompt"
    assert error["data"]["exitCode"] == 3
    assert "crashed" in error["data"]["stderr"][-1]
    assert client.end(hang_up=False)[0] == 3


def test_only_the_tail_of_stderr_is_reported(start: Start) -> None:
    code = "import sys; input(); [print(n, file=sys.stderr) for n in range(100)]; sys.exit(1)"
    client = start(*python(code))
    error = client.answer(client.request("initialize", {}))["error"]
    assert error["data"]["stderr"] == [str(number) for number in range(80, 100)]


def test_the_agent_gets_eof_when_the_client_leaves(start: Start, tmp_path: Path) -> None:
    note = tmp_path / "note"
    client = start(*python(f"import sys; sys.stdin.read(); open({str(note)!r}, 'w').write('bye')"))
    assert client.end() == (0, "")
    assert note.read_text() == "bye"


def test_an_agent_that_does_not_exit_is_killed_with_its_children(start: Start) -> None:
    client = start(sys.executable, AGENTS / "agent_ignores_signals.py", options=("--grace", "0.1"))
    pids = [int(pid) for pid in client.next_line().split()]
    assert all(map(is_running, pids))
    assert client.end()[0] == 128 + signal.SIGKILL
    assert not any(map(is_running, pids))


def test_processes_left_by_the_agent_are_ended(start: Start) -> None:
    code = (
        "import os, time\n"
        "child = os.fork()\n"
        "if child: print(child, flush=True); os._exit(5)\n"
        "time.sleep(600)"
    )
    client = start(*python(code))
    child = int(client.next_line())
    assert client.end(hang_up=False)[0] == 5
    assert not is_running(child)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_forwarded_to_the_agent(start: Start, number: signal.Signals) -> None:
    client = start(sys.executable, AGENTS / "agent_reports_signals.py")
    assert client.next_line() == b"ready\n"
    client.process.send_signal(number)
    assert client.next_line() == b"got %d\n" % number
    assert client.end(hang_up=False)[0] == number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_ends_an_agent_that_ignores_it(start: Start, number: signal.Signals) -> None:
    client = start(sys.executable, AGENTS / "agent_ignores_signals.py", options=("--grace", "0.1"))
    pids = [int(pid) for pid in client.next_line().split()]
    client.process.send_signal(number)
    assert client.end(hang_up=False)[0] == 128 + signal.SIGKILL
    assert not any(map(is_running, pids))


def test_a_client_that_stops_reading_does_not_keep_the_agent_alive(tmp_path: Path) -> None:
    command = [*REKINDLE, "run", "--store", tmp_path / "s.db", "--grace", "0.1", "--"]
    flood = python("while True: print('x' * 1000)")
    process = subprocess.Popen([*command, *flood], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdin
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(TIMEOUT) != 0
    process.stdin.close()


def test_a_slow_client_receives_everything(tmp_path: Path) -> None:
    count = 20_000
    client = Client(
        *REKINDLE,
        "run",
        "--store",
        tmp_path / "s.db",
        "--",
        *python(f"for n in range({count}): print(n, 'x' * 50)"),
        read=False,
    )
    try:
        # The agent exits long before its output is read.
        assert client.process.stdout
        lines = client.process.stdout.read().splitlines()
        assert len(lines) == count
        assert client.end(hang_up=False)[0] == 0
    finally:
        client.close()


def test_strict_mode_refuses_and_reports(start: Start) -> None:
    client = start(*EXAMPLE_AGENT, options=("--strict",))
    code, data = client.error("session/new", {"cwd": "relative", "mcpServers": []})
    assert code == -32600
    client.call("initialize", {"protocolVersion": 1})
    code, data = client.error("session/new", {"cwd": "/home/user/private"})
    assert (code, data["field"]) == (-32602, "mcpServers")
    exit_code, stderr = client.end()
    assert exit_code == 0
    assert "rekindle: refused: session/new: mcpServers must be an array" in stderr
    assert "private" not in stderr


FAULTY = """
import sys
from rekindle.proxy.engine import Engine
receive = Engine.receive
def faulty(self, side, lines, at_us):
    if b"boom" in lines:
        raise RuntimeError("a fault of ours")
    return receive(self, side, lines, at_us)
Engine.receive = faulty
from rekindle.cli.main import main
sys.exit(main(["run", "--store", sys.argv[1], "--", "cat"]))
"""


def test_an_internal_error_is_reported_and_lines_are_forwarded(tmp_path: Path) -> None:
    said = b"one\nboom\n"
    done = subprocess.run(
        [sys.executable, "-c", FAULTY, tmp_path / "s.db"],
        input=said,
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, said)
    assert b"a bug in Rekindle, please report it" in done.stderr
    assert b"Traceback" not in done.stderr
