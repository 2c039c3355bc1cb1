"""Continue in a process that does not end with its parent's process group, session or tree.

An editor ends its child: the child's process group, or, on Linux, every descendant. So the work is
done by a process that is no descendant of the editor. It has the standard streams of the child.
The child only forwards signals, and exits when the other process has no use for it any more.
POSIX only. Call `detach` before any thread is started.
"""

import atexit
import os
import signal
from collections.abc import Iterable, Iterator
from typing import NoReturn

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_KILLED = 1
"""The exit code of the child if the detached process was killed."""


class DetachedProcess:
    """The detached process's end of the connection with the child that its parent knows."""

    def __init__(self, signals: int, status: int) -> None:
        self._signals = signals
        self._status: int | None = status
        self.exit_code = _KILLED
        """The exit code of the child, if this process ends before `release`."""
        atexit.register(self._report)

    def signals(self) -> Iterator[int]:
        """Yield the signals that the child receives, until the child has ended."""
        while received := os.read(self._signals, 1):
            yield received[0]

    def release(self) -> None:
        """Let the child exit with code 0: this process continues without its parent."""
        self.exit_code = 0
        self._report()

    def _report(self) -> None:
        status, self._status = self._status, None
        if status is not None:
            try:
                os.write(status, bytes([self.exit_code & 0xFF]))
            except BrokenPipeError:
                # The child was killed.
                return
            finally:
                os.close(status)


def detach() -> DetachedProcess:
    """Continue in a new process with a session of its own. The present one never returns."""
    signals, to_detached = os.pipe()
    status, to_child = os.pipe()
    # A signal that arrives before its handler is installed waits.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    between = os.fork()
    if between:
        os.close(signals)
        os.close(to_child)
        os.waitpid(between, 0)
        _forward_signals(status, to_detached, mask)
    os.setsid()
    if os.fork():
        # The next process is an orphan, which the system adopts.
        os._exit(0)
    os.close(to_detached)
    os.close(status)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return DetachedProcess(signals, to_child)


def _forward_signals(status: int, to_detached: int, mask: Iterable[int]) -> NoReturn:
    """Forward signals to the detached process, and exit with the code that it reports."""

    def forward(number: int, _: object) -> None:
        try:
            os.write(to_detached, bytes([number]))
        except BrokenPipeError:
            # It has ended: its status follows.
            return

    for number in _FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    redirect_to_null(0, 1)
    code = os.read(status, 1)
    os._exit(code[0] if code else _KILLED)


def redirect_to_null(*fds: int) -> None:
    """Replace descriptors by the null device, so that their other ends see them closed."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in fds:
        os.dup2(null, fd)
    os.close(null)
