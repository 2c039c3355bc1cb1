"""Start `rekindle` quickly: fork a process that has imported it already.

A new Python process takes a tenth of a second to import Rekindle, and the tests start some thousand
of them. Here, one server process for each test process imports everything once and then forks a
child for each command. The child is a real process with its own streams, environment, folder and
exit status; only the interpreter's settings are the server's, and its imports are done.

`Popen` and `run` have the interface of `subprocess`. They start a new Python process instead if

* `REKINDLE_TESTS=all` is set, so that `.ci/run` tests what users run,
* the command is not `REKINDLE`, or an option is used that the server does not support,
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from selection import is_everything

REKINDLE = (sys.executable, "-m", "rekindle")

_MAX_ORDER = 65536
_READ_ONCE = ("PYTHON", "TEXTUAL")
"""How the names of variables begin that are read only when a process starts."""
_HARMLESS = {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
_LOCALE = ("LC_ALL", "LC_CTYPE", "LANG")
_C_LOCALES = {"C", "POSIX", "C.UTF-8", "C.utf8", "UTF-8"}
_OPTIONS = {
    "stdin", "stdout", "stderr", "bufsize", "text", "errors", "cwd", "env", "start_new_session",
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
        if _is_supported(args, options):
            words = [os.fsdecode(word) for word in args[len(REKINDLE) :]]
            self._order = {"arguments": words, "terminal": terminal}
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
        }
        ends = (given["p2cread"], given["c2pwrite"], given["errwrite"])
        streams = [own if fd == -1 else fd for own, fd in enumerate(ends)]
        self._status, theirs = os.pipe()
        try:
            self.pid = _server().fork(order, [*streams, theirs])
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


def _is_supported(args: Sequence[object], options: Mapping[str, Any]) -> bool:
    environ = options.get("env") or os.environ
    return (
        sys.platform == "linux"
        and not is_everything()
        and tuple(args[: len(REKINDLE)]) == REKINDLE
        and {name for name, value in options.items() if value is not None} <= _OPTIONS
        and os.geteuid() == os.getuid()
        and _child_arguments_here() == _CHILD_ARGUMENTS
        and _read_once(environ) == _read_once_here()
        and (_locale(environ) in _C_LOCALES or _locale(environ).lower().endswith("utf-8"))
    )


@cache
def _child_arguments_here() -> tuple[str, ...]:
    method: Any = getattr(subprocess.Popen, "_execute_child", None)
    return tuple(inspect.signature(method).parameters) if method else ()


def _read_once(environ: Mapping[str, str]) -> dict[str, str]:
    names = {name for name in environ if name.startswith(_READ_ONCE)} - _HARMLESS
    return {name: environ[name] for name in names}


@cache
def _read_once_here() -> dict[str, str]:
    return _read_once(os.environ)


def _locale(environ: Mapping[str, str]) -> str:
    return next((environ[name] for name in _LOCALE if environ.get(name)), "C")


@cache
def _server() -> "_Server":
    return _Server()


class _Server:
    """The server, as the test process sees it. It ends with the test process.

    A test may end it: some end every child of the test process. It is then started again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._start()
        atexit.register(self.close)

    def _start(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def fork(self, order: dict[str, Any], fds: list[int]) -> int:
        """Start a child with these standard streams; return its process id.

        Raises OSError if the server ends even after it was started again.
        """
        with self._lock:
            if self._process.poll() is None:
                with suppress(ConnectionError):
                    return self._send(order, fds)
            self.close()
            self._start()
            return self._send(order, fds)

    def _send(self, order: dict[str, Any], fds: list[int]) -> int:
        socket.send_fds(self._control, [json.dumps(order).encode()], fds)
        reply = self._control.recv(_MAX_ORDER)
        if not reply:
            raise ConnectionResetError("the server has ended")
        return int(reply)

    def close(self) -> None:
        self._control.close()
        self._process.wait()


# -- in the server's process ------------------------------------------------------------


def _serve(control: socket.socket) -> None:
    """Fork children until the test process closes the connection; write how each one ended."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    statuses: dict[int, int] = {}
    poll = select.poll()
    for source in (control.fileno(), woken):
        poll.register(source, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if woken in ready:
            os.read(woken, _MAX_ORDER)
            _reap(statuses)
        if control.fileno() not in ready:
            continue
        data, fds, _, _ = socket.recv_fds(control, _MAX_ORDER, 4)
        if not data:
            return
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for fd in (control.detach(), woken, wake, *statuses.values()):
                os.close(fd)
            _run_command(json.loads(data), fds)
        statuses[pid] = fds.pop()
        for fd in fds:
            os.close(fd)
        control.send(str(pid).encode())


def _reap(statuses: dict[int, int]) -> None:
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        fd = statuses.pop(pid)
        with suppress(BrokenPipeError):
            os.write(fd, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(fd)


def _run_command(order: dict[str, Any], fds: list[int]) -> None:
    """Become the process that was ordered, and exit as Python would."""
    code = 1
    try:
        _set_up(order, fds)
        from rekindle.__main__ import main  # noqa: PLC0415 - `_import_everything` has loaded it

        code = _exit_code(main)
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
    sys.argv = ["rekindle", *order["arguments"]]


def _exit_code(main: Callable[[], int]) -> int:
    try:
        return main()
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
    _serve(socket.socket(fileno=int(sys.argv[1])))
