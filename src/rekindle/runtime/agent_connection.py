"""One agent process, and what is between it and the runner."""

from collections.abc import Callable
from threading import Thread

from rekindle.errors import EndlessLine
from rekindle.process.deadline import Patience
from rekindle.runtime.agent_process import Agent
from rekindle.runtime.transports.stdio import Sink, read_lines

_PATIENCE_FOR_STDERR = 0.5
_PATIENCE_FOR_LEFTOVERS = 1.0
_TICK = 0.05


class Link:
    """A running agent, the sink to it, and the thread that reads from it."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.sink = Sink(agent.stdin, lambda: None)
        self.status: tuple[int, str | None] = (0, None)
        self.is_silent = False
        """Whether the agent has closed its output, or is not listened to any more."""
        self.failure = ""
        """Why it is not."""
        self.is_over = False
        """Whether it has ended, and all that it said was passed on."""
        self._reader: Thread | None = None

    def start(
        self, receive: Callable[[bytes, bool], None], on_event: Callable[["Link"], None]
    ) -> None:
        """Begin to read. `on_event` is called when the agent falls silent, and when it ends."""

        def read() -> None:
            try:
                for lines, is_terminated in read_lines(self.agent.stdout):
                    receive(lines, is_terminated)
            except EndlessLine as error:
                self.failure = str(error)
            self.is_silent = True
            on_event(self)

        def wait() -> None:
            self.status = self.agent.wait()
            self.is_over = True
            on_event(self)

        self._reader = start_thread(read)
        start_thread(wait)

    def drain(self, is_client_slow: Callable[[], bool]) -> bool:
        """Let the last pass that the agent has written; tell whether it left something running."""
        reader = self._reader
        patience = Patience(_PATIENCE_FOR_LEFTOVERS)
        while reader is not None and reader.is_alive() and not patience.is_over:
            reader.join(_TICK)
            if is_client_slow():
                # The client is slow, or busy. It still gets everything.
                patience = Patience(_PATIENCE_FOR_LEFTOVERS)
        was_left = self.agent.end(_PATIENCE_FOR_LEFTOVERS)
        if reader is not None:
            reader.join(_TICK)
        return was_left

    def close(self) -> None:
        """Let go of pipes and threads, of all that are not in use: others may hold the far ends."""
        if self.sink.close():
            self.agent.close_stdin()
        if self._reader is not None and not self._reader.is_alive():
            self.agent.close_outputs()

    def last_words(self) -> tuple[str, ...]:
        """Return the last lines of the agent's stderr."""
        return self.agent.last_words(_PATIENCE_FOR_STDERR)


def start_thread(target: Callable[[], None]) -> Thread:
    """Start a thread that does not keep the process alive."""
    thread = Thread(target=target, daemon=True)
    thread.start()
    return thread
