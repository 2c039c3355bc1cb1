"""Joins a client, an agent, the relay between them and the recorder, until the agent ends.

One thread reads each source. The relay and the recorder are used under one lock, so what
is recorded has the order in which it was decided on; writing happens outside of it, so
that a peer that does not read cannot stop the other direction.
"""

import time
import traceback
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Literal

from rekindle.core.relay import AgentEnded, Relay
from rekindle.core.step import Step
from rekindle.model import Side
from rekindle.run import signals
from rekindle.run.agent import Agent
from rekindle.run.log import Log
from rekindle.run.patience import Patience
from rekindle.run.recorder import Recorder
from rekindle.run.stdio import Sink, read_lines

STDIN, STDOUT = 0, 1

_PATIENCE_FOR_TERMINATE = 2.0
_PATIENCE_FOR_STDERR = 0.5
_PATIENCE_FOR_LEFTOVERS = 1.0
_TICK = 0.05

_Event = Literal["client closed", "agent ended", "asked to end"]


class Runner:
    """One connection between a client on our standard streams and an agent."""

    def __init__(
        self, agent: Agent, relay: Relay, recorder: Recorder, log: Log, *, grace: float
    ) -> None:
        self._agent = agent
        self._relay = relay
        self._recorder = recorder
        self._log = log
        self._grace = grace
        self._lock = Lock()
        self._events: SimpleQueue[_Event] = SimpleQueue()
        self._is_told_to_end = False
        self._status: tuple[int, str | None] = (0, None)
        self._to_client = Sink(STDOUT, lambda: self._events.put("client closed"))
        self._to_agent = Sink(agent.stdin, lambda: None)

    def run(self) -> int:
        """Relay until the agent has ended; return its exit code."""
        signals.on_signal(self._pass_on)
        from_agent = _start(self._pump_agent)
        _start(self._pump_client)
        _start(self._wait_for_end)
        self._attend()
        self._drain(from_agent)
        code, signal_name = self._status
        self._log.note(f"the agent ended with {signal_name or code}")
        ended = AgentEnded(
            exit_code=None if signal_name else code,
            signal=signal_name,
            last_words=self._agent.last_words(_PATIENCE_FOR_STDERR),
        )
        with self._lock:
            self._carry_out(self._relay.agent_ended(ended, _now_us()))
        self._to_client.flush(wait=not self._is_told_to_end)
        with self._lock:
            self._recorder.close()
        return code

    # -- the two directions -------------------------------------------------------------

    def _pump_agent(self) -> None:
        for lines, is_terminated in read_lines(self._agent.stdout):
            self._receive(Side.AGENT, lines, is_terminated=is_terminated)

    def _pump_client(self) -> None:
        for lines, is_terminated in read_lines(STDIN):
            self._receive(Side.CLIENT, lines, is_terminated=is_terminated)
        self._agent.close_stdin()
        self._events.put("client closed")

    def _receive(self, side: Side, lines: bytes, *, is_terminated: bool) -> None:
        with self._lock:
            try:
                step = self._relay.receive(side, lines, _now_us())
            except Exception as error:  # noqa: BLE001 - a fault of ours must not end a conversation
                step = self._excuse(error, side, lines)
            self._carry_out(step, is_terminated=is_terminated)
        if step.to_client:
            self._to_client.flush(wait=side is Side.AGENT)
        if step.to_agent:
            self._to_agent.flush(wait=side is Side.CLIENT)

    def _excuse(self, error: Exception, side: Side, lines: bytes) -> Step:
        self._log.tell(f"a fault in Rekindle, please report it: {error!r}")
        self._log.note(traceback.format_exc())
        step = Step()
        step.to(side.peer).append(lines)
        return step

    def _carry_out(self, step: Step, *, is_terminated: bool = True) -> None:
        for session_id in step.look_up:
            self._relay.learn(session_id, is_recorded=self._recorder.has(session_id))
        self._recorder.record(step.changes, sync=step.sync)
        end = b"\n" if is_terminated else b""
        if step.to_agent:
            self._to_agent.put(b"\n".join(step.to_agent) + end)
        if step.to_client:
            self._to_client.put(b"\n".join(step.to_client) + end)
        for complaint in step.complaints:
            self._log.tell(complaint)

    # -- beginning and end --------------------------------------------------------------

    def _pass_on(self, number: int) -> None:
        self._agent.signal(number)
        if number in signals.ENDING:
            self._events.put("asked to end")

    def _wait_for_end(self) -> None:
        self._status = self._agent.wait()
        self._events.put("agent ended")

    def _attend(self) -> None:
        """Wait for the agent's end; once there is a reason to end, see to it."""
        patience: Patience | None = None
        while True:
            try:
                event = self._events.get(timeout=patience and patience.left)
            except Empty:
                self._log.note("the agent did not end by itself")
                self._agent.end_group(_PATIENCE_FOR_TERMINATE)
                patience = None
                continue
            if event == "agent ended":
                return
            self._is_told_to_end = True
            patience = patience or Patience(self._grace)

    def _drain(self, from_agent: Thread) -> None:
        """Pass on the last that the agent has written, and end what it left running."""
        patience = Patience(_PATIENCE_FOR_LEFTOVERS)
        while from_agent.is_alive() and not patience.is_over:
            from_agent.join(_TICK)
            if self._to_client.is_writing and not self._is_told_to_end:
                # The client is slow, or busy. It still gets everything.
                patience = Patience(_PATIENCE_FOR_LEFTOVERS)
        if self._agent.end_group(_PATIENCE_FOR_LEFTOVERS):
            self._log.note("ended what the agent had left running")
        from_agent.join(_TICK)


def _start(target: Callable[[], None]) -> Thread:
    thread = Thread(target=target, daemon=True)
    thread.start()
    return thread


def _now_us() -> int:
    return time.time_ns() // 1000
