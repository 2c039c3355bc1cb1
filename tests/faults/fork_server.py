"""A server that starts Rekindle and clients quickly: it has imported them, and forks.

The children are ordinary processes. Some are started `cold`, as an editor does it, because a kill
can also come during the imports. Orders arrive over a socket, with the descriptors of the standard
streams.
"""

import ctypes
import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .client import pump

HERE = Path(__file__).parent
_MAX_ORDER = 65536
_MAX_DESCRIPTORS = 4
_PR_SET_CHILD_SUBREAPER = 36
_CAPABILITY_VERSION = 0x20080522
_CAP_DAC = 0b110
"""The capabilities to ignore the modes of files."""

Order = dict[str, Any]


class ForkServer:
    """The connection of the harness to the server."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._folder = Path(tempfile.mkdtemp(prefix="rekindle-preload-"))
        preload = _compile(self._folder)
        self.can_fail_disks = bool(preload)
        """Whether `failing_disk.c` is in the processes that the server starts."""
        # The package is found by its folder, whatever the current directory is.
        command = [sys.executable, "-m", f"{__package__}.fork_server", str(theirs.fileno())]
        paths = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            env=os.environ | {"PYTHONPATH": paths} | ({"LD_PRELOAD": preload} if preload else {}),
        )
        theirs.close()

    def start(self, way: str, fds: tuple[int, int, int], order: Order) -> int:
        """Start a process with these standard streams; return its id."""
        socket.send_fds(self._control, [json.dumps(order | {"way": way}).encode()], list(fds))
        return int(self._control.recv(_MAX_ORDER))

    def close(self) -> None:
        self._control.close()
        self._process.wait()
        shutil.rmtree(self._folder)


def _compile(folder: Path) -> str | None:
    """Compile the library that lets disks fail; return its path, or None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "failing_disk.so"
    source = HERE / "failing_disk.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", source, "-o", library, "-ldl"], check=True)
    return str(library)


def serve(control: socket.socket) -> Callable[[], object]:
    """Start processes as ordered. In a forked child, return the function that it runs."""
    while True:
        data, fds, _, _ = socket.recv_fds(control, _MAX_ORDER, _MAX_DESCRIPTORS)
        if not data:
            return lambda: None
        order: Order = json.loads(data)
        if order["way"] == "cold":
            pid = _start_cold(order, fds)
        else:
            pid = os.fork()
            if pid == 0:
                control.close()
                return _run_ordered(order, fds)
        for fd in fds:
            os.close(fd)
        control.send(str(pid).encode())


def _start_cold(order: Order, fds: list[int]) -> int:
    command = [sys.executable, "-m", "rekindle", *order["arguments"]]
    for fd in fds:
        # Received descriptors are inherited; a detached host would keep its editor's streams open.
        os.set_inheritable(fd, False)  # noqa: FBT003 - only by position
    onto = [(os.POSIX_SPAWN_DUP2, fd, place) for place, fd in enumerate(fds)]
    environ = os.environ | order["environ"]
    default = [signal.SIGCHLD]
    return os.posix_spawn(
        sys.executable, command, environ, file_actions=onto, setpgroup=0, setsigdef=default
    )


def _run_ordered(order: Order, fds: list[int]) -> Callable[[], object]:
    """Set up the child, and return the function that it runs."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, 0)
    for place, fd in enumerate(fds):
        os.dup2(fd, place)
        os.close(fd)
    # Python's own stream objects belong to the files of the server.
    sys.stdin, sys.stdout, sys.stderr = (
        open(place, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as we live
        for place, mode in enumerate("rww")
    )
    os.environ.update(order["environ"])
    if order["way"] == "client":
        return lambda: pump(Path(order["journal"]))
    if "clock" in order:
        _install_clock_jump(order["clock"])
    if "obeys_modes" in order:
        drop_file_capabilities()
    from rekindle.cli.main import main  # noqa: PLC0415 - only in the child

    return lambda: main(order["arguments"])


def _install_clock_jump(seconds: float) -> None:
    """Let SIGUSR1 set the clock of this process."""
    real, shift_ns = time.time_ns, [0]

    def jump(*_: object) -> None:
        shift_ns[0] += int(seconds * 1e9)

    time.time_ns = lambda: real() + shift_ns[0]
    signal.signal(signal.SIGUSR1, jump)


def drop_file_capabilities() -> None:
    """Obey the modes of files, also as root."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    # The effective, permitted and inheritable sets: the low 32 bits, then the high ones.
    sets = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.capget(header, sets)
    for place in range(3):
        sets[place] &= ~_CAP_DAC
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")


def _import_rekindle() -> None:
    """Import the modules of `rekindle run`, so that forked children have them."""
    for name in ("cli.commands.run", "runtime.driver", "runtime.recorder", "store.sqlite.store"):
        importlib.import_module(f"rekindle.{name}")


if __name__ == "__main__":
    _import_rekindle()
    # Children and their orphans are reaped automatically. In containers, the first process often
    # does not reap orphans, so this process adopts them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    do = serve(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(do())
