import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import pytest

from rekindle.process import group
from rekindle.process.orphan_guard import OrphanGuard

SECONDS = 60

# Starts the guard as Rekindle does, guards a group, and exits without dismissing the guard.
KILLED = """
import os, sys
from rekindle.process.orphan_guard import OrphanGuard
OrphanGuard(grace=0).watch(int(sys.argv[1]))
os._exit(0)
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that runs until it is ended, in a group of its own."""
    process = group.start(("/bin/sh", "-c", "echo ready; exec sleep 600"))
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    yield process
    group.send_signal(process.pid, 9)
    with process, suppress(BrokenPipeError):
        process.wait(SECONDS)


def test_guard_ends_the_group_if_rekindle_was_killed(process: subprocess.Popen[bytes]) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(process.pid)], check=True, timeout=SECONDS)
    assert process.wait(SECONDS) == -15


def test_dismissed_guard_leaves_the_group_alone(process: subprocess.Popen[bytes]) -> None:
    guard = OrphanGuard(grace=0)
    guard.watch(process.pid)
    guard.dismiss()
    assert process.poll() is None


def test_guard_can_be_dismissed_before_and_after_the_agent(
    process: subprocess.Popen[bytes],
) -> None:
    unused = OrphanGuard(grace=0)
    unused.dismiss()
    unused.dismiss()
    unused.watch(process.pid)
    assert process.poll() is None


def test_guard_can_be_dismissed_while_another_thread_dismisses_it() -> None:
    guard = OrphanGuard(grace=0)
    shell = guard._process  # noqa: SLF001 - the shell must be stopped, so that it does not exit
    assert shell is not None
    assert shell.stdin is not None
    os.kill(shell.pid, signal.SIGSTOP)
    other = Thread(target=guard.dismiss)
    other.start()
    while not shell.stdin.closed and other.is_alive():
        os.sched_yield()
    guard.dismiss()
    os.kill(shell.pid, signal.SIGCONT)
    other.join(SECONDS)
    assert shell.wait(SECONDS) == 0


def test_without_a_shell_there_is_no_guard(
    monkeypatch: pytest.MonkeyPatch, process: subprocess.Popen[bytes]
) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise OSError

    monkeypatch.setattr(subprocess, "Popen", fail)
    guard = OrphanGuard(grace=0)
    guard.watch(process.pid)
    guard.dismiss()
