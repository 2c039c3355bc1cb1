"""The driver: runs one engine against real peers and a real store.

It gives the engine events, and carries out the step that the engine returns: it commits the
changes, then queues the messages, then answers the queries. Each answer leads to another step.

The engine and the recorder are used under one lock, so entries are recorded in the order in which
the engine decided on them. Messages are written after the lock is released, so that a peer that
does not read cannot stop the other direction.

Knows no file descriptor, no signal and no process. Any number of threads may call it.
"""

import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from msgspec.structs import replace

from rekindle.errors import StoreError
from rekindle.model import LeaseHolder
from rekindle.proxy.engine import Engine
from rekindle.proxy.flow import ConnectToHost, QueryFailed
from rekindle.proxy.host_connections import position
from rekindle.proxy.peers import AGENT, Peer
from rekindle.proxy.step import AgentExit, PendingQuery, Step, TurnEvent
from rekindle.runtime.clock import Clock
from rekindle.runtime.log import Log
from rekindle.runtime.outlets import ConnectHost, HostOutlets, Outlets
from rekindle.runtime.query_handler import NOT_POSSIBLE, QueryHandler
from rekindle.runtime.recorder import Recorder
from rekindle.runtime.transports.base import Outlet
from rekindle.runtime.unused_sessions import UnusedSessions
from rekindle.store.base import ReadableStore

_MAX_JOINED_LINES = 64
_MAX_GROUPED_LINES = 10_000
"""Longer steps are replays. If one is cut off, the client asks for it again."""


class Driver:
    """One engine, the outlets of its peers, and its recorder.

    `start_agent` starts the agent again when the engine asks for it. `switch_agent` ends the agent,
    so that the next start runs another command. Both are called with the lock held, and return
    None or the reason why they failed. `on_wake` is called when the engine wants a tick at another
    time than before. `open_reader` opens the store a second time, to read long sessions.
    `on_events` is called with the lock held, after the changes of the events are recorded.
    """

    def __init__(  # noqa: PLR0913 - one collaborator each
        self,
        engine: Engine,
        recorder: Recorder,
        log: Log,
        *,
        holder: LeaseHolder,
        start_agent: Callable[[], str | None],
        switch_agent: Callable[[tuple[str, ...]], str | None] = lambda _: NOT_POSSIBLE,
        on_wake: Callable[[], None] = lambda: None,
        connect_host: ConnectHost | None = None,
        describe: Callable[[], dict[str, Any]] = dict,
        open_reader: Callable[[], ReadableStore] | None = None,
        on_events: Callable[[Sequence[TurnEvent]], None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._recorder = recorder
        self._log = log
        self._queries = QueryHandler(
            recorder,
            holder,
            start_agent,
            switch_agent,
            connect_to_host=self._connect_to_host,
            describe=describe,
            open_reader=open_reader,
        )
        self._hosts = HostOutlets(connect_host)
        self._unused = UnusedSessions(recorder, holder, log)
        self._on_wake = on_wake
        self._on_events = on_events
        self._lock = Lock()
        self._outlets = Outlets()
        self._wake_us: int | None = None
        self._clock = Clock()

    # -- peers -----------------------------------------------------------------------------

    def attach_client(self, outlet: Outlet, *, is_local_process: bool = False) -> Peer:
        """Add a client connection; return its number.

        With `is_local_process`, it is another process of the user. From the second client on, a
        client that reads slowly holds the agent and the other clients back no more.
        """
        with self._lock:
            client = self._engine.add_client(is_local_process=is_local_process)
            self._outlets.add_client(client, outlet)
        return client

    def detach_client(self, client: Peer) -> None:
        """Remove a client connection whose peer has left."""
        with self._lock:
            self._process(self._engine.remove_client, client, self._now_us())
            self._outlets.remove_client(client)
        self.flush_in_background()

    def attach_agent(self, outlet: Outlet) -> None:
        """Send the agent's messages to this outlet from now on.

        Call it before the first event, or with the lock held, as `start_agent` is called.
        """
        self._outlets.set_agent(outlet)

    def update_agent_group(self, group: int) -> None:
        """Store the process group of a new agent in the leases. Call it with the lock held."""
        holder = self._queries.holder = replace(self._queries.holder, agent_group=group)
        try:
            self._recorder.ask(lambda store: store.update_holder(holder))
        except StoreError as error:
            # The next prompt of a session updates its lease.
            self._log.note(f"could not update the leases: {error}")

    @contextmanager
    def exclusive(self) -> Generator[None]:
        """Hold the lock: no event is processed meanwhile."""
        with self._lock:
            yield

    # -- events ----------------------------------------------------------------------------

    def receive(self, peer: Peer, lines: bytes, *, is_terminated: bool = True) -> None:
        """Process the lines of one read, joined by newlines, and send what results from them.

        With `is_terminated` false, the last line had no newline, and is forwarded without one.
        """
        with self._lock:
            try:
                step = self._engine.receive(peer, lines, self._now_us())
            except Exception as error:  # noqa: BLE001 - a fault of ours must not end a conversation
                step = self._recover(error)
                if peer == AGENT:
                    step.to_clients = {it: [lines] for it in self._outlets.by_peer if it != AGENT}
                else:
                    step.to_agent = [lines]
            self._carry_out(step, unterminated=None if is_terminated else peer)
            # Now, because the step may have started another agent.
            clients, others = self._outlets.clients, self._outlets.agents
            if self._hosts.outlets:
                others = (*others, *self._hosts.outlets)
        receivers, senders = (clients, others) if peer == AGENT else (others, clients)
        for outlet in receivers:
            outlet.flush()
        for outlet in senders:
            outlet.flush_or_wait()

    def _receive_from_host(self, host: Peer, lines: bytes) -> None:
        with self._lock:
            self._process(self._engine.receive_from_host, host, lines, self._now_us())
            clients, hosts = self._outlets.clients, self._hosts.outlets
        for outlet in clients:
            outlet.flush()
        for outlet in hosts:
            outlet.flush_or_wait()

    def _host_closed(self, host: Peer) -> None:
        with self._lock:
            if self._hosts.forget(host) is not None:
                self._process(self._engine.host_closed, host, self._now_us())
        self.flush_in_background()

    def agent_closed_output(self) -> None:
        """Report to the engine that the agent closed its output. Call it with the lock held."""
        self._engine.agent_closed_output()

    def agent_exited(self, exited: AgentExit) -> None:
        """Report to the engine that the agent's process has ended."""
        with self._lock:
            self._process(self._engine.agent_exited, exited, self._now_us())
        self.flush_in_background()

    def tick_if_due(self) -> bool:
        """Give the engine a tick if its time has come; return whether it has."""
        wake_us = self._wake_us
        if wake_us is None or wake_us > self._now_us():
            return False
        with self._lock:
            self._process(self._engine.tick, self._now_us())
        self.flush_in_background()
        return True

    def abandon_turns(self) -> None:
        """Cancel the turns that no client attends."""
        with self._lock:
            self._process(self._engine.abandon_turns, self._now_us())
        self.flush_in_background()

    def clean_up(self) -> bool:
        """Remove some sessions that are deleted or unused for long; return whether none is left."""
        with self._lock:
            now_us = self._now_us()
            has_purged = self._recorder.purge_deleted(now_us)
            return self._unused.forget_some(now_us) and has_purged

    def close(self) -> None:
        """Record the remaining changes, if possible, and close the store."""
        with self._lock:
            self._recorder.close()

    def flush_in_background(self) -> None:
        """Have all queued messages written without blocking the caller."""
        outlets = self._outlets
        for outlet in (*outlets.clients, *outlets.agents, *self._hosts.outlets):
            outlet.flush_in_background()

    # -- state -----------------------------------------------------------------------------

    @property
    def can_restart_agent(self) -> bool:
        """Whether an agent that has exited can be started again."""
        return self._engine.can_restart_agent

    @property
    def is_waiting_for_agent(self) -> bool:
        """Whether the agent has to answer a request."""
        return self._engine.is_waiting_for_agent

    def has_work_without(self, client: Peer) -> bool:
        """Return whether a session is busy, or is open at another client than this one."""
        with self._lock:
            return self._engine.has_work_without(client)

    def is_attended_without(self, client: Peer) -> bool:
        """Return whether another client than this one has a session open, not only to watch it."""
        with self._lock:
            return self._engine.is_attended_without(client)

    @property
    def is_waiting_for_user(self) -> bool:
        """Whether every running turn waits for permission."""
        with self._lock:
            return self._engine.is_waiting_for_user

    @property
    def is_reading(self) -> bool:
        """Whether a thread reads a long session for a client that waits."""
        return bool(self._queries.readings)

    @property
    def seconds_until_tick(self) -> float | None:
        """The time until the engine wants a tick; None if it wants none."""
        wake_us = self._wake_us
        return None if wake_us is None else max(0.0, (wake_us - self._now_us()) / 1e6)

    # -- steps -----------------------------------------------------------------------------

    def _process(self, event: Callable[..., Step], *arguments: object) -> None:
        """Give the engine an event, and carry out the step. A fault of ours is reported."""
        try:
            step = event(*arguments)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end a conversation
            step = self._recover(error)
        self._carry_out(step)

    def _carry_out(self, step: Step, *, unterminated: Peer | None = None) -> None:
        """Carry out a step, and the steps that the answers to its queries lead to.

        Lines that come from the unterminated peer go to the other direction without a newline.
        """
        if step.changes:
            self._recorder.record(step.changes, sync=step.sync)
        if step.positions:
            self._announce_positions(step)
        for peer, lines in ((AGENT, step.to_agent), *step.to_clients.items()):
            outlet = self._outlets.by_peer.get(peer)
            if lines and outlet is not None:
                is_open_ended = unterminated is not None and (
                    (peer == AGENT) != (unterminated == AGENT)
                )
                _queue(lines, outlet, is_terminated=not is_open_ended)
        if step.to_hosts or step.left_hosts:
            self._send_to_hosts(step)
        if step.reports or step.events:
            self._report(step)
        wake_us, self._wake_us = self._wake_us, step.wake_us
        if self._wake_us is not None and self._wake_us != wake_us:
            self._on_wake()
        if self._recorder.losses.new:
            self._report_lost_leases()
        # One after the other: the result of one answer may change the next.
        for pending in step.queries:
            self._pose(pending)

    def _report(self, step: Step) -> None:
        for report in step.reports:
            self._log.report(report.text, quote=report.quote)
        if step.events:
            self._on_events(step.events)

    def _report_lost_leases(self) -> None:
        """Report to the engine that other processes have taken sessions over."""
        for lost in self._recorder.losses.take():
            self._process(self._engine.lease_lost, lost.session_id, lost.holder, self._now_us())

    def _announce_positions(self, step: Step) -> None:
        """Let the lines for a client follow the seqs of the entries to which they belong."""
        announced: dict[tuple[tuple[str, ...], int], bytes] = {}
        for peer, session_ids in step.positions.items():
            lines = step.to_clients[peer]
            count = len(lines) + sum(line.count(b"\n") for line in lines)
            if session_ids and count <= _MAX_GROUPED_LINES:
                key = session_ids, count
                if key not in announced:
                    seqs = self._recorder.last_seqs(session_ids)
                    announced[key] = position(seqs, lines=count)
                lines.insert(0, announced[key])

    def _send_to_hosts(self, step: Step) -> None:
        for peer, lines in step.to_hosts.items():
            outlet = self._hosts.outlet(peer)
            if outlet is not None:
                _queue(lines, outlet, is_terminated=True)
        for peer in step.left_hosts:
            host = self._hosts.forget(peer)
            if host is not None:
                host.close()

    def _connect_to_host(self, query: ConnectToHost) -> str | None:
        """Connect to the process that has a session; return why it failed, if it did."""
        peer = query.peer
        return self._hosts.connect(
            query,
            lambda lines: self._receive_from_host(peer, lines),
            lambda: self._host_closed(peer),
        )

    def _pose(self, pending: PendingQuery) -> None:
        """Answer a query: now, or later if that takes long."""

        def done(answer: object) -> None:
            self._answer_later(pending, answer)

        if not self._queries.answer_later(pending.query, done):
            self._carry_out(self._answer(pending))

    def _answer_later(self, pending: PendingQuery, answer: object) -> None:
        """Give the engine an answer that a thread has read without the lock."""
        # A client that asks for several replays, and reads none, must not fill the memory.
        for outlet in self._outlets.clients:
            outlet.flush_or_wait()
        with self._lock:
            if answer is None or self._queries.needs_lock(pending.query):
                self._carry_out(self._answer(pending))
            else:
                self._carry_out(self._continue_flow(pending, answer))
        self.flush_in_background()

    def _answer(self, pending: PendingQuery) -> Step:
        try:
            answer = self._queries.answer(pending.query)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end a conversation
            answer = QueryFailed("a bug in Rekindle: see its stderr and log")
            self._report_fault(error)
        return self._continue_flow(pending, answer)

    def _continue_flow(self, pending: PendingQuery, answer: object) -> Step:
        try:
            return self._engine.answer(pending.flow, answer, self._now_us())
        except Exception as error:  # noqa: BLE001 - as above
            return self._recover(error)

    def _recover(self, error: Exception) -> Step:
        self._report_fault(error)
        self._engine.recover()
        return Step()

    def _report_fault(self, error: Exception) -> None:
        self._log.report("a bug in Rekindle, please report it", quote=repr(error))
        self._log.note("".join(traceback.format_tb(error.__traceback__)))

    def _now_us(self) -> int:
        return self._clock.now_us(is_steady=self._wake_us is not None)


def _queue(lines: list[bytes], outlet: Outlet, *, is_terminated: bool) -> None:
    """Queue lines for writing."""
    if len(lines) <= _MAX_JOINED_LINES:
        outlet.queue(b"\n".join(lines) + (b"\n" if is_terminated else b""))
        return
    # A long replay: free each line while the next one is copied.
    lines.reverse()
    while lines:
        line = lines.pop()
        outlet.queue(line + (b"\n" if lines or is_terminated else b""))
