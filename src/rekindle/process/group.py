"""Start a program in a process group of its own, and signal the whole group. POSIX only.

Agents are often trees of two or three processes. A group reaches all of them, so that none is left
behind as an orphan.
"""

import os
import signal
import subprocess
import time
from collections.abc import Mapping

from rekindle.errors import AgentNotStarted
from rekindle.process.deadline import Deadline

TERMINATE_TIMEOUT = 2.0
"""The time between SIGTERM and SIGKILL, in seconds."""
_POLL_SECONDS = 0.01

MARK = "REKINDLE_AGENT"
"""A variable in an agent's environment, by which `agent_helpers` recognises its descendants."""

# The exit codes that a shell uses.
NOT_FOUND = 127
NOT_EXECUTABLE = 126


def start(
    command: tuple[str, ...], environ: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """Start a command without a shell, with pipes for its standard streams.

    `environ` is its whole environment; None means a copy of ours. Raises AgentNotStarted.
    """
    try:
        return subprocess.Popen(  # noqa: S603 - the user asked to run this command
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


def marked_environment() -> Mapping[str, str]:
    """Return an environment for an agent: a copy of ours, with our pid and session as the mark."""
    return {**os.environ, MARK: f"{os.getpid()}.{os.getsid(0)}"}


def send_signal(pid: int, number: int) -> bool:
    """Send a signal to the group that `pid` leads; return whether the group exists."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        # macOS reports "not permitted" for a group that consists of zombies only.
        return False
    return True


def terminate(pid: int, timeout: float) -> bool:
    """Terminate a group, and kill it if it does not end in time; return whether it existed."""
    if not send_signal(pid, signal.SIGTERM):
        return False
    deadline = Deadline(timeout)
    while send_signal(pid, 0):
        if deadline.has_passed:
            send_signal(pid, signal.SIGKILL)
            break
        time.sleep(_POLL_SECONDS)
    return True


def exit_status(returncode: int) -> tuple[int, str | None]:
    """Return the exit code that a shell would report, and the name of the signal, if any."""
    if returncode >= 0:
        return returncode, None
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return 128 - returncode, name
