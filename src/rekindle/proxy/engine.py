"""What becomes of each line.

Most are passed on as they came, and recorded. The requests of the session lifecycle are
answered by flows; see `lifecycle`. Where the agent calls a session otherwise than the client
does, its id is changed on the way, and nothing else. An answer that we give in the agent's
place is recorded like its own, because the client sees it all the same.
"""

from typing import Any, assert_never

from msgspec import Raw

from rekindle.acp import methods
from rekindle.acp.jsonrpc import (
    error_response,
    notification,
    response,
)
from rekindle.model import Side
from rekindle.proxy.agent_messages import CANCELLED, AgentMessages
from rekindle.proxy.client_messages import ClientMessages
from rekindle.proxy.connection_state import EngineSettings
from rekindle.proxy.context import Desk
from rekindle.proxy.flow import (
    Action,
    AnswerOpenPrompts,
    CancelTurn,
    DropQueuedPrompts,
    FlushHeld,
    ForwardToAgent,
    Query,
    RecordChanges,
    RecordUndelivered,
    Refusal,
    SendToClient,
)
from rekindle.proxy.flow_scheduler import FlowOutcome, FlowScheduler, RunningFlow
from rekindle.proxy.handlers.cursor import send_position
from rekindle.proxy.handlers.open import is_at_work
from rekindle.proxy.step import AgentExit, PendingQuery, Step, UserReport


class Engine:
    """Decides what becomes of each line. One instance per connection."""

    def __init__(self, settings: EngineSettings) -> None:
        self._desk = Desk(settings)
        self._conductor = FlowScheduler(self)
        self._client = ClientMessages(self._desk, self._conductor)
        self._agent = AgentMessages(self._desk, self._conductor)

    # -- what happens -------------------------------------------------------------------

    def receive(self, side: Side, lines: bytes, at_us: int) -> Step:
        """Decide on the lines, joined by newlines, that one read brought from `side`."""
        step = self._desk.begin(at_us)
        seen = self._desk.recording.goes_on(lines) if side is Side.AGENT else None
        if seen is not None:
            step.to_client += [seen] if seen else []
        else:
            for line in lines.split(b"\n"):
                self._take(side, line)
        return self._finish()

    def _take(self, side: Side, line: bytes) -> None:
        """Decide on one line; if that fails, it is passed on as it is, and the next one follows."""
        try:
            if side is Side.AGENT:
                self._from_agent(line)
            else:
                self._client.take(line)
        except Exception as fault:  # noqa: BLE001 - a fault of ours must not end a conversation
            self.complain(fault)
            if not self._desk.conn.is_translating:
                self._desk.step.to(side.peer).append(line)

    def answer(self, flow: int, answer: object, at_us: int) -> Step:
        """Take the answer to a question of an earlier step."""
        self._begin(at_us)
        self._conductor.answered(flow, answer)
        return self._finish()

    def tick(self, at_us: int) -> Step:
        """Notice that time has passed."""
        self._begin(at_us)
        self._conductor.tick()
        return self._finish()

    def agent_fell_silent(self) -> None:
        """Notice that the agent will answer nothing more: what is asked now is for the next one."""
        agent = self._desk.conn.agent
        agent.is_dying = agent.is_running and self.can_go_on

    def agent_ended(self, ended: AgentExit, at_us: int) -> Step:
        """Answer every request that the agent left open."""
        self._begin(at_us)
        conn = self._desk.conn
        conn.agent.ended = ended
        conn.agent.is_running = conn.agent.is_initializing = conn.agent.is_dying = False
        conn.agent.deaths += 1
        conn.agent.generation += 1
        for asked in conn.requests.settle(Side.AGENT):
            self._desk.tell(notification(methods.CANCEL_REQUEST, {"requestId": Raw(asked.told_as)}))
        for live in conn.sessions.at_work():
            self._desk.cut_off(live, ended)
        conn.sessions.agent_ended()
        self._desk.answer_all_for_agent(ended)
        self._conductor.agent_ended()
        return self._finish()

    def recover(self) -> None:
        """Forget what was begun, after a fault in the middle of it."""
        self._begin(0)
        self._finish()

    @property
    def can_go_on(self) -> bool:
        """Whether an agent that has ended can be started anew."""
        return self._desk.can_go_on

    @property
    def is_waiting_for_agent(self) -> bool:
        """Whether the agent owes an answer."""
        return self._desk.conn.requests.is_waiting(Side.CLIENT) or self._conductor.is_asking

    def _begin(self, at_us: int) -> None:
        self._desk.begin(at_us)
        self._desk.recording.end_streak()

    def _finish(self) -> Step:
        for live in self._desk.conn.sessions.with_queued():
            if not self.has_turn(live.id) and not self._conductor.is_busy(live.id):
                self._client.take(live.queued.pop(0))
        self._client.release()
        self._desk.recording.finish()
        self._desk.step.wake_us = self._conductor.next_us
        return self._desk.step

    def _from_agent(self, line: bytes) -> None:
        asked = self._agent.take(line)
        ended, self._agent.ended = self._agent.ended, None
        if ended is not None:
            self._turn_ended(ended)
        if asked is not None and asked.method == methods.PROMPT and asked.session_id is not None:
            self._desk.conn.agent.deaths = 0
            live = self._desk.conn.sessions.get(asked.session_id)
            if live is not None and not live.is_working:
                self._desk.tell_title(live)
                live.end_telling()
            self._turn_ended(asked.session_id)

    def _turn_ended(self, session_id: str) -> None:
        self._conductor.turn_ended()
        if self._desk.conn.client_wants_seq and not self.has_turn(session_id):
            self._conductor.start(send_position(session_id), Raw(b"null"), None)

    # -- for the flows ------------------------------------------------------------------

    @property
    def token(self) -> str:
        """What the ids of our questions have that no others have."""
        token = self._desk.conn.settings.token
        return f"{token}-" if token else ""

    @property
    def at_us(self) -> int:
        """The time."""
        return self._desk.conn.at_us

    def agent_error(self, method: str) -> dict[str, Any] | None:
        """Return the error that a question gets, if the agent has ended."""
        ended = self._desk.conn.agent.ended
        if ended is None or self._desk.conn.agent.is_running:
            return None
        return ended.error(method)

    def has_turn(self, session_id: str) -> bool:
        """Tell whether a turn is running."""
        return is_at_work(self._desk.conn, session_id)

    def send_to_agent(self, line: bytes) -> None:
        """Send a line to the agent."""
        self._desk.send(line)

    def pose(self, number: int, question: Query) -> None:
        """Have a question answered by the runner."""
        self._desk.step.queries.append(PendingQuery(number, question))

    def do(self, deed: Action) -> None:
        """Do what a flow asks for."""
        match deed:
            case SendToClient():
                self._desk.step.to_client += deed.lines
            case ForwardToAgent():
                self._client.deliver(deed.line, deed.preface, is_ours=deed.is_ours)
            case RecordUndelivered():
                self._desk.recording.unheard(deed.session_id, deed.line, deed.answer)
            case RecordChanges():
                self._desk.recording.finish()
                self._desk.step.changes += deed.changes
                self._desk.recording.learn_of(deed.changes)
                self._desk.step.sync = True
            case CancelTurn():
                self._cancel(deed.session_id)
            case AnswerOpenPrompts():
                self._end_turn(deed.session_id)
            case FlushHeld():
                for line in self._desk.conn.sessions.take_held_of(deed.session_id):
                    self._from_agent(line)
            case DropQueuedPrompts():
                self._client.drop_queued(deed.session_id)
            case _:  # pragma: no cover - there is no other
                assert_never(deed)

    def complain(self, fault: Exception) -> None:
        """Tell the user of a fault of ours."""
        what = UserReport("a fault in Rekindle, please report it", repr(fault))
        self._desk.step.reports.append(what)

    def finished(self, running: RunningFlow, outcome: FlowOutcome) -> None:
        """Answer the client, and do what had to wait for it."""
        match outcome.result:
            case Refusal() as it:
                line = error_response(running.request_id, it.code, it.message, it.data)
                self._desk.tell(line)
            case bytes() as line:
                self._desk.tell(line)
            case dict() as result:
                self._desk.tell(response(running.request_id, result))
            case _:
                pass
        for line in self._desk.conn.sessions.take_held(are_all_named=not self._desk.conn.openings):
            self._from_agent(line)

    def _cancel(self, session_id: str) -> None:
        self._client.deliver(notification(methods.CANCEL, {"sessionId": session_id}))
        open_ = self._desk.conn.requests.settle(Side.AGENT, methods.REQUEST_PERMISSION, session_id)
        for asked in open_:
            line = response(Raw(asked.id), CANCELLED)
            self._desk.recording.outcome(session_id, line)
            self._desk.send(line)

    def _end_turn(self, session_id: str) -> None:
        live = self._desk.conn.sessions.get(session_id)
        if live is not None and live.is_working:
            self._desk.call_off(live)
        for asked in self._desk.conn.requests.settle(Side.CLIENT, methods.PROMPT, session_id):
            self._desk.answer_for_agent(asked, {"result": {"stopReason": "cancelled"}})
