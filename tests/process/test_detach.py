"""A detached process, and the child that forwards signals to it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rekindle.process.detach import DetachedProcess, redirect_to_null

SECONDS = 60

DETACHED = """
import os, sys
from rekindle.process.detach import detach
first = os.getpid()
process = detach()
print(first, os.getpid(), os.getsid(0), os.getppid(), flush=True)
"""
Child = subprocess.Popen[bytes]


def run(rest: str) -> Child:
    command = [sys.executable, "-c", DETACHED + rest]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.fixture
def started() -> Iterator[list[Child]]:
    children: list[Child] = []
    yield children
    for child in children:
        with child:
            child.kill()


def test_the_detached_process_is_not_related_to_the_child(started: list[Child]) -> None:
    child = run("sys.stdin.read(); process.exit_code = 7")
    started.append(child)
    assert child.stdout is not None
    first, own, session, parent = map(int, child.stdout.readline().split())
    assert first == child.pid
    assert own not in {first, session}
    assert session != os.getsid(0)
    assert parent != first
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(SECONDS) == 7


def test_signals_of_the_child_are_forwarded(started: list[Child]) -> None:
    child = run(
        "import signal\n"
        "assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN\n"
        "for it in process.signals():\n"
        "    print(it, flush=True)\n"
        "    if it == signal.SIGHUP: process.release()\n"
        "print('the child has ended', flush=True)\n"
    )
    started.append(child)
    assert child.stdout is not None
    child.stdout.readline()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        child.send_signal(number)
        assert int(child.stdout.readline()) == number
    # The detached process lives on, and holds the streams.
    assert child.wait(SECONDS) == 0
    assert child.stdout.readline() == b"the child has ended\n"
    assert child.stdout.read() == b""


def test_a_killed_child_is_noticed(started: list[Child]) -> None:
    child = run("print(list(process.signals()), flush=True)")
    started.append(child)
    assert child.stdout is not None
    child.stdout.readline()
    child.kill()
    assert child.stdout.readline() == b"[]\n"


def test_the_child_fails_if_the_detached_process_is_killed(started: list[Child]) -> None:
    child = run("os.kill(os.getpid(), 9)")
    started.append(child)
    assert child.wait(SECONDS) == 1


def test_the_exit_code_is_reported_once() -> None:
    signals, _ = os.pipe()
    status, reported = os.pipe()
    process = DetachedProcess(signals, reported)
    process.release()
    process.release()
    assert os.read(status, 2) == b"\0"
    assert os.read(status, 1) == b""


def test_a_child_that_has_ended_receives_no_exit_code() -> None:
    signals, _ = os.pipe()
    status, reported = os.pipe()
    os.close(status)
    DetachedProcess(signals, reported).release()


def test_redirected_descriptors_close_their_other_ends() -> None:
    read, write = os.pipe()
    redirect_to_null(write)
    assert os.read(read, 1) == b""
    os.write(write, b"nowhere")
