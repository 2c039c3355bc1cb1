"""Runs flows: gives each what it asks for, as soon as that is known."""

from collections.abc import Hashable
from typing import Any, Protocol

from msgspec import UNSET, Raw, Struct

from rekindle.acp.jsonrpc import INTERNAL_ERROR, Envelope, request, request_key
from rekindle.jsonvalue import as_object, decode, encode
from rekindle.proxy.flow import (
    Action,
    AgentReply,
    AnswerOpenPrompts,
    CallAgent,
    CancelTurn,
    DropQueuedPrompts,
    Flow,
    FlowEffect,
    FlushHeld,
    ForwardRequest,
    ForwardToAgent,
    Pause,
    Query,
    QueryFailed,
    RecordChanges,
    RecordUndelivered,
    Refusal,
    SendToClient,
    WaitForTurnEnd,
)


class FlowOutcome(Struct, frozen=True):
    """How a flow ended: with a result, a whole line, a refusal, or nothing for the client."""

    result: dict[str, Any] | bytes | Refusal | None


class RunningFlow(Struct):
    """A flow under way."""

    number: int
    flow: Flow
    request_id: Raw
    """The client's, to be answered in the end."""
    session_id: str | None
    awaits: FlowEffect | None = None
    until_us: int | None = None


class FlowHost(Protocol):
    """What can be done at once, and what a flow's end means."""

    @property
    def token(self) -> str:
        """What the ids of our questions have that no others have."""
        ...

    @property
    def at_us(self) -> int:
        """The time."""
        ...

    def agent_error(self, method: str) -> dict[str, Any] | None:
        """Return the error that a question gets, if the agent has ended."""
        ...

    def has_turn(self, session_id: str) -> bool:
        """Tell whether a turn is running."""
        ...

    def send_to_agent(self, line: bytes) -> None:
        """Send a line to the agent."""
        ...

    def pose(self, number: int, question: Query) -> None:
        """Have a question answered by the runner."""
        ...

    def do(self, deed: Action) -> None:
        """Do what is done at once."""
        ...

    def complain(self, fault: Exception) -> None:
        """Tell the user of a fault of ours."""
        ...

    def finished(self, running: RunningFlow, outcome: FlowOutcome) -> None:
        """Take what a flow has come to."""
        ...


class FlowScheduler:
    """The flows of one connection."""

    def __init__(self, host: FlowHost) -> None:
        self._host = host
        self._running: dict[int, RunningFlow] = {}
        self._asked: dict[Hashable, RunningFlow] = {}
        self._given_up: set[Hashable] = set()
        self._flows_started = 0
        self._questions_asked = 0

    @property
    def next_us(self) -> int | None:
        """When the first of the flows has waited long enough."""
        times = [it.until_us for it in self._running.values() if it.until_us is not None]
        return min(times, default=None)

    @property
    def is_asking(self) -> bool:
        """Whether a flow waits for the agent."""
        return bool(self._asked)

    def is_busy(self, session_id: str | None) -> bool:
        """Tell whether a flow is at work on this session."""
        return session_id is not None and any(
            it.session_id == session_id for it in self._running.values()
        )

    def start(self, flow: Flow, request_id: Raw, session_id: str | None) -> None:
        """Start a flow that answers a request."""
        self._flows_started += 1
        running = RunningFlow(self._flows_started, flow, request_id, session_id)
        self._running[running.number] = running
        self._advance(running, None)

    def answered(self, number: int, answer: object) -> None:
        """Take an answer of the runner's."""
        running = self._running[number]
        if isinstance(answer, QueryFailed):
            self._advance(running, Refusal(INTERNAL_ERROR, answer.reason))
        else:
            self._advance(running, answer)

    def replied(self, message: Envelope, line: bytes) -> bool:
        """Take an answer of the agent's, if a flow has asked or had; tell whether one has."""
        key = request_key(message.id) if message.id is not UNSET else None
        running = self._asked.pop(key, None)
        if running is None:
            is_too_late = key in self._given_up
            self._given_up.discard(key)
            return is_too_late
        if message.error is UNSET or not message.is_error:
            result = decode(message.result) if message.result is not UNSET else None
            self._advance(running, AgentReply(result=result, line=line))
        else:
            self._advance(running, AgentReply(error=as_object(decode(message.error)), line=line))
        return True

    def expects(self, message: Envelope) -> bool:
        """Tell whether this answer of the agent's is to a flow."""
        return message.id is not UNSET and request_key(message.id) in self._asked

    def turn_ended(self) -> None:
        """Let those go on that wait for the end of a turn."""
        for running in list(self._running.values()):
            awaited = running.awaits
            if isinstance(awaited, WaitForTurnEnd) and not self._host.has_turn(awaited.session_id):
                self._advance(running, None)

    def agent_ended(self) -> None:
        """Tell every flow that the agent will not answer."""
        asked = list(self._asked.values())
        self._asked.clear()
        self._given_up.clear()
        for running in asked:
            question = running.awaits
            method = question.method if isinstance(question, CallAgent | ForwardRequest) else ""
            self._advance(running, AgentReply(error=self._host.agent_error(method)))
        self.turn_ended()

    def tick(self) -> None:
        """Let those go on that have waited long enough."""
        now = self._host.at_us
        for running in list(self._running.values()):
            if running.until_us is not None and running.until_us <= now:
                is_ask = isinstance(running.awaits, CallAgent)
                self._give_up(running)
                self._advance(running, AgentReply(is_silent=True) if is_ask else None)

    def _give_up(self, running: RunningFlow) -> None:
        for key in [key for key, it in self._asked.items() if it is running]:
            del self._asked[key]
            self._given_up.add(key)

    def _advance(self, running: RunningFlow, answer: object) -> None:
        while True:
            running.awaits = running.until_us = None
            try:
                if isinstance(answer, Refusal):
                    question = running.flow.throw(answer)
                else:
                    question = running.flow.send(answer)
            except StopIteration as done:
                self._finish(running, FlowOutcome(done.value))
                return
            except Refusal as refusal:
                self._finish(running, FlowOutcome(refusal))
                return
            except Exception as fault:  # noqa: BLE001 - the client still gets an answer
                self._fail(running, fault)
                return
            running.awaits = question
            try:
                is_known, answer = self._answer(running, question)
            except Exception as fault:  # noqa: BLE001 - as above
                self._give_up(running)
                self._fail(running, fault)
                return
            if not is_known:
                return

    def _fail(self, running: RunningFlow, fault: Exception) -> None:
        self._host.complain(fault)
        words = "a fault in Rekindle: its log tells more"
        self._finish(running, FlowOutcome(Refusal(INTERNAL_ERROR, words)))

    def _finish(self, running: RunningFlow, outcome: FlowOutcome) -> None:
        del self._running[running.number]
        self._host.finished(running, outcome)

    def _answer(self, running: RunningFlow, question: FlowEffect) -> tuple[bool, object]:
        """Return whether the answer is known already, and the answer."""
        match question:
            case CallAgent() | ForwardRequest():
                error = self._host.agent_error(question.method)
                if error is not None:
                    return True, AgentReply(error=error)
                self._send(running, question)
                return False, None
            case Pause():
                running.until_us = self._host.at_us + question.us
                return False, None
            case WaitForTurnEnd():
                running.until_us = self._host.at_us + question.timeout_us
                return not self._host.has_turn(question.session_id), None
            case (
                SendToClient()
                | ForwardToAgent()
                | RecordUndelivered()
                | CancelTurn()
                | DropQueuedPrompts()
                | AnswerOpenPrompts()
                | FlushHeld()
                | RecordChanges()
            ):
                self._host.do(question)
                return True, None
            case _:
                self._host.pose(running.number, question)
                return False, None

    def _send(self, running: RunningFlow, question: CallAgent | ForwardRequest) -> None:
        if isinstance(question, ForwardRequest):
            self._asked[request_key(running.request_id)] = running
            self._host.send_to_agent(question.line)
            return
        if question.timeout_us is not None:
            running.until_us = self._host.at_us + question.timeout_us
        self._questions_asked += 1
        own_id = f"rekindle-{self._host.token}{self._questions_asked}"
        self._asked[request_key(Raw(encode(own_id)))] = running
        self._host.send_to_agent(request(own_id, question.method, question.params))
