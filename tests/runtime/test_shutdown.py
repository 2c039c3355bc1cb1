"""Every way to end: nothing hangs, no process is left, and all messages arrive."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stdio_client import REKINDLE, TIMEOUT, is_running

INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n'
STUBBORN = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""

Process = subprocess.Popen[bytes]


class Starter:
    """Start agents behind `rekindle run`, with bare pipes."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.started: list[Process] = []

    def __call__(self, code: str, *arguments: str | Path, options: tuple[str, ...] = ()) -> Process:
        command = [*REKINDLE, "run", "--store", self.store, "--grace", "0.2", *options]
        agent = [sys.executable, "-c", code, *arguments]
        pipe = subprocess.PIPE
        process = subprocess.Popen([*command, "--", *agent], stdin=pipe, stdout=pipe, stderr=pipe)
        self.started.append(process)
        return process


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(tmp_path / "s.db")
    yield starter
    for process in starter.started:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream
            stream.close()


def wait_until(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def children_of(pid: int) -> list[int]:
    asked = ["/bin/ps", "-A", "-o", "pid=,ppid="]
    done = subprocess.run(asked, capture_output=True, check=True, text=True)
    pairs = (map(int, line.split()) for line in done.stdout.splitlines())
    return [child for child, parent in pairs if parent == pid]


def command_of(pid: int) -> str:
    asked = ["/bin/ps", "-ww", "-o", "args=", "-p", str(pid)]
    return subprocess.run(asked, capture_output=True, check=True, text=True).stdout


def write(process: Process, data: bytes) -> None:
    assert process.stdin
    process.stdin.write(data)
    process.stdin.flush()


def test_an_answer_for_a_dead_agent_starts_on_a_new_line(start: Starter) -> None:
    code = (
        'import os; input(); os.write(1, b\'{"jsonrpc":"2.0","method":"session/upd\'); os._exit(4)'
    )
    process = start(code)
    write(process, INITIALIZE)
    assert process.stdout
    half, answer = process.stdout.read().splitlines()
    assert half == b'{"jsonrpc":"2.0","method":"session/upd'
    assert json.loads(answer)["error"]["data"]["exitCode"] == 4
    assert process.wait(TIMEOUT) == 4


@pytest.mark.one_of(3)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("after_ms", [0, 10, 30, 60])
def test_an_early_signal_leaves_no_agent_behind(
    start: Starter, tmp_path: Path, number: signal.Signals, after_ms: int
) -> None:
    note = tmp_path / "pid"
    process = start(STUBBORN, note)
    while not note.exists():
        assert process.poll() is None
        time.sleep(0.001)  # for the agent's note, bounded by its start
    time.sleep(after_ms / 1000)  # the exact moment is tested
    pid = int(note.read_text())
    process.send_signal(number)
    if number is signal.SIGINT:
        # An agent may ignore the signal, so the client leaves.
        assert process.stdin
        process.stdin.close()
    process.wait(TIMEOUT)
    assert not is_running(pid)


def test_a_client_that_leaves_while_the_agent_does_not_read_ends_both(
    start: Starter, tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    process = start(STUBBORN, note)
    assert process.stdin
    line = b'{"jsonrpc":"2.0","method":"x","params":"' + b"x" * 1000 + b'"}\n'
    os.set_blocking(process.stdin.fileno(), False)
    sent = 0
    deadline = time.monotonic() + TIMEOUT
    while sent < 150_000 and time.monotonic() < deadline:
        try:
            sent += os.write(process.stdin.fileno(), line)
        except BlockingIOError:
            if note.exists() and sent > 100_000:
                break
    process.stdin.close()
    process.wait(TIMEOUT)
    assert not is_running(int(note.read_text()))


@pytest.mark.parametrize("kilobytes", [100, 180])
def test_a_client_that_closed_its_input_still_receives_output(
    start: Starter, tmp_path: Path, kilobytes: int
) -> None:
    note = tmp_path / "done"
    code = (
        "import sys; sys.stdin.read()\n"
        f"for n in range({kilobytes}): print(str(n).rjust(999))\n"
        f"sys.stdout.flush(); open({str(note)!r}, 'w').close()"
    )
    process = start(code, options=("--grace", "20"))
    assert process.stdin
    assert process.stdout
    process.stdin.close()
    if kilobytes < 120:  # it fits into the two pipes, so the agent ends before we read
        while not note.exists():
            assert process.poll() is None
            time.sleep(0.001)
        time.sleep(1.5)  # longer than the wait for processes that an agent left
    lines = process.stdout.read().splitlines()
    assert [int(line) for line in lines] == list(range(kilobytes))
    assert process.wait(TIMEOUT) == 0


def test_a_signal_ends_the_wait_for_a_client_that_does_not_read(
    start: Starter, tmp_path: Path
) -> None:
    note = tmp_path / "done"
    code = (
        "import os, sys\n"
        "for n in range(100): os.write(1, b'x' * 999 + b'\\n')\n"
        f"open({str(note)!r}, 'w').close()"
    )
    process = start(code)
    while not note.exists():
        assert process.poll() is None
        time.sleep(0.001)
    process.terminate()
    process.wait(TIMEOUT)


def test_an_unread_stderr_does_not_stop_the_conversation(start: Starter) -> None:
    code = (
        "import sys\n"
        "for n in range(3000): print('a plain line, which --strict complains of', n)\n"
        'input(); print(\'{"jsonrpc":"2.0","id":1,"result":{}}\')'
    )
    process = start(code, options=("--strict",))
    write(process, INITIALIZE)
    assert process.stdout
    assert json.loads(process.stdout.readline())["id"] == 1
    assert process.stdin
    process.stdin.close()
    process.wait(TIMEOUT)


def test_an_agent_that_closes_its_output_is_ended(start: Starter) -> None:
    process = start("import os, time; input(); os.close(1); time.sleep(600)")
    write(process, INITIALIZE)
    assert process.stdout
    answer = json.loads(process.stdout.readline())
    assert answer["error"]["message"].startswith("the agent was killed by SIGTERM")
    assert process.wait(TIMEOUT) == 128 + signal.SIGTERM


def test_the_log_holds_no_content(start: Starter, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start("print('the password is hunter2')", options=("--strict", "--log", str(log)))
    process.wait(TIMEOUT)
    assert process.stderr
    assert b"hunter2" in process.stderr.read()
    assert "not an ACP message" in log.read_text()
    assert "hunter2" not in log.read_text()


@pytest.mark.parametrize("is_stubborn", [True, False])
def test_the_agent_ends_if_rekindle_is_killed(
    start: Starter, tmp_path: Path, *, is_stubborn: bool
) -> None:
    note = tmp_path / "pid"
    obedient = STUBBORN.replace("SIG_IGN", "SIG_DFL")
    process = start(STUBBORN if is_stubborn else obedient, note)
    wait_until(note.exists)
    process.kill()
    process.wait(TIMEOUT)
    wait_until(lambda: not is_running(int(note.read_text())))


def test_the_agent_has_a_grace_time_after_rekindle_is_killed(
    start: Starter, tmp_path: Path
) -> None:
    note, bye = tmp_path / "pid", tmp_path / "bye"
    code = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: os._exit(1))\n"
        "open(sys.argv[1], 'w').write(str(os.getpid()))\n"
        "sys.stdin.read()\n"
        "time.sleep(0.5)\n"
        "open(sys.argv[2], 'w').close()"
    )
    process = start(code, note, bye, options=("--grace", "30"))
    wait_until(note.exists)
    process.kill()
    wait_until(bye.exists)


def test_the_orphan_guard_ends_with_its_agent(start: Starter, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    process = start("import os, sys; open(sys.argv[1], 'w').close(); sys.stdin.read()", note)
    wait_until(note.exists)
    guard = next(pid for pid in children_of(process.pid) if "rekindle-guard" in command_of(pid))
    assert process.stdin
    process.stdin.close()
    assert process.wait(TIMEOUT) == 0
    assert not is_running(guard)


def test_a_late_first_message_is_answered_with_the_reason(start: Starter, tmp_path: Path) -> None:
    process = start("import sys; sys.exit('no key')", options=("--log", str(tmp_path / "log")))
    log, deadline = tmp_path / "log", time.monotonic() + TIMEOUT
    while "the agent exited" not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert process.stdin
    process.stdin.write(INITIALIZE)
    process.stdin.flush()
    assert process.stdout
    error = json.loads(process.stdout.readline())["error"]
    assert error["message"] == "the agent exited with 1 before it was ready"
    assert error["data"]["stderr"] == ["no key"]
    assert process.wait(TIMEOUT) == 1
