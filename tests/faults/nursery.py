"""A process that starts Rekindle and clients quickly: it has loaded them once, and forks.

What comes of that are processes like any other, with pipes, descriptors and a death of their own.
Some are started `cold` all the same, as an editor does it, because loading is a moment, too, in
which one can be killed. Orders come over a socket, with the descriptors for standard streams.
"""

import ctypes
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .client import pump

HERE = Path(__file__).parent
_LARGEST_ORDER = 65536
_MOST_DESCRIPTORS = 4
_PR_SET_CHILD_SUBREAPER = 36
_CAPABILITY_VERSION = 0x20080522
_CAP_DAC = 0b110
"""To write and to read what their modes forbid."""

Order = dict[str, Any]


class Nursery:
    """The harness's end: it gives orders."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # It is found by the name of its folder, wherever the harness was started.
        command = [sys.executable, "-m", f"{__package__}.nursery", str(theirs.fileno())]
        paths = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], env=os.environ | {"PYTHONPATH": paths}
        )
        theirs.close()

    def start(self, way: str, fds: tuple[int, int, int], order: Order) -> int:
        """Start a process with these standard streams; return its id."""
        socket.send_fds(self._control, [json.dumps(order | {"way": way}).encode()], list(fds))
        return int(self._control.recv(_LARGEST_ORDER))

    def close(self) -> None:
        self._control.close()
        self._process.wait()


def serve(control: socket.socket) -> Callable[[], object]:
    """Start what is ordered; in a process that was forked, return what it is to do."""
    while True:
        data, fds, _, _ = socket.recv_fds(control, _LARGEST_ORDER, _MOST_DESCRIPTORS)
        if not data:
            return lambda: None
        order: Order = json.loads(data)
        if order["way"] == "cold":
            pid = _start_cold(order, fds)
        else:
            pid = os.fork()
            if pid == 0:
                control.close()
                return _become(order, fds)
        for fd in fds:
            os.close(fd)
        control.send(str(pid).encode())


def _start_cold(order: Order, fds: list[int]) -> int:
    command = [sys.executable, "-m", "rekindle", *order["arguments"]]
    onto = [(os.POSIX_SPAWN_DUP2, fd, place) for place, fd in enumerate(fds)]
    environ = os.environ | order["environ"]
    default = [signal.SIGCHLD]
    return os.posix_spawn(
        sys.executable, command, environ, file_actions=onto, setpgroup=0, setsigdef=default
    )


def _become(order: Order, fds: list[int]) -> Callable[[], object]:
    """Make this process the one that was ordered."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, 0)
    for place, fd in enumerate(fds):
        os.dup2(fd, place)
        os.close(fd)
    # Those that Python has made are of other files.
    sys.stdin, sys.stdout, sys.stderr = (
        open(place, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as we live
        for place, mode in enumerate("rww")
    )
    os.environ.update(order["environ"])
    if order["way"] == "client":
        return lambda: pump(Path(order["journal"]))
    if "clock" in order:
        _let_the_clock_jump(order["clock"])
    if "obeys_modes" in order:
        obey_modes()
    from rekindle.cli.main import main  # noqa: PLC0415 - this is the process that it is for

    return lambda: main(order["arguments"])


def _let_the_clock_jump(seconds: float) -> None:
    """Have SIGUSR1 set this process's clock."""
    real, shift_ns = time.time_ns, [0]

    def jump(*_: object) -> None:
        shift_ns[0] += int(seconds * 1e9)

    time.time_ns = lambda: real() + shift_ns[0]
    signal.signal(signal.SIGUSR1, jump)


def obey_modes() -> None:
    """Be a process that may do what the modes of files say, and no more, also as root."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    # Which are effective, permitted and inheritable, 32 of them; and the same for more.
    sets = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.capget(header, sets)
    for place in range(3):
        sets[place] &= ~_CAP_DAC
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")


def _load() -> None:
    """Load what `rekindle run` does, so that those who are forked have it."""
    for name in ("cli.commands.run", "runtime.driver", "runtime.recorder", "store.sqlite.store"):
        importlib.import_module(f"rekindle.{name}")


if __name__ == "__main__":
    _load()
    # Nobody waits for those that are started, nor for what they leave behind. A machine's first
    # process would see to their remains, but in containers it often does not; so we do.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    do = serve(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(do())
