"""Run flows: give each flow the result of its effect as soon as that is known."""

from collections.abc import Hashable
from typing import Any, Protocol

from msgspec import UNSET, Raw, Struct

from rekindle.acp.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, Envelope, request, request_key
from rekindle.acp.rewrite import with_id
from rekindle.jsonvalue import Json, as_object, decode, encode
from rekindle.proxy.flow import (
    NO_RESPONSE,
    Action,
    AgentReply,
    AnswerOpenPrompts,
    Broadcast,
    CallAgent,
    CallHost,
    CancelTurn,
    CatchUp,
    DetachClient,
    DisconnectFromHost,
    DropQueuedPrompts,
    Flow,
    FlowEffect,
    FlushHeld,
    ForwardRequest,
    ForwardToAgent,
    ForwardToHost,
    Pause,
    QueryFailed,
    RecordChanges,
    RecordUndelivered,
    Refusal,
    ReportHostDeath,
    ReportToUser,
    SendToClient,
    SendToSession,
    WaitForRestart,
    WaitForTurnEnd,
)
from rekindle.proxy.outbox import Outbox
from rekindle.proxy.peers import FIRST_CLIENT, ClientConnection, Peer
from rekindle.proxy.step import PendingQuery

FlowResult = dict[str, Any] | bytes | Refusal | None
"""A result, a whole response line, a refusal, or nothing for the client."""


class RunningFlow(Struct):
    """A flow that has not ended."""

    number: int
    flow: Flow
    client: ClientConnection
    """The client whose request the flow answers."""
    request_id: Raw
    session_id: str | None
    is_shared: bool = False
    """Whether other clients can use the session meanwhile."""
    effect: FlowEffect | None = None
    """The effect whose result the flow waits for."""
    deadline_us: int | None = None


class FlowHost(Protocol):
    """Performs the actions of flows and receives their results."""

    def perform(self, flow: RunningFlow, action: Action) -> None:
        """Perform an action at once."""
        ...

    def flow_ended(self, flow: RunningFlow, result: FlowResult) -> None:
        """Answer the client with the result of a flow."""
        ...


_DUPLICATE_ID = {"code": INVALID_REQUEST, "message": "another request with this id is still open"}


class FlowScheduler:
    """The running flows of one engine."""

    def __init__(self, outbox: Outbox, host: FlowHost) -> None:
        self._outbox = outbox
        self._conn = outbox.conn
        self._host = host
        self.running: dict[int, RunningFlow] = {}
        self._awaiting_agent: dict[Hashable, RunningFlow] = {}
        """By the id of the request that the agent has to answer."""
        self._awaiting_hosts: dict[tuple[Peer, Hashable], RunningFlow] = {}
        """By the host, and the id of the request that the host has to answer."""
        self._abandoned_calls: set[Hashable] = set()
        """The ids of calls that timed out. Their responses are ignored."""
        self._flow_count = 0
        self._call_count = 0
        self.awaits_restart = False
        """Whether a flow may wait for the end of a restart."""

    @property
    def next_deadline_us(self) -> int | None:
        """The earliest deadline of all running flows."""
        deadlines = [it.deadline_us for it in self.running.values() if it.deadline_us is not None]
        return min(deadlines, default=None)

    @property
    def is_awaiting_agent(self) -> bool:
        """Whether a flow waits for a response of the agent."""
        return bool(self._awaiting_agent)

    def is_busy(self, session_id: str | None, client: ClientConnection | None = None) -> bool:
        """Return whether a flow for this session is running that a client has to wait for.

        Without a client, return whether any flow is running for it.
        """
        return session_id is not None and any(
            it.session_id == session_id
            and (client is None or not it.is_shared or it.client is client)
            for it in self.running.values()
        )

    def new_id(self) -> Raw:
        """Return an id for a request to the agent that no other request has."""
        self._call_count += 1
        token = self._conn.settings.token
        own_id = f"rekindle-{token}-{self._call_count}" if token else f"rekindle-{self._call_count}"
        return Raw(encode(own_id))

    def start(
        self,
        flow: Flow,
        client: ClientConnection,
        request_id: Raw,
        session_id: str | None,
        *,
        is_shared: bool = False,
    ) -> None:
        """Start a flow that answers a request of a client.

        With `is_shared`, other clients can use the session meanwhile.
        """
        self._flow_count += 1
        running = RunningFlow(
            self._flow_count, flow, client, request_id, session_id, is_shared=is_shared
        )
        self.running[running.number] = running
        self._advance(running, None)

    # -- events ----------------------------------------------------------------------------

    def query_answered(self, number: int, answer: object) -> None:
        """Continue the flow whose query the driver has answered."""
        running = self.running[number]
        if isinstance(answer, QueryFailed):
            self._advance(running, Refusal(INTERNAL_ERROR, answer.reason))
        else:
            self._advance(running, answer)

    def agent_replied(self, envelope: Envelope, line: bytes) -> bool:
        """Continue the flow that waits for a response; return whether the response was for one."""
        key = request_key(envelope.id) if envelope.id is not UNSET else None
        running = self._awaiting_agent.pop(key, None)
        if running is None:
            is_abandoned = key in self._abandoned_calls
            self._abandoned_calls.discard(key)
            return is_abandoned
        if isinstance(running.effect, ForwardRequest) and running.client.peer != FIRST_CLIENT:
            line = with_id(line, running.request_id)
        self._advance(running, _reply(envelope, line))
        return True

    def host_replied(self, host: Peer, envelope: Envelope, line: bytes) -> bool:
        """Continue the flow that waits for a host; return whether the response was for one."""
        key = request_key(envelope.id) if envelope.id is not UNSET else None
        running = self._awaiting_hosts.pop((host, key), None)
        if running is not None:
            self._advance(running, _reply(envelope, line))
        return running is not None

    def host_closed(self, host: Peer) -> None:
        """Continue the flows that wait for a host whose connection has ended."""
        for key in [key for key in self._awaiting_hosts if key[0] == host]:
            error = {"message": "the connection to the host of the session has ended"}
            self._advance(self._awaiting_hosts.pop(key), AgentReply(error=error))

    def continue_waiting(self) -> None:
        """Continue the flows that wait for the end of a turn or of a restart, if it has come."""
        self.awaits_restart = self._conn.agent.is_restarting
        for running in list(self.running.values()):
            effect = running.effect
            if isinstance(effect, WaitForTurnEnd | WaitForRestart) and self._is_over(effect):
                self._advance(running, None)

    def _is_over(self, effect: WaitForTurnEnd | WaitForRestart) -> bool:
        if isinstance(effect, WaitForRestart):
            return not self._conn.agent.is_restarting
        return not self._conn.has_turn(effect.session_id)

    def agent_exited(self) -> None:
        """Continue the flows that wait for the agent: it will not answer."""
        waiting = list(self._awaiting_agent.values())
        self._awaiting_agent.clear()
        self._abandoned_calls.clear()
        for running in waiting:
            effect = running.effect
            method = effect.method if isinstance(effect, CallAgent | ForwardRequest) else ""
            self._advance(running, AgentReply(error=self._conn.agent.error(method)))
        self.continue_waiting()

    def tick(self) -> None:
        """Continue the flows whose deadline has passed."""
        now_us = self._conn.at_us
        for running in list(self.running.values()):
            if running.deadline_us is not None and running.deadline_us <= now_us:
                is_call = isinstance(running.effect, CallAgent | CallHost)
                self._abandon_calls(running)
                self._advance(running, AgentReply(error=NO_RESPONSE) if is_call else None)

    # -- effects ---------------------------------------------------------------------------

    def _advance(self, running: RunningFlow, result: object) -> None:
        """Send a flow the result of its effect, until it waits for another one or ends."""
        while True:
            running.effect = running.deadline_us = None
            try:
                if isinstance(result, Refusal):
                    effect = running.flow.throw(result)
                else:
                    effect = running.flow.send(result)
            except StopIteration as done:
                self._end(running, done.value)
                return
            except Refusal as refusal:
                self._end(running, refusal)
                return
            except Exception as fault:  # noqa: BLE001 - the client still gets a response
                self._fail(running, fault)
                return
            running.effect = effect
            try:
                is_known, result = self._perform(running, effect)
            except Exception as fault:  # noqa: BLE001 - as above
                self._abandon_calls(running)
                self._fail(running, fault)
                return
            if not is_known:
                return

    def _perform(self, running: RunningFlow, effect: FlowEffect) -> tuple[bool, object]:
        """Perform an effect; return whether its result is known already, and the result."""
        match effect:
            case CallAgent() | ForwardRequest() | CallHost() | ForwardToHost():
                error = self._call(running, effect)
                return error is not None, None if error is None else AgentReply(error=error)
            case Pause():
                running.deadline_us = self._conn.at_us + effect.us
                return False, None
            case WaitForTurnEnd() | WaitForRestart():
                if isinstance(effect, WaitForTurnEnd):
                    running.deadline_us = self._conn.at_us + effect.timeout_us
                else:
                    self.awaits_restart = True
                return self._is_over(effect), None
            case (
                SendToClient()
                | SendToSession()
                | Broadcast()
                | ForwardToAgent()
                | RecordUndelivered()
                | CancelTurn()
                | DetachClient()
                | DisconnectFromHost()
                | CatchUp()
                | DropQueuedPrompts()
                | AnswerOpenPrompts()
                | FlushHeld()
                | RecordChanges()
                | ReportToUser()
                | ReportHostDeath()
            ):
                self._host.perform(running, effect)
                return True, None
            case _:
                self._outbox.step.queries.append(PendingQuery(running.number, effect))
                return False, None

    def _call(
        self, running: RunningFlow, effect: CallAgent | ForwardRequest | CallHost | ForwardToHost
    ) -> Json | None:
        """Send a request to the agent or a host; return why it cannot be sent."""
        if isinstance(effect, CallHost | ForwardToHost):
            self._call_host(running, effect)
            return None
        if isinstance(effect, ForwardRequest) and self._is_open(running):
            return _DUPLICATE_ID
        error = self._conn.agent.error(effect.method)
        if error is None:
            self._call_agent(running, effect)
        return error

    def _call_agent(self, running: RunningFlow, effect: CallAgent | ForwardRequest) -> None:
        if isinstance(effect, ForwardRequest):
            sent_id, line = running.request_id, effect.line
            if running.client.peer != FIRST_CLIENT:
                sent_id = self.new_id()
                line = with_id(line, sent_id)
        else:
            if effect.timeout_us is not None:
                running.deadline_us = self._conn.at_us + effect.timeout_us
            sent_id = self.new_id()
            line = request(sent_id, effect.method, effect.params)
        self._awaiting_agent[request_key(sent_id)] = running
        self._outbox.send_to_agent(line)

    def _call_host(self, running: RunningFlow, effect: CallHost | ForwardToHost) -> None:
        if isinstance(effect, ForwardToHost):
            sent_id, line = running.request_id, effect.line
        else:
            running.deadline_us = self._conn.at_us + effect.timeout_us
            sent_id = self.new_id()
            line = request(sent_id, effect.method, effect.params)
        self._awaiting_hosts[effect.host, request_key(sent_id)] = running
        self._outbox.send_to_host(effect.host, line)

    def _is_open(self, running: RunningFlow) -> bool:
        """Return whether the agent has a request with the same id already."""
        is_unchanged = running.client.peer == FIRST_CLIENT
        return is_unchanged and request_key(running.request_id) in self._awaiting_agent

    def _abandon_calls(self, running: RunningFlow) -> None:
        for key in [key for key, it in self._awaiting_agent.items() if it is running]:
            del self._awaiting_agent[key]
            self._abandoned_calls.add(key)
        for host_key in [key for key, it in self._awaiting_hosts.items() if it is running]:
            del self._awaiting_hosts[host_key]

    def _fail(self, running: RunningFlow, fault: Exception) -> None:
        self._outbox.report_fault(fault)
        self._end(running, Refusal(INTERNAL_ERROR, "a bug in Rekindle: see its stderr and log"))

    def _end(self, running: RunningFlow, result: FlowResult) -> None:
        del self.running[running.number]
        self._host.flow_ended(running, result)


def _reply(envelope: Envelope, line: bytes) -> AgentReply:
    """Return a response of the agent or a host as the reply for a flow."""
    if envelope.error is UNSET or not envelope.is_error:
        result = decode(envelope.result) if envelope.result is not UNSET else None
        return AgentReply(result=result, line=line)
    return AgentReply(error=as_object(decode(envelope.error)), line=line)
