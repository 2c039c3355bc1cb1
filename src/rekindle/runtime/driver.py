"""Joins a client, an agent, the relay between them and the recorder, until the client leaves.

One thread reads each source. The relay and the recorder are used under one lock, so what
is recorded has the order in which it was decided on; writing happens outside of it, so
that a peer that does not read cannot stop the other direction.

An agent that dies is buried: what it left open is answered. It is started anew when the relay
asks for it, because the client wants something of it.

The end. When the client closes its side, so do we towards the agent, and after a grace time
the agent is ended. What it has written is still passed on, however late the client reads it.
Only a signal, or a client that is gone, ends the waiting for it.
"""

import time
import traceback
from queue import Empty, SimpleQueue
from threading import Lock

from rekindle.errors import EndlessLine, RekindleError
from rekindle.model import LeaseHolder, Side
from rekindle.process.deadline import Patience
from rekindle.proxy.engine import Engine
from rekindle.proxy.flow import QueryFailed
from rekindle.proxy.step import AgentExit, PendingQuery, Step
from rekindle.runtime.agent_connection import Link, start_thread
from rekindle.runtime.agent_process import Agent
from rekindle.runtime.clock import Clock
from rekindle.runtime.log import Log
from rekindle.runtime.query_handler import Answers
from rekindle.runtime.recorder import Recorder
from rekindle.runtime.signals import ENDING, Signals
from rekindle.runtime.transports.stdio import Sink, has_hung_up, read_lines

STDIN, STDOUT = 0, 1

_PATIENCE_FOR_TERMINATE = 2.0
_PATIENCE_FOR_SILENCE = 0.2
_PATIENCE_FOR_A_FIRST_WORD = 1.0
_LOOK_AROUND = 1.0
_TICK = 0.05
_LINES_AT_ONCE = 64


class Runner:
    """One connection between a client on our standard streams and an agent."""

    def __init__(
        self, agent: Agent, relay: Engine, recorder: Recorder, log: Log, *, holder: LeaseHolder
    ) -> None:
        self._relay = relay
        self._recorder = recorder
        self._log = log
        self._answers = Answers(recorder, holder, self._start_anew)
        self._lock = Lock()
        self._events: SimpleQueue[None] = SimpleQueue()
        """Something has happened that the main thread should look at."""
        self._has_client_spoken = False
        self._has_client_left = False
        self._must_end = False
        """Whether nobody is waited for any more."""
        self._wake_us: int | None = None
        self._clock = Clock()
        self._to_client = Sink(STDOUT, self._client_is_gone)
        self._link = Link(agent)

    def run(self, signals: Signals, *, grace: float) -> int:
        """Relay until the client has left, or the agent cannot go on; return its exit code."""
        signals.give_to(self._pass_on)
        self._link.start(self._receive_from_agent, self._notice)
        start_thread(self._pump_client)
        self._attend(grace)
        self._wait_for_client()
        with self._lock:
            self._recorder.close()
        return self._link.status[0]

    # -- the two directions -------------------------------------------------------------

    def _pump_client(self) -> None:
        try:
            for lines, is_terminated in read_lines(STDIN):
                self._receive(Side.CLIENT, lines, is_terminated=is_terminated)
                self._link.sink.flush(wait=True)
                self._to_client.flush_aside_or_wait()
                self._has_client_spoken = True
        except EndlessLine as error:
            self._log.tell(f"the client sent {error}: it is not listened to any more")
        finally:
            with self._lock:
                self._has_client_left = True
                self._link.agent.close_stdin()
            self._events.put(None)

    def _receive_from_agent(self, lines: bytes, is_terminated: bool) -> None:  # noqa: FBT001 - a callback
        self._receive(Side.AGENT, lines, is_terminated=is_terminated)
        self._to_client.flush(wait=True)
        self._link.sink.flush_aside_or_wait()

    def _receive(self, side: Side, lines: bytes, *, is_terminated: bool) -> None:
        with self._lock:
            try:
                step = self._relay.receive(side, lines, self._now_us())
            except Exception as error:  # noqa: BLE001 - a fault of ours must not end a conversation
                step = self._excuse(error)
                step.to(side.peer).append(lines)
            self._carry_out(step, unterminated=None if is_terminated else side.peer)

    def _carry_out(self, step: Step, *, unterminated: Side | None = None) -> None:
        """Do what a step says, and what the answers to its questions lead to."""
        self._recorder.record(step.changes, sync=step.sync)
        for side, sink in ((Side.AGENT, self._link.sink), (Side.CLIENT, self._to_client)):
            _queue(step.to(side), sink, is_terminated=side is not unterminated)
        for complaint in step.reports:
            self._log.tell(complaint.text, quote=complaint.quote)
        wake_us, self._wake_us = self._wake_us, step.wake_us
        if self._wake_us is not None and self._wake_us != wake_us:
            self._events.put(None)
        # One after the other: what follows from an answer may change the next.
        for posed in step.queries:
            self._carry_out(self._answer(posed))

    def _answer(self, posed: PendingQuery) -> Step:
        try:
            answer = self._answers.to(posed.query)
        except Exception as error:  # noqa: BLE001 - as above
            answer = QueryFailed("a fault in Rekindle: its log tells more")
            self._note_fault(error)
        try:
            return self._relay.answer(posed.flow, answer, self._now_us())
        except Exception as error:  # noqa: BLE001 - as above
            return self._excuse(error)

    def _excuse(self, error: Exception) -> Step:
        self._note_fault(error)
        self._relay.recover()
        return Step()

    def _note_fault(self, error: Exception) -> None:
        self._log.tell("a fault in Rekindle, please report it", quote=repr(error))
        self._log.note("".join(traceback.format_tb(error.__traceback__)))

    # -- the agent's life ---------------------------------------------------------------

    def _start_anew(self) -> str | None:
        """Start the agent again; return why it did not start. Called with the lock held."""
        if not self._link.is_over:
            return "it still runs"
        try:
            former = self._link.agent
            agent = Agent(former.command, grace=former.grace)
        except RekindleError as error:
            return str(error)
        self._log.note(f"started the agent again: {agent.pid}")
        self._link = Link(agent)
        self._link.start(self._receive_from_agent, self._notice)
        if self._has_client_left:
            agent.close_stdin()
        return None

    def _notice(self, link: Link) -> None:
        with self._lock:
            if link is self._link and not self._has_client_left:
                self._relay.agent_fell_silent()
        self._events.put(None)

    def _bury(self, link: Link) -> None:
        """Pass on the last that an agent has said, and answer what it has left open."""
        if link.drain(lambda: self._to_client.is_writing and not self._must_end):
            self._log.note("ended what the agent had left running")
        if link.failure:
            self._log.tell(f"the agent sent {link.failure}: it was ended")
        code, signal_name = link.status
        self._log.note(f"the agent ended with {signal_name or code}")
        ended = AgentExit(
            exit_code=None if signal_name else code,
            signal=signal_name,
            last_words=link.last_words(),
        )
        with self._lock:
            self._carry_out(self._relay.agent_ended(ended, self._now_us()))
        link.close()
        self._to_client.flush_aside()
        self._link.sink.flush_aside()

    # -- beginning and end --------------------------------------------------------------

    def _attend(self, grace: float) -> None:
        """See to what no line brings about, until there is nothing more to wait for."""
        buried: Link | None = None
        patience: Patience | None = None
        has_tidied = False
        while True:
            link = self._link
            if link.is_over and link is not buried:
                self._bury(link)
                buried, patience = link, None
                continue
            is_ending = self._has_client_left or self._must_end
            if link is buried and (is_ending or not self._relay.can_go_on):
                self._wait_for_a_first_word()
                return
            if link is not buried:
                patience = self._see_to_its_end(link, patience, grace, is_ending=is_ending)
            if self._look_at_the_clock(patience):
                continue
            if not has_tidied:
                with self._lock:
                    has_tidied = self._recorder.tidy(self._now_us())

    def _wait_for_a_first_word(self) -> None:
        """Let a client that has said nothing yet hear why its agent has ended."""
        patience = Patience(_PATIENCE_FOR_A_FIRST_WORD)
        while not (
            self._has_client_spoken or self._has_client_left or self._must_end or patience.is_over
        ):
            time.sleep(_TICK)

    def _see_to_its_end(
        self, link: Link, patience: Patience | None, grace: float, *, is_ending: bool
    ) -> Patience | None:
        """End an agent that has a reason to end and does not; return how long it still may take."""
        is_gone = is_ending or self._is_client_gone_unseen(link)
        if not is_gone and not link.is_silent:
            return None
        if patience is None:
            # One that cannot be heard any more is given a moment to end by itself.
            patience = Patience(grace if is_gone else _PATIENCE_FOR_SILENCE)
        if link.is_silent and not is_gone and self._relay.is_waiting_for_agent:
            patience = Patience(0)
        if not patience.is_over:
            return patience
        self._log.note("the agent did not end by itself")
        link.agent.end(_PATIENCE_FOR_TERMINATE)
        return Patience(_PATIENCE_FOR_TERMINATE)

    def _look_at_the_clock(self, patience: Patience | None) -> bool:
        """Wait for something to happen; tell whether it has, or time has run out for a flow."""
        wait = _LOOK_AROUND if patience is None else min(_LOOK_AROUND, patience.left)
        wake_us = self._wake_us
        if wake_us is not None:
            wait = min(wait, max(0.0, (wake_us - self._now_us()) / 1e6))
        try:
            self._events.get(timeout=wait)
        except Empty:
            pass
        else:
            return True
        if wake_us is None or wake_us > self._now_us():
            return False
        with self._lock:
            self._carry_out(self._relay.tick(self._now_us()))
        self._to_client.flush_aside()
        self._link.sink.flush_aside()
        return True

    def _now_us(self) -> int:
        return self._clock.now_us(is_awaited=self._wake_us is not None)

    def _pass_on(self, number: int) -> None:
        if not self._link.is_over:
            self._link.agent.signal(number)
        if number in ENDING:
            self._must_end = True
            self._events.put(None)

    def _client_is_gone(self) -> None:
        self._must_end = True
        self._events.put(None)

    def _is_client_gone_unseen(self, link: Link) -> bool:
        """Tell whether the client has left while we wait for a peer to read."""
        return (link.sink.is_writing or self._to_client.is_full) and has_hung_up(STDIN)

    def _wait_for_client(self) -> None:
        """Let the client read what is left, unless nobody is waited for."""
        writing = start_thread(lambda: self._to_client.flush(wait=True))
        while writing.is_alive() and not self._must_end:
            writing.join(_TICK)
        writing.join(_TICK)


def _queue(lines: list[bytes], sink: Sink, *, is_terminated: bool) -> None:
    """Queue lines for writing."""
    if len(lines) <= _LINES_AT_ONCE:
        if lines:
            sink.put(b"\n".join(lines) + (b"\n" if is_terminated else b""))
        return
    # A long replay: let go of each line while the next is copied.
    lines.reverse()
    while lines:
        line = lines.pop()
        sink.put(line + (b"\n" if lines or is_terminated else b""))
