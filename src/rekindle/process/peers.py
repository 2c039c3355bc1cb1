"""Identify the process at the other end of a unix socket."""

import os
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rekindle.process.group import MARK

_PROC = Path("/proc")
_MAX_ANCESTORS = 1000
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2
"""Constants of macOS."""


class PeerProcess(NamedTuple):
    """The user and the id of a process."""

    uid: int
    pid: int


def peer_of(connection: socket.socket) -> PeerProcess:
    """Return the process that has connected a unix socket. Raises OSError."""
    if sys.platform == "darwin":
        credentials = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 8)
        pid = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID)
        return PeerProcess(struct.unpack("2I", credentials)[1], pid)
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, _ = struct.unpack("3i", credentials)
    return PeerProcess(uid, pid)


def descends_from_agent(
    pid: int, proc: Path = _PROC, *, is_trusted: Callable[[int], bool] = lambda _: False
) -> bool:
    """Return whether a process may be a descendant of an agent that this process has started.

    Its ancestors and the mark in its environment show it. Only Linux shows both. A process that has
    ended already cannot be judged, so it counts as a descendant. `is_trusted` returns whether a
    child of this process is no agent, and so are its descendants without the mark.
    """
    if sys.platform != "linux":
        return False
    own = str(os.getpid())
    try:
        environ = (proc / str(pid) / "environ").read_bytes().split(b"\0")
        if any(it.startswith(f"{MARK}={own}.".encode()) for it in environ):
            return True
        for _ in range(_MAX_ANCESTORS):
            if is_trusted(pid):
                return False
            # The name of the program is in parentheses, and may contain any characters.
            stat = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
            pid = int(stat.rpartition(")")[2].split()[1])
            if pid <= 1 or str(pid) == own:
                return pid > 1
    except (OSError, ValueError):
        return True
    return True
