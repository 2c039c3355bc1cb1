"""The agent as a child process. Imports little, because it is started before anything else."""

import codecs
import os
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import IO

from rekindle.process import group
from rekindle.process.orphan_guard import OrphanGuard
from rekindle.runtime.log import STDERR, write_stderr

_READ_BYTES = 65536
_TAIL_LINES = 20
_MAX_TAIL_LINE_BYTES = 500


class AgentProcess:
    """A running agent. Its stderr is forwarded to ours, and the last lines of it are kept.

    `grace` is the number of seconds that it has to end by itself if Rekindle is killed.
    `variables` are added to its environment.
    """

    def __init__(
        self,
        command: tuple[str, ...],
        *,
        grace: float,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.command = command
        self.grace = grace
        self.variables = variables
        self._guard = OrphanGuard(grace)
        try:
            self._process = group.start(command, {**group.marked_environment(), **variables})
        except BaseException:
            self._guard.dismiss()
            raise
        self._guard.watch(self.pid)
        self._tail: deque[bytes] = deque(maxlen=_TAIL_LINES)
        self._stderr_pump = threading.Thread(target=self._forward_stderr, daemon=True)
        self._stderr_pump.start()

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group."""
        return self._process.pid

    @property
    def stdin(self) -> int:
        """The descriptor to write to."""
        return _pipe(self._process.stdin).fileno()

    @property
    def stdout(self) -> int:
        """The descriptor to read from."""
        return _pipe(self._process.stdout).fileno()

    def close_stdin(self) -> None:
        """Signal the end of input to the agent."""
        _pipe(self._process.stdin).close()

    def close_outputs(self) -> None:
        """Close its output pipes. Call it only when no thread reads its stdout any more."""
        _pipe(self._process.stdout).close()
        if not self._stderr_pump.is_alive():
            _pipe(self._process.stderr).close()

    def signal(self, number: int) -> None:
        """Send a signal to the agent and its children."""
        group.send_signal(self.pid, number)

    def end(self, timeout: float) -> bool:
        """Terminate the agent and its children, then kill them; return whether any were left."""
        was_left = group.terminate(self.pid, timeout)
        if self._process.returncode is None:
            # It has moved to another group, which the signals did not reach.
            self._process.kill()
        self._guard.dismiss()
        return was_left

    def wait(self) -> tuple[int, str | None]:
        """Wait for the end; return the exit code, and the name of the signal that killed it."""
        return group.exit_status(self._process.wait())

    def stderr_tail(self, timeout: float) -> tuple[str, ...]:
        """Return the last lines of stderr, after waiting a little for lines that still come."""
        self._stderr_pump.join(timeout)
        return tuple(
            line[:_MAX_TAIL_LINE_BYTES].decode("utf-8", "replace").rstrip("\r")
            for line in self._tail.copy()
        )

    def _forward_stderr(self) -> None:
        stderr = _pipe(self._process.stderr)
        sanitize = _sanitizer() if os.isatty(STDERR) else None
        partial = b""
        while data := stderr.read(_READ_BYTES):
            write_stderr(data if sanitize is None else sanitize(data))
            *lines, partial = (partial + data).split(b"\n")
            self._tail.extend(line for line in lines if line.strip())
            partial = partial[:_READ_BYTES]
        if partial.strip():
            self._tail.append(partial)


def _sanitizer() -> Callable[[bytes], bytes]:
    """Return an incremental decoder that strips control sequences, for a terminal."""
    from rekindle.text.sanitize import clean  # noqa: PLC0415 - editors read pipes, not terminals

    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    return lambda data: clean(decode(data)).encode()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise subprocess.SubprocessError("the agent was started without pipes")
    return stream
