"""The isolation of agents: a network namespace with loopback only, and `kill -9` for all."""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

_PR_SET_CHILD_SUBREAPER = 36
_ROUNDS = 20
_REAPING_ROUNDS = 1000
_TICK = 0.01
_BRING_UP = 'ip link set lo up && exec "$@"'
# The variables that agents get from the machine's environment.
_KEPT = ("LANG", "LC_ALL", "PATH", "TERM", "TMPDIR")


# -- the network ----------------------------------------------------------------------------


class NotIsolated(Exception):
    """The agents would have access to the network."""


def isolated_command(command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return a command wrapped in a network namespace, and its environment.

    Raises NotIsolated.
    """
    environ = {name: os.environ[name] for name in _KEPT if name in os.environ}
    for unshare in (["unshare", "--net"], ["unshare", "--map-root-user", "--net"]):
        wrapper = [*unshare, "sh", "-c", _BRING_UP, "sh"]
        if _works([*wrapper, "true"]):
            return [*wrapper, *command], environ
    raise NotIsolated(
        "no network namespace could be made: this needs Linux, with `unshare`, `ip` and the right "
        "to use them"
    )


def check_isolation() -> None:
    """Raise NotIsolated unless loopback is the only network of this process."""
    names = [name for _, name in socket.if_nameindex()]
    if names != ["lo"]:
        raise NotIsolated(f"there are other networks than loopback here: {', '.join(names)}")


def _works(command: Sequence[str]) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


# -- processes ------------------------------------------------------------------------------


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that none escapes. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> set[int]:
    """Return the ids of the children of this process."""
    return set(_descendants()[0])


def descendants() -> list[int]:
    """Return the ids of all descendants."""
    children, below = _descendants()
    return children + below


def kill_descendants(*, but_for_children: bool = False, first: Iterable[int] = ()) -> None:
    """Kill all descendants. Processes that they start meanwhile are killed in the next round.

    Behind Rekindle, the child is Rekindle: `but_for_children` kills the agent alone. To list the
    processes takes some time, so `first` has those that are to be killed before that.
    """
    _kill(first)
    for _ in range(_ROUNDS):
        children, below = _descendants()
        alive = below if but_for_children else children + below
        if not alive:
            return
        _kill(alive)


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def reap() -> None:
    """Reap killed processes. Call it only while no other code waits for a child."""
    with suppress(ChildProcessError):
        for _ in range(_REAPING_ROUNDS):
            if not os.waitpid(-1, os.WNOHANG)[0]:
                time.sleep(_TICK)


def _descendants() -> tuple[list[int], list[int]]:
    """Return the children of this process, and the descendants of the children."""
    command = ["ps", "-A", "-o", "pid=,ppid=,stat="]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as ps:
        listed, _ = ps.communicate()
    children: dict[int, list[int]] = {}
    for line in listed.splitlines():
        pid, parent, state = line.split()[:3]
        if int(pid) != ps.pid and not state.startswith("Z"):
            children.setdefault(int(parent), []).append(int(pid))
    own = children.get(os.getpid(), [])
    below: list[int] = []
    waiting = list(own)
    while waiting:
        found = children.get(waiting.pop(), [])
        below += found
        waiting += found
    return own, below
