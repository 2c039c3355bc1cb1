"""One agent process, the writer to it, and the threads that read from it and wait for its end."""

from collections.abc import Callable
from threading import Thread

from rekindle.errors import EndlessLine
from rekindle.process.deadline import Deadline
from rekindle.proxy.step import AgentExit
from rekindle.runtime.agent_process import AgentProcess
from rekindle.runtime.transports.pipe_writer import PipeWriter
from rekindle.runtime.transports.stdio import read_lines

_STDERR_TIMEOUT = 0.5
_DRAIN_TIMEOUT = 1.0
_POLL_SECONDS = 0.05


class AgentConnection:
    """The connection to one agent process. A restarted agent has a new one."""

    def __init__(self, process: AgentProcess) -> None:
        self.process = process
        self.writer = PipeWriter(process.stdin, lambda: None)
        self.status: tuple[int, str | None] = (0, None)
        """The exit code, and the name of the signal that killed the process."""
        self.has_closed_output = False
        """Whether nothing more is read from it: it closed its output, or broke a limit."""
        self.failure = ""
        """The limit that it broke."""
        self.has_exited = False
        self.is_receiving = False
        """Whether some of its output is being forwarded at the moment."""
        self._reader: Thread | None = None

    def start(
        self,
        receive: Callable[[bytes, bool], None],
        on_event: Callable[["AgentConnection"], None],
    ) -> None:
        """Start to read. `on_event` is called when the agent closes its output or exits."""

        def read() -> None:
            try:
                for lines, is_terminated in read_lines(self.process.stdout):
                    self.is_receiving = True
                    receive(lines, is_terminated)
                    self.is_receiving = False
            except EndlessLine as error:
                self.failure = str(error)
            self.has_closed_output = True
            on_event(self)

        def wait() -> None:
            self.status = self.process.wait()
            self.has_exited = True
            on_event(self)

        self._reader = start_thread(read)
        start_thread(wait)

    def drain(self, is_busy: Callable[[], bool]) -> bool:
        """Read what the agent wrote before it exited; return whether it left processes behind.

        Time during which `is_busy` returns True does not count: a slow client receives everything.
        """
        reader = self._reader
        deadline = Deadline(_DRAIN_TIMEOUT)
        while reader is not None and reader.is_alive() and (is_busy() or not deadline.has_passed):
            if is_busy():
                deadline = Deadline(_DRAIN_TIMEOUT)
            reader.join(_POLL_SECONDS)
        was_left = self.process.end(_DRAIN_TIMEOUT)
        if reader is not None:
            reader.join(_POLL_SECONDS)
        return was_left

    def close(self) -> None:
        """Close the pipes that no thread uses. Other processes may hold their far ends."""
        if self.writer.close():
            self.process.close_stdin()
        if self._reader is not None and not self._reader.is_alive():
            self.process.close_outputs()

    def exit(self) -> AgentExit:
        """Return how the process ended."""
        code, signal_name = self.status
        return AgentExit(
            exit_code=None if signal_name else code,
            signal=signal_name,
            stderr_tail=self.process.stderr_tail(_STDERR_TIMEOUT),
        )


def start_thread(target: Callable[[], object]) -> Thread:
    """Start a thread that does not keep the process alive."""
    thread = Thread(target=target, daemon=True)
    thread.start()
    return thread
