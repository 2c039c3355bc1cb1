"""`rekindle run`: a client on standard input and output, and an agent as a child process.

One thread reads from each peer. An agent that exits is buried: its last output is forwarded, and
the requests that it left open are answered. It is started again when the engine needs it for a
request.

The end: when the client closes its side, the agent's input is closed too, and after a grace time
the agent is ended. Its remaining output is still forwarded, however slowly the client reads. Only a
signal, or a client that is gone, ends this wait.

With a detachment, a turn that is running then continues without the client, and so do sessions
that other clients have open. The end comes when none of them is left.
"""

import os
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from shutil import which
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from rekindle.errors import EndlessLine, RekindleError
from rekindle.model import LeaseHolder
from rekindle.process.deadline import Deadline
from rekindle.process.group import TERMINATE_TIMEOUT
from rekindle.proxy.engine import Engine
from rekindle.proxy.peers import AGENT
from rekindle.runtime.agent_connection import AgentConnection, start_thread
from rekindle.runtime.agent_process import AgentProcess
from rekindle.runtime.driver import Driver
from rekindle.runtime.local_server import LocalServer, connect_to_host
from rekindle.runtime.log import Log
from rekindle.runtime.recorder import Recorder
from rekindle.runtime.signals import ENDING, Signals
from rekindle.runtime.transports.stdio import StdioTransport
from rekindle.store.base import ReadableStore

if TYPE_CHECKING:
    from rekindle.process.detach import DetachedProcess
    from rekindle.runtime.detachment import Detachment
    from rekindle.runtime.hooks import HookRunner

_EXIT_TIMEOUT_AFTER_CLOSE = 0.2
_FIRST_MESSAGE_TIMEOUT = 1.0
_MAX_WAIT = 1.0
_READING_TIMEOUT = 30.0
_POLL_SECONDS = 0.05


class _End(Struct):
    """The reasons to end."""

    has_client_sent: bool = False
    has_client_left: bool = False
    signal: int | None = None
    """The signal by which the client wants the end, if the host can detach itself."""
    is_input_closed: bool = False
    """Whether the agent has no more input, and must exit."""
    must_end: bool = False
    """Whether no peer is waited for any more."""


class StdioProxy:
    """Connects a client on our standard streams with one agent, until the client leaves."""

    def __init__(  # noqa: PLR0913 - one collaborator each
        self,
        process: AgentProcess,
        engine: Engine,
        recorder: Recorder,
        log: Log,
        *,
        holder: LeaseHolder,
        variables_for: Callable[[tuple[str, ...]], Mapping[str, str]] = lambda _: {},
        detachment: "Detachment | None" = None,
        hooks: "HookRunner | None" = None,
        open_reader: Callable[[], ReadableStore] | None = None,
    ) -> None:
        self._log = log
        self._hooks = hooks
        self._detachment = detachment
        holder = replace(holder, agent_group=process.pid)
        self._variables_for = variables_for
        self._next_command: tuple[str, ...] | None = None
        """The command of another agent, which replaces the present one."""
        self._events: SimpleQueue[None] = SimpleQueue()
        """Wakes the main thread."""
        self._end = _End()
        self._client_transport = StdioTransport(self._client_is_gone)
        self._driver = Driver(
            engine,
            recorder,
            log,
            holder=holder,
            start_agent=self._restart_agent,
            switch_agent=self._switch_agent,
            on_wake=lambda: self._events.put(None),
            connect_host=connect_to_host,
            describe=self._describe,
            open_reader=open_reader,
            on_events=(lambda _: None) if hooks is None else hooks.notify,
        )
        self._server = LocalServer(
            holder,
            self._driver,
            log,
            is_trusted=(lambda _: False) if hooks is None else hooks.owns,
        )
        self._client = self._driver.attach_client(self._client_transport.writer)
        self._agent = AgentConnection(process)
        self._driver.attach_agent(self._agent.writer)

    def run(self, signals: Signals, *, grace: float) -> int:
        """Run until the client has left or the agent cannot go on; return the exit code."""
        signals.set_handler(self._handle_signal)
        self._agent.start(self._receive_from_agent, self._agent_event)
        start_thread(self._read_client)
        if self._detachment is not None:
            detached = self._detachment.process
            start_thread(lambda: self._follow_child(detached))
            start_thread(self._leave_scope)
        self._client_transport.writer.become_interruptible()
        self._server.listen()
        self._supervise(grace)
        self._server.stop_listening()
        if not self._is_detached:
            self._wait_for_readings()
            # Before the remaining output is written: a client that does not read may kill us
            # meanwhile.
            self._driver.detach_client(self._client)
            self._drain_client()
        self._server.finish()
        self._driver.close()
        if self._hooks is not None:
            self._hooks.finish()
        if self._detachment is not None:
            self._detachment.finish()
        return self._agent.status[0]

    @property
    def _is_detached(self) -> bool:
        """Whether it continues without the client on its standard streams."""
        return self._detachment is not None and self._detachment.is_detached

    # -- the two directions ----------------------------------------------------------------

    def _read_client(self) -> None:
        try:
            for lines, is_terminated in self._client_transport.read():
                self._driver.receive(self._client, lines, is_terminated=is_terminated)
                self._end.has_client_sent = True
        except EndlessLine as error:
            self._log.report(f"the client sent {error}: Rekindle reads no more from it")
        finally:
            self._client_has_left()

    def _receive_from_agent(self, lines: bytes, is_terminated: bool) -> None:  # noqa: FBT001 - a callback
        detachment = self._detachment
        if (
            detachment is not None
            and detachment.is_detached
            and not self._driver.is_waiting_for_user
        ):
            detachment.note_agent()
        self._driver.receive(AGENT, lines, is_terminated=is_terminated)

    def _describe(self) -> dict[str, Any]:
        return {
            **self._server.describe(),
            "detached": self._is_detached,
            "outlivesClient": self._detachment is not None,
        }

    # -- the agent -------------------------------------------------------------------------

    def _restart_agent(self) -> str | None:
        """Start the agent again; return why it did not start. Called with the lock held."""
        if not self._agent.has_exited:
            return "it is still running"
        try:
            former = self._agent.process
            command, variables = former.command, former.variables
            if self._next_command is not None:
                command, variables = self._next_command, self._variables_for(self._next_command)
            process = AgentProcess(command, grace=former.grace, variables=variables)
        except RekindleError as error:
            return str(error)
        self._log.note(f"restarted the agent: {process.pid}")
        self._agent = AgentConnection(process)
        self._driver.attach_agent(self._agent.writer)
        self._driver.update_agent_group(process.pid)
        self._agent.start(self._receive_from_agent, self._agent_event)
        if self._end.is_input_closed:
            process.close_stdin()
        return None

    def _switch_agent(self, command: tuple[str, ...]) -> str | None:
        """End the agent; the next start runs `command`. Called with the lock held."""
        if which(command[0]) is None:
            return f"command not found: {command[0]}"
        self._next_command = command
        agent = self._agent
        self._log.note(f"switching to another agent: {command[0]}")

        def end() -> None:
            agent.process.end(TERMINATE_TIMEOUT)

        if not agent.has_exited:
            start_thread(end)
        return None

    def _agent_event(self, agent: AgentConnection) -> None:
        with self._driver.exclusive():
            if agent is self._agent and not self._end.is_input_closed:
                self._driver.agent_closed_output()
        self._events.put(None)

    def _bury(self, agent: AgentConnection) -> None:
        """Forward the last output of an agent that has exited, and report its exit."""
        writer = self._client_transport.writer

        def is_busy() -> bool:
            return (agent.is_receiving or writer.is_writing) and not self._end.must_end

        if agent.drain(is_busy):
            self._log.note("ended processes that the agent had left running")
        if agent.failure:
            self._log.report(f"the agent sent {agent.failure}: Rekindle ended it")
        code, signal_name = agent.status
        self._log.note(f"the agent exited with {signal_name or code}")
        self._driver.agent_exited(agent.exit())
        agent.close()
        self._driver.flush_in_background()

    # -- supervision -----------------------------------------------------------------------

    def _supervise(self, grace: float) -> None:
        """Handle exits and deadlines until there is nothing more to wait for."""
        buried: AgentConnection | None = None
        deadline: Deadline | None = None
        is_clean = False
        upkeep = Deadline(_MAX_WAIT)
        while True:
            agent = self._agent
            if agent.has_exited and agent is not buried:
                self._bury(agent)
                buried, deadline = agent, None
                continue
            self._detach_or_end()
            is_ending = self._end.is_input_closed or self._end.must_end
            if agent is buried and (is_ending or not self._driver.can_restart_agent):
                self._wait_for_first_message()
                return
            if agent is not buried:
                deadline = self._end_if_overdue(agent, deadline, grace, is_ending=is_ending)
            is_idle = not self._wait_for_event(deadline)
            if is_idle or upkeep.has_passed:
                upkeep = Deadline(_MAX_WAIT)
                self._server.keep_listening()
            if is_idle and not is_clean:
                is_clean = self._driver.clean_up()

    def _detach_or_end(self) -> None:
        """End the agent if the client has left and there is no work without it."""
        if not self._end.has_client_left or self._end.is_input_closed:
            return
        detachment = self._detachment
        if (
            detachment is None
            or self._end.must_end
            or not self._driver.has_work_without(self._client)
            or not (detachment.is_detached or detachment.is_allowed())
        ):
            self._end_input()
            if self._end.signal is not None:
                self._handle_signal(self._end.signal)
            return
        if not detachment.is_detached:
            self._log.note("the client has left: the host continues without it")
            self._driver.detach_client(self._client)
            self._client_transport.writer.never_wait()
            self._client_transport.writer.close()
            detachment.begin()
        if self._driver.is_attended_without(self._client):
            detachment.note_client()
        elif detachment.must_cancel():
            self._log.note("no client came in time: the turns are cancelled")
            self._driver.abandon_turns()
        elif detachment.must_end:
            self._end.must_end = True

    def _end_input(self) -> None:
        """Signal the end of input to the agent, which lets it exit."""
        with self._driver.exclusive():
            self._end.is_input_closed = True
            self._agent.process.close_stdin()

    def _wait_for_first_message(self) -> None:
        """Give a client that has sent nothing yet the time to learn why its agent has ended."""
        deadline = Deadline(_FIRST_MESSAGE_TIMEOUT)
        while not (
            self._end.has_client_sent
            or self._end.has_client_left
            or self._end.must_end
            or deadline.has_passed
        ):
            time.sleep(_POLL_SECONDS)

    def _end_if_overdue(
        self,
        agent: AgentConnection,
        deadline: Deadline | None,
        grace: float,
        *,
        is_ending: bool,
    ) -> Deadline | None:
        """End an agent that should exit and does not; return its deadline, if it has one."""
        is_gone = is_ending or self._is_client_gone_unseen(agent)
        if not is_gone and not agent.has_closed_output:
            return None
        if deadline is None:
            # An agent that closed its output has a moment to exit by itself.
            deadline = Deadline(grace if is_gone else _EXIT_TIMEOUT_AFTER_CLOSE)
        if agent.has_closed_output and not is_gone and self._driver.is_waiting_for_agent:
            deadline = Deadline(0)
        if not deadline.has_passed:
            return deadline
        self._log.note("ended the agent, which did not exit in time")
        agent.process.end(TERMINATE_TIMEOUT)
        return Deadline(TERMINATE_TIMEOUT)

    def _wait_for_event(self, deadline: Deadline | None) -> bool:
        """Wait for an event; return whether one came, or the engine was due for a tick."""
        wait = _MAX_WAIT if deadline is None else min(_MAX_WAIT, deadline.remaining)
        until_tick = self._driver.seconds_until_tick
        try:
            self._events.get(timeout=wait if until_tick is None else min(wait, until_tick))
        except Empty:
            return self._driver.tick_if_due()
        return True

    # -- the end ---------------------------------------------------------------------------

    def _follow_child(self, detached: "DetachedProcess") -> None:
        """Follow the process that the client knows, which receives the client's signals."""
        for number in detached.signals():
            if number in ENDING:
                self._end.signal = number
                self._client_has_left()
            else:
                self._handle_signal(number)
        self._client_has_left()

    def _leave_scope(self) -> None:
        """Leave the scope of the client, so that systemd does not end this process with it."""
        from rekindle.process.scope import move_to_own_scope  # noqa: PLC0415 - after the start

        pid = os.getpid()
        problem = move_to_own_scope(f"rekindle-{pid}", (pid, self._agent.process.pid))
        if problem is not None:
            self._log.note(f"stays in the scope of the client: {problem}")

    def _client_has_left(self) -> None:
        if self._detachment is None:
            self._end_input()
        self._end.has_client_left = True
        self._events.put(None)

    def _handle_signal(self, number: int) -> None:
        if not self._agent.has_exited:
            self._agent.process.signal(number)
        if number in ENDING:
            self._end.must_end = True
            self._events.put(None)

    def _client_is_gone(self) -> None:
        if self._detachment is not None:
            self._client_has_left()
            return
        self._end.must_end = True
        self._events.put(None)

    def _is_client_gone_unseen(self, agent: AgentConnection) -> bool:
        """Return whether the client has left while a writer waits for a peer to read."""
        client = self._client_transport
        is_blocked = agent.writer.is_writing or client.writer.is_full
        if not is_blocked or self._end.has_client_left or not client.has_hung_up():
            return False
        if self._detachment is not None:
            self._client_has_left()
        return self._detachment is None

    def _wait_for_readings(self) -> None:
        """Let a client that has closed its side receive the replays that it has asked for."""
        deadline = Deadline(_READING_TIMEOUT)
        while self._driver.is_reading and not self._end.must_end and not deadline.has_passed:
            time.sleep(_POLL_SECONDS)

    def _drain_client(self) -> None:
        """Let the client read the remaining output, unless no peer is waited for."""
        writing = start_thread(self._client_transport.writer.finish)
        while writing.is_alive() and not self._end.must_end:
            writing.join(_POLL_SECONDS)
        writing.join(_POLL_SECONDS)
