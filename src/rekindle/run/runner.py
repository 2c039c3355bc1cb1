"""Joins a client, an agent, the relay between them and the recorder, until the agent ends.

One thread reads each source. The relay and the recorder are used under one lock, so what
is recorded has the order in which it was decided on; writing happens outside of it, so
that a peer that does not read cannot stop the other direction.

The end. When the client closes its side, so do we towards the agent, and after a grace time
the agent is ended. What it has written is still passed on, however late the client reads it.
Only a signal, or a client that is gone, ends the waiting for it.
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
from rekindle.run.agent import Agent
from rekindle.run.log import Log
from rekindle.run.patience import Patience
from rekindle.run.recorder import Recorder
from rekindle.run.signals import ENDING, Signals
from rekindle.run.stdio import Sink, has_hung_up, read_lines

STDIN, STDOUT = 0, 1

_PATIENCE_FOR_TERMINATE = 2.0
_PATIENCE_FOR_STDERR = 0.5
_PATIENCE_FOR_LEFTOVERS = 1.0
_LOOK_AROUND = 1.0
_TICK = 0.05

_Event = Literal["client left", "agent silent", "asked to end", "agent ended"]


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
        self._must_end = False
        """Whether nobody is waited for any more."""
        self._status: tuple[int, str | None] = (0, None)
        self._to_client = Sink(STDOUT, self._client_is_gone)
        self._to_agent = Sink(agent.stdin, lambda: None)

    def run(self, signals: Signals) -> int:
        """Relay until the agent has ended; return its exit code."""
        signals.give_to(self._pass_on)
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
        self._wait_for(_start(lambda: self._to_client.flush(wait=True)))
        with self._lock:
            self._recorder.close()
        return code

    # -- the two directions -------------------------------------------------------------

    def _pump_agent(self) -> None:
        for lines, is_terminated in read_lines(self._agent.stdout):
            self._receive(Side.AGENT, lines, is_terminated=is_terminated)
        self._events.put("agent silent")

    def _pump_client(self) -> None:
        for lines, is_terminated in read_lines(STDIN):
            self._receive(Side.CLIENT, lines, is_terminated=is_terminated)
        self._agent.close_stdin()
        self._events.put("client left")

    def _receive(self, side: Side, lines: bytes, *, is_terminated: bool) -> None:
        with self._lock:
            try:
                step = self._relay.receive(side, lines, _now_us())
            except Exception as error:  # noqa: BLE001 - a fault of ours must not end a conversation
                step = self._excuse(error, side, lines)
            self._carry_out(step, unterminated=None if is_terminated else side.peer)
        if step.to_client:
            self._to_client.flush(wait=side is Side.AGENT)
        if step.to_agent:
            self._to_agent.flush(wait=side is Side.CLIENT)

    def _excuse(self, error: Exception, side: Side, lines: bytes) -> Step:
        self._log.tell("a fault in Rekindle, please report it", quote=repr(error))
        self._log.note("".join(traceback.format_tb(error.__traceback__)))
        self._relay.recover()
        step = Step()
        step.to(side.peer).append(lines)
        return step

    def _carry_out(self, step: Step, *, unterminated: Side | None = None) -> None:
        for session_id in step.look_up:
            self._relay.learn(session_id, is_recorded=self._recorder.has(session_id))
        self._recorder.record(step.changes, sync=step.sync)
        for side, sink in ((Side.AGENT, self._to_agent), (Side.CLIENT, self._to_client)):
            lines = step.to(side)
            if lines:
                sink.put(b"\n".join(lines) + (b"" if side is unterminated else b"\n"))
        for complaint in step.complaints:
            self._log.tell(complaint.text, quote=complaint.quote)

    # -- beginning and end --------------------------------------------------------------

    def _pass_on(self, number: int) -> None:
        self._agent.signal(number)
        if number in ENDING:
            self._must_end = True
            self._events.put("asked to end")

    def _client_is_gone(self) -> None:
        self._must_end = True
        self._events.put("client left")

    def _wait_for_end(self) -> None:
        self._status = self._agent.wait()
        self._events.put("agent ended")

    def _attend(self) -> None:
        """Wait for the agent's end; once there is a reason to end, see to it."""
        patience: Patience | None = None
        while True:
            wait = _LOOK_AROUND if patience is None else min(_LOOK_AROUND, patience.left)
            try:
                event = self._events.get(timeout=wait)
            except Empty:
                if patience is None and self._is_client_gone_unseen():
                    patience = Patience(self._grace)
                elif patience is not None and patience.is_over:
                    self._log.note("the agent did not end by itself")
                    self._agent.end(_PATIENCE_FOR_TERMINATE)
                    patience = Patience(_PATIENCE_FOR_TERMINATE)
                continue
            if event == "agent ended":
                return
            patience = patience or Patience(self._grace)

    def _is_client_gone_unseen(self) -> bool:
        """Tell whether the client has left while we wait for the agent to read its input."""
        return self._to_agent.is_writing and has_hung_up(STDIN)

    def _drain(self, from_agent: Thread) -> None:
        """Pass on the last that the agent has written, and end what it left running."""
        patience = Patience(_PATIENCE_FOR_LEFTOVERS)
        while from_agent.is_alive() and not patience.is_over:
            from_agent.join(_TICK)
            if self._to_client.is_writing and not self._must_end:
                # The client is slow, or busy. It still gets everything.
                patience = Patience(_PATIENCE_FOR_LEFTOVERS)
        if self._agent.end(_PATIENCE_FOR_LEFTOVERS):
            self._log.note("ended what the agent had left running")
        from_agent.join(_TICK)

    def _wait_for(self, thread: Thread) -> None:
        while thread.is_alive() and not self._must_end:
            thread.join(_TICK)
        thread.join(_TICK)


def _start(target: Callable[[], None]) -> Thread:
    thread = Thread(target=target, daemon=True)
    thread.start()
    return thread


def _now_us() -> int:
    return time.time_ns() // 1000
