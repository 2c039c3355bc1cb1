import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import Popen

import pytest

from rekindle.errors import AgentNotStarted
from rekindle.process import group

SECONDS = 60

# A shell that starts a child, reports that it is ready, and waits.
TREE = "sleep 600 & echo ready; wait"
IGNORES_TERM = "trap '' TERM; sleep 600 & echo ready; wait; wait"


@pytest.fixture
def started() -> Iterator[list[Popen[bytes]]]:
    """Collect processes, and end their groups after the test."""
    processes: list[Popen[bytes]] = []
    yield processes
    for process in processes:
        group.send_signal(process.pid, signal.SIGKILL)
        with process, suppress(BrokenPipeError):
            process.wait(SECONDS)


def ready(started: list[Popen[bytes]], script: str) -> Popen[bytes]:
    """Start a shell script, and return it once it has printed `ready`."""
    process = group.start(("/bin/sh", "-c", script))
    started.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_start_gives_a_group_of_its_own_and_pipes(started: list[Popen[bytes]]) -> None:
    script = "import os, sys; sys.stderr.write('log'); print(os.getpid() == os.getpgrp(), input())"
    process = group.start((sys.executable, "-c", script))
    started.append(process)
    assert process.communicate(b"in", SECONDS) == (b"True in\n", b"log")


def test_start_replaces_the_whole_environment(started: list[Popen[bytes]]) -> None:
    process = group.start(("/usr/bin/env",), {"ONLY": "this"})
    started.append(process)
    assert process.communicate(timeout=SECONDS)[0] == b"ONLY=this\n"


@pytest.mark.parametrize(
    ("command", "message", "code"),
    [
        (("no-such-program-anywhere",), "command not found: no-such-program-anywhere", 127),
        (("/",), "cannot run /: ", 126),
        (("a\0b",), "cannot run a\0b: ", 126),
    ],
)
def test_start_reports_a_command_that_cannot_run(
    command: tuple[str, ...], message: str, code: int
) -> None:
    with pytest.raises(AgentNotStarted) as raised:
        group.start(command)
    assert str(raised.value).startswith(message)
    assert raised.value.exit_code == code


def test_terminate_ends_the_children_too(started: list[Popen[bytes]]) -> None:
    process = ready(started, TREE)
    assert group.terminate(process.pid, 0)
    assert process.wait(SECONDS) < 0
    assert process.stdout is not None
    assert process.stdout.read() == b"", "a child still holds the pipe"


def test_terminate_kills_a_group_that_ignores_it(started: list[Popen[bytes]]) -> None:
    process = ready(started, IGNORES_TERM)
    assert group.terminate(process.pid, 0)
    assert process.wait(SECONDS) == -signal.SIGKILL


def test_terminate_reports_a_group_that_has_ended(started: list[Popen[bytes]]) -> None:
    process = group.start(("/bin/sh", "-c", "exit 3"))
    started.append(process)
    assert process.wait(SECONDS) == 3
    assert not group.terminate(process.pid, SECONDS)


@pytest.mark.parametrize(
    ("returncode", "expected"),
    [(0, (0, None)), (3, (3, None)), (-9, (137, "SIGKILL")), (-250, (378, "signal 250"))],
)
def test_exit_status_is_what_a_shell_reports(
    returncode: int, expected: tuple[int, str | None]
) -> None:
    assert group.exit_status(returncode) == expected


def test_a_script_that_is_not_executable_is_reported(tmp_path: Path) -> None:
    script = tmp_path / "agent"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(AgentNotStarted, match="cannot run"):
        group.start((str(script),))
