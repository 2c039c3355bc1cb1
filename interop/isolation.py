"""Nothing leaves loopback: agents run in a network namespace that has no other, or not at all."""

import os
import shutil
import socket
import subprocess
from collections.abc import Sequence

_BRING_UP = 'ip link set lo up && exec "$@"'
# What agents see of the machine's own environment.
_KEPT = ("LANG", "LC_ALL", "PATH", "TERM", "TMPDIR")


class NotIsolated(Exception):
    """Agents could reach the network."""


def wrapped(command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return how to run a command apart from the network, and its environment.

    Raises NotIsolated.
    """
    environ = {name: os.environ[name] for name in _KEPT if name in os.environ}
    for unshare in (["unshare", "--net"], ["unshare", "--map-root-user", "--net"]):
        apart = [*unshare, "sh", "-c", _BRING_UP, "sh"]
        if _works([*apart, "true"]):
            return [*apart, *command], environ
    raise NotIsolated(
        "no network namespace could be made: this needs Linux, with `unshare`, `ip` and the right "
        "to use them"
    )


def check_isolation() -> None:
    """Raise NotIsolated unless this process has nothing but loopback."""
    names = [name for _, name in socket.if_nameindex()]
    if names != ["lo"]:
        raise NotIsolated(f"there are other networks than loopback here: {', '.join(names)}")


def _works(command: Sequence[str]) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
