"""Starting a program in a process group of its own, and signalling all of it. POSIX only.

Agents are often trees of two or three processes; what is left of one is an orphan.
"""

import os
import signal
import subprocess
import time
from collections.abc import Mapping

from rekindle.errors import AgentNotStarted
from rekindle.process.deadline import Patience

_TICK = 0.01

# As a shell would have it.
NOT_FOUND = 127
NOT_EXECUTABLE = 126


def start(
    command: tuple[str, ...], environ: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """Start `command`, without a shell, with pipes for its standard streams.

    `environ` is its whole environment; None means ours. Raises AgentNotStarted.
    """
    try:
        return subprocess.Popen(  # noqa: S603 - running this command is what the user asked for
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
            env=environ,
        )
    except FileNotFoundError as error:
        missing = error.filename or command[0]
        raise AgentNotStarted(f"command not found: {missing}", NOT_FOUND) from error
    except (OSError, ValueError) as error:
        raise AgentNotStarted(f"cannot run {command[0]}: {error}", NOT_EXECUTABLE) from error


def send(pid: int, number: int) -> bool:
    """Send a signal to the whole group that `pid` leads; tell whether there was any of it."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        # macOS says "not permitted" of a group in which only zombies are left.
        return False
    return True


def end(pid: int, patience: float) -> bool:
    """Terminate a group, and kill what does not end in time; tell whether there was any of it."""
    if not send(pid, signal.SIGTERM):
        return False
    waiting = Patience(patience)
    while send(pid, 0):
        if waiting.is_over:
            send(pid, signal.SIGKILL)
            break
        time.sleep(_TICK)
    return True


def exit_status(returncode: int) -> tuple[int, str | None]:
    """Return the exit code that a shell would give, and the name of the signal, if any."""
    if returncode >= 0:
        return returncode, None
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return 128 - returncode, name
