"""Helpers of agents: real processes, and a made-up `/proc`."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rekindle.process.agent_helpers import AgentHelper, helpers_left_behind, is_agent_group_gone
from rekindle.process.group import MARK, marked_environment

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
GONE = 2**22 + 1
"""A process id that no system has."""


def test_environment_of_an_agent_has_the_mark() -> None:
    marked = dict(marked_environment())
    assert marked.pop(MARK) == f"{os.getpid()}.{os.getsid(0)}"
    assert marked == {name: value for name, value in os.environ.items() if name != MARK}


def start(mark: str, *, is_daemon: bool) -> "subprocess.Popen[bytes]":
    script = "import sys; print(flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, MARK: mark},
        start_new_session=is_daemon,
    )
    assert child.stdout is not None
    child.stdout.readline()
    return child


@LINUX
@pytest.mark.parametrize(
    ("starter", "is_daemon", "is_left"),
    [(GONE, True, True), (GONE, False, False), (os.getpid(), True, False)],
    ids=["left behind", "in the agent's session", "of a running agent"],
)
def test_a_helper_is_left_behind_if_rekindle_has_ended(
    starter: int, *, is_daemon: bool, is_left: bool
) -> None:
    child = start(f"{starter}.{os.getsid(0)}", is_daemon=is_daemon)
    try:
        found = [it.pid for it in helpers_left_behind()]
        assert (child.pid in found) is is_left
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    assert child.pid not in [it.pid for it in helpers_left_behind()]


def process(proc: Path, pid: int, environ: bytes, *, session: int = 9) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "environ").write_bytes(environ)
    (folder / "stat").write_text(f"{pid} (tmux: (s) 1) S 1 {pid} {session} 0 -1")
    (folder / "comm").write_text("tmux: server\n")


def test_only_readable_marks_count(tmp_path: Path) -> None:
    process(tmp_path, 10, b"HOME=/h\0REKINDLE_AGENT=77.5\0")
    process(tmp_path, 2, b"REKINDLE_AGENT=77.5\0")
    process(tmp_path, 11, b"HOME=/h\0REKINDLE_AGENT_NAME=77.5\0")
    process(tmp_path, 12, b"REKINDLE_AGENT=odd\0")
    process(tmp_path, 13, b"REKINDLE_AGENT=77.9\0")
    process(tmp_path, 14, b"REKINDLE_AGENT=10.5\0")
    (tmp_path / "15").mkdir()
    (tmp_path / "self").mkdir()
    found = list(helpers_left_behind(tmp_path))
    assert found == [AgentHelper(2, "tmux: server"), AgentHelper(10, "tmux: server")]
    assert list(helpers_left_behind(tmp_path / "missing")) == []


def test_a_group_without_processes_is_gone() -> None:
    assert is_agent_group_gone(GONE)


@LINUX
def test_a_group_counts_only_with_the_mark(tmp_path: Path) -> None:
    child = start(f"{GONE}.1", is_daemon=True)
    other = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
    try:
        assert not is_agent_group_gone(child.pid)
        # Another program has the id now.
        assert is_agent_group_gone(other.pid)
        # Elsewhere no environment can be read.
        assert not is_agent_group_gone(other.pid, tmp_path)
        child.kill()
        # A zombie does nothing.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_agent_group_gone(child.pid)
    finally:
        for process in (child, other):
            process.kill()
            process.communicate()
