"""Start `rekindle` quickly: fork a process that has imported it already.

A new Python process takes a tenth of a second to import Rekindle, and the tests start some thousand
of them. Here, one server process for each test process imports everything once and then forks a
child for each command. The child is a real process with its own streams, environment, folder and
exit status; only the interpreter's settings are the server's, and its imports are done. The agents
that it starts are forked from the server too, so their parent is not the process that started them.
Where that matters, give the child `REKINDLE_TESTS=all` in its environment.

`Popen` and `run` have the interface of `subprocess`. They start a new Python process instead if

* `REKINDLE_TESTS=all` is set, so that `.ci/run` tests what users run,
* the command is neither `REKINDLE` nor a script in `tests/agents`,
* an option is used that the server does not support,
* the environment has other settings that Python or a library reads only when it starts,
* the test runs as another user than the server, or
* the `subprocess` module of this Python calls its private methods with other arguments.
"""

import atexit
import fcntl
import gc
import importlib
import inspect
import io
import json
import math
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from selection import is_everything

REKINDLE = (sys.executable, "-m", "rekindle")

_REKINDLE_OF_CLIENT = (sys.executable, "-P", "-m", "rekindle")
_AGENTS = Path(__file__).parents[1] / "agents"
_MAX_ORDER = 65536
_READ_ONCE = ("PYTHON", "TEXTUAL")
"""How the names of variables begin that are read only when a process starts."""
_HARMLESS = {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
_LOCALE = ("LC_ALL", "LC_CTYPE", "LANG")
_C_LOCALES = {"C", "POSIX", "C.UTF-8", "C.utf8", "UTF-8"}
_OPTIONS = {
    "stdin", "stdout", "stderr", "bufsize", "text", "errors", "cwd", "env", "start_new_session",
    "process_group",
}  # fmt: skip
"""The options of `subprocess.Popen` that the server supports."""
_CHILD_ARGUMENTS = (
    "self", "args", "executable", "preexec_fn", "close_fds", "pass_fds", "cwd", "env",
    "startupinfo", "creationflags", "shell", "p2cread", "p2cwrite", "c2pread", "c2pwrite",
    "errread", "errwrite", "restore_signals", "gid", "gids", "uid", "umask", "start_new_session",
    "process_group",
)  # fmt: skip
"""The arguments of `subprocess.Popen._execute_child`, a private method that is overridden here."""
_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_NOT_FLUSHED = 120
"""The exit code of Python if it cannot write what is left in the buffers of its streams."""

# Makes the terminal on its standard input its own, so that Ctrl-C is a signal; then runs a command.
_IN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Popen(subprocess.Popen[Any]):
    """A `subprocess.Popen` whose child is forked from the server where that is possible.

    With `terminal`, the child starts a session whose controlling terminal is its standard input.
    """

    _order: dict[str, Any] | None = None
    """The order for the server; None if the process is a new one."""
    _status = -1
    """The pipe from which the exit code is read."""

    def __init__(
        self,
        args: Sequence[str | bytes | Path],
        *,
        terminal: bool = False,
        **options: Any,  # noqa: ANN401 - as `subprocess` has them
    ) -> None:
        if terminal:
            options["start_new_session"] = True
        program = _program(args)
        if program is not None and _is_supported(options):
            self._order = {**program, "terminal": terminal}
        elif terminal:
            args = [sys.executable, "-c", _IN_TERMINAL, *args]
        super().__init__(args, **options)

    def _execute_child(self, *args: Any) -> None:  # noqa: ANN401 - as `subprocess` has them
        """Have the server fork a child. `subprocess` has made the pipes already."""
        if self._order is None:
            super()._execute_child(*args)  # type: ignore[misc]
            return
        given = dict(zip(_CHILD_ARGUMENTS, (self, *args), strict=True))
        environ = os.environ if given["env"] is None else given["env"]
        order = self._order | {
            "cwd": os.fsdecode(given["cwd"] or Path.cwd()),
            "environ": dict(environ),
            "session": given["start_new_session"],
            "group": given["process_group"],
        }
        ends = (given["p2cread"], given["c2pwrite"], given["errwrite"])
        streams = [own if fd == -1 else fd for own, fd in enumerate(ends)]
        self._status, theirs = os.pipe()
        try:
            self.pid = _server().fork(order, [*streams, theirs])
        except BrokenPipeError:
            # The test process has ended, and so has the server.
            self._order = None
            self._close_status()
            super()._execute_child(*args)  # type: ignore[misc]
            return
        except BaseException:
            self._close_status()
            raise
        finally:
            os.close(theirs)
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in _PIPES))  # type: ignore[attr-defined]

    def __del__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as above
        if self._order is None:
            super().__del__(*args, **options)  # type: ignore[misc]
        elif self._status != -1:
            self._close_status()
            text = f"process {self.pid} was never waited for"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)

    def _close_status(self) -> None:
        status, self._status = self._status, -1
        if status != -1:
            os.close(status)

    def _internal_poll(self, *args: Any, **options: Any) -> int | None:  # noqa: ANN401 - as above
        if self._order is None:
            return super()._internal_poll(*args, **options)  # type: ignore[misc]
        with suppress(subprocess.TimeoutExpired):
            self._wait(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self._order is None:
            return super()._wait(timeout)  # type: ignore[misc]
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                # Unlike `select`, `poll` accepts file descriptors from 1024 on.
                poll = select.poll()
                poll.register(self._status, select.POLLIN)
                if not poll.poll(None if timeout is None else math.ceil(timeout * 1000)):
                    raise subprocess.TimeoutExpired(self.args, timeout or 0)
                self.returncode = int(os.read(self._status, 16) or b"-9")
                self._close_status()
        return self.returncode


def run(
    args: Sequence[str | bytes | Path],
    *,
    input: str | bytes | None = None,  # noqa: A002 - as `subprocess` has it
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,  # noqa: ANN401 - as above
) -> "subprocess.CompletedProcess[Any]":
    """Run a command to its end, as `subprocess.run` does."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with Popen(args, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


@contextmanager
def forked_agents() -> Generator[None]:
    """Fork agents that a client in the test process starts."""
    original = subprocess.Popen
    subprocess.Popen = Popen  # type: ignore[misc]
    try:
        yield
    finally:
        subprocess.Popen = original  # type: ignore[misc]


def _program(args: Sequence[str | bytes | Path]) -> dict[str, Any] | None:
    """Return the program for the server; None if it is not one that it can run."""
    if isinstance(args, str | bytes | Path):
        return None
    words = [os.fsdecode(word) for word in args]
    for start in (REKINDLE, _REKINDLE_OF_CLIENT):
        if tuple(words[: len(start)]) == start:
            return {"script": None, "arguments": words[len(start) :]}
    if words[:1] == [sys.executable] and Path(*words[1:2]).parent == _AGENTS:
        return {"script": words[1], "arguments": words[2:]}
    return None


def _is_supported(options: Mapping[str, Any]) -> bool:
    environ = options.get("env") or os.environ
    return (
        sys.platform == "linux"
        and not is_everything()
        and {name for name, value in options.items() if value is not None} <= _OPTIONS
        and os.geteuid() == os.getuid()
        and (options.get("cwd") is not None or _has_current_folder())
        and _child_arguments_here() == _CHILD_ARGUMENTS
        and _read_once(environ) == _read_once_here()
        and (_locale(environ) in _C_LOCALES or _locale(environ).lower().endswith("utf-8"))
    )


def _has_current_folder() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


@cache
def _child_arguments_here() -> tuple[str, ...]:
    method: Any = getattr(Popen.__base__, "_execute_child", None)
    return tuple(inspect.signature(method).parameters) if method else ()


def _read_once(environ: Mapping[str, str]) -> dict[str, str]:
    names = {name for name in environ if name.startswith(_READ_ONCE)} - _HARMLESS
    return {name: environ[name] for name in names}


@cache
def _read_once_here() -> dict[str, str]:
    return _read_once(os.environ)


def _locale(environ: Mapping[str, str]) -> str:
    return next((environ[name] for name in _LOCALE if environ.get(name)), "C")


_inherited: "_Connection | None" = None
"""The connection of a forked process to the server."""


def _server() -> "_Connection":
    return _inherited or _started_server()


@cache
def _started_server() -> "_Server":
    return _Server()


class _Connection:
    """A connection to the server."""

    def __init__(self, control: socket.socket) -> None:
        self._lock = threading.Lock()
        self._control = control

    def fork(self, order: dict[str, Any], fds: list[int]) -> int:
        """Start a child with these standard streams; return its process id.

        Raises OSError if the server has ended.
        """
        with self._lock:
            return self._send(order, fds)

    def _send(self, order: dict[str, Any], fds: list[int]) -> int:
        socket.send_fds(self._control, [json.dumps(order).encode()], fds)
        reply = self._control.recv(_MAX_ORDER)
        if not reply:
            raise BrokenPipeError("the server has ended")
        return int(reply)


class _Server(_Connection):
    """The server, as the test process sees it. It ends with the test process.

    A test may end it: some end every child of the test process. It is then started again.
    """

    def __init__(self) -> None:
        super().__init__(self._start())
        atexit.register(self.close)

    def _start(self) -> socket.socket:
        control, theirs = _socket_pair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        return control

    def fork(self, order: dict[str, Any], fds: list[int]) -> int:
        """Start a child with these standard streams; return its process id.

        Raises OSError if the server ends even after it was started again.
        """
        with self._lock:
            if self._process.poll() is None:
                with suppress(ConnectionError):
                    return self._send(order, fds)
            self.close()
            self._control = self._start()
            return self._send(order, fds)

    def close(self) -> None:
        self._control.close()
        self._process.wait()


# -- in the server's process ------------------------------------------------------------


class _ForkServer:
    """Forks children until the test process closes its connection; writes how each one ended.

    Each child has a connection of its own, by which it has others forked.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control.fileno()
        self._connections = {self._control: control}
        self._statuses: dict[int, int] = {}
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._poll = select.poll()
        for source in (self._control, self._woken):
            self._poll.register(source, select.POLLIN)

    def serve(self) -> None:
        while self._control in self._connections:
            ready = {fd for fd, _ in self._poll.poll()}
            if self._woken in ready:
                os.read(self._woken, _MAX_ORDER)
                self._reap()
            for source in ready & self._connections.keys():
                self._answer(source)

    def _answer(self, source: int) -> None:
        """Fork the child that was ordered; forget the connection if it has ended."""
        connection = self._connections[source]
        data, fds = _receive(connection)
        if not data:
            self._poll.unregister(source)
            self._connections.pop(source).close()
            return
        pid = self._fork(json.loads(data), fds)
        self._statuses[pid] = fds.pop()
        for fd in fds:
            os.close(fd)
        with suppress(BrokenPipeError):
            connection.send(str(pid).encode())

    def _fork(self, order: dict[str, Any], fds: list[int]) -> int:
        ours, theirs = _socket_pair()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for fd in (self._woken, self._wake, *self._statuses.values()):
                os.close(fd)
            for connection in (ours, *self._connections.values()):
                connection.close()
            _run_command(order, fds, theirs)
        if order["group"] == 0:
            # Before the answer, so that the group exists when `Popen` returns.
            with suppress(ProcessLookupError, PermissionError):
                os.setpgid(pid, pid)
        theirs.close()
        self._connections[ours.fileno()] = ours
        self._poll.register(ours, select.POLLIN)
        return pid

    def _reap(self) -> None:
        while self._statuses:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            fd = self._statuses.pop(pid)
            with suppress(BrokenPipeError):
                os.write(fd, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(fd)


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Return an order and its file descriptors; nothing if the other side has ended."""
    try:
        data, fds, _, _ = socket.recv_fds(connection, _MAX_ORDER, 4)
    except ConnectionResetError:
        return b"", []
    return data, list(fds)


def _run_command(order: dict[str, Any], fds: list[int], control: socket.socket) -> None:
    """Become the process that was ordered, and exit as Python would."""
    global _inherited  # noqa: PLW0603 - there is one connection in a process
    code = 1
    try:
        _inherited = _Connection(control)
        subprocess.Popen = Popen  # type: ignore[misc]
        _set_up(order, fds)
        code = _exit_code(_main(order["script"]))
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - as Python does
        atexit._run_exitfuncs()  # noqa: SLF001 - as above
        for stream in filter(None, (sys.stdout, sys.stderr)):
            try:
                stream.flush()
            except (OSError, ValueError):
                code = _NOT_FLUSHED
    except BaseException:  # noqa: BLE001 - Python shows whatever a program does not catch
        traceback.print_exc()
    finally:
        os._exit(code & 0xFF)


def _set_up(order: dict[str, Any], fds: list[int]) -> None:
    os.close(fds.pop())
    for place, fd in enumerate(fds):
        os.dup2(fd, place)
    for fd in set(fds) - {0, 1, 2}:
        os.close(fd)
    if order["session"]:
        os.setsid()
    if order["group"] == 0:
        os.setpgid(0, 0)
    if order["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environ"])
    time.tzset()
    errors = "surrogateescape" if _locale(os.environ) in _C_LOCALES else "strict"
    streams = open(0, "rb"), open(1, "wb"), open(2, "wb")  # noqa: SIM115 - until the process ends
    sys.stdin = io.TextIOWrapper(streams[0], "utf-8", errors)
    sys.stdout = io.TextIOWrapper(streams[1], "utf-8", errors, "\n", line_buffering=os.isatty(1))
    sys.stderr = io.TextIOWrapper(streams[2], "utf-8", "backslashreplace", "\n", True)  # noqa: FBT003
    if order["script"]:
        sys.path[0] = str(_AGENTS)
    sys.argv = [order["script"] or "rekindle", *order["arguments"]]


def _main(script: str | None) -> Callable[[], object]:
    """Return the function that runs Rekindle or a script."""
    if script is not None:
        return lambda: runpy.run_path(script, run_name="__main__")
    from rekindle.__main__ import main  # noqa: PLC0415 - `_import_everything` has loaded it

    return main


def _exit_code(main: Callable[[], object]) -> int:
    try:
        code = main()
        return code if isinstance(code, int) else 0
    except SystemExit as exit_:
        if isinstance(exit_.code, str):
            print(exit_.code, file=sys.stderr)  # noqa: T201 - as Python does
            return 1
        return exit_.code or 0


def _import_everything() -> None:
    """Import all modules of Rekindle, and so all libraries that they use when they are imported."""
    import rekindle  # noqa: PLC0415 - only in the server's process

    for module in pkgutil.walk_packages(rekindle.__path__, "rekindle."):
        importlib.import_module(module.name)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_everything()
    gc.collect()
    gc.freeze()
    _ForkServer(socket.socket(fileno=int(sys.argv[1]))).serve()
