"""The agent as a child process. Imports little, because it is started before all else."""

import codecs
import os
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from typing import IO

from rekindle.process import group
from rekindle.process.orphan_guard import Guard
from rekindle.runtime.log import STDERR, write_stderr

_READ = 65536
_LAST_LINES = 20
_LONGEST_LINE = 500


class Agent:
    """A running agent. Its stderr is passed on to ours, and its last lines are remembered.

    `grace` is how many seconds it may take to end if we are killed.
    """

    def __init__(self, command: tuple[str, ...], *, grace: float) -> None:
        self.command = command
        self.grace = grace
        self._guard = Guard(grace)
        try:
            self._process = group.start(command)
        except BaseException:
            self._guard.dismiss()
            raise
        self._guard.watch(self.pid)
        self._last_lines: deque[bytes] = deque(maxlen=_LAST_LINES)
        self._stderr_pump = threading.Thread(target=self._pass_stderr_on, daemon=True)
        self._stderr_pump.start()

    @property
    def pid(self) -> int:
        """The process id, which is also its group's."""
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
        """Tell the agent that nothing more will come."""
        _pipe(self._process.stdin).close()

    def close_outputs(self) -> None:
        """Let go of its pipes. Call when nobody reads its stdout any more."""
        _pipe(self._process.stdout).close()
        if not self._stderr_pump.is_alive():
            _pipe(self._process.stderr).close()

    def signal(self, number: int) -> None:
        """Send a signal to the agent and its children."""
        group.send(self.pid, number)

    def end(self, patience: float) -> bool:
        """End the agent and its children: ask first, then force. Tell whether any were left."""
        was_left = group.end(self.pid, patience)
        if self._process.returncode is None:
            # It has moved to another group, where the signals did not reach it.
            self._process.kill()
        self._guard.dismiss()
        return was_left

    def wait(self) -> tuple[int, str | None]:
        """Wait for the end; return the exit code and the name of the signal that killed it."""
        return group.exit_status(self._process.wait())

    def last_words(self, patience: float) -> tuple[str, ...]:
        """Return the last lines of stderr, waiting a little for what is still on its way."""
        self._stderr_pump.join(patience)
        return tuple(
            line[:_LONGEST_LINE].decode("utf-8", "replace").rstrip("\r")
            for line in self._last_lines.copy()
        )

    def _pass_stderr_on(self) -> None:
        stderr = _pipe(self._process.stderr)
        shown = _cleaned() if os.isatty(STDERR) else None
        begun = b""
        while data := stderr.read(_READ):
            write_stderr(data if shown is None else shown(data))
            *whole, begun = (begun + data).split(b"\n")
            self._last_lines.extend(line for line in whole if line.strip())
            begun = begun[:_READ]
        if begun.strip():
            self._last_lines.append(begun)


def _cleaned() -> Callable[[bytes], bytes]:
    """Return what makes of bytes, as they come, what a terminal shows and does not obey."""
    from rekindle.text.sanitize import clean  # noqa: PLC0415 - editors read pipes

    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    return lambda data: clean(decode(data)).encode()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise subprocess.SubprocessError("the agent was started without pipes")
    return stream
