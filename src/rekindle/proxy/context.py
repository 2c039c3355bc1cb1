"""What it takes to decide on a line: the connection, the recording, and the step so far."""

from typing import Any

from msgspec import UNSET, Raw

from rekindle.acp import methods
from rekindle.acp.jsonrpc import Envelope, update_line
from rekindle.acp.translate.endings import ending_to_v2
from rekindle.jsonvalue import encode
from rekindle.model import AgentIdentity, Side
from rekindle.proxy.connection_state import AgentState, ConnectionState, EngineSettings
from rekindle.proxy.journal import Journal
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.open_requests import OpenRequest
from rekindle.proxy.step import AgentExit, Step
from rekindle.proxy.strict import StrictMode

PROMPT_ID = "rekindle-prompt-"
"""How the ids begin under which prompts go to an agent of another version."""
RUNNING = {"sessionUpdate": "state_update", "state": "running"}


class Desk:
    """Where both directions, and the flows, put what is to be done."""

    def __init__(self, settings: EngineSettings) -> None:
        agent = AgentState(identity=AgentIdentity(command=settings.command))
        self.conn = ConnectionState(settings=settings, agent=agent)
        self.recording = Journal(self.conn)
        self.step = Step()
        self._strictness = StrictMode() if settings.is_strict else None

    def begin(self, at_us: int) -> Step:
        """Begin a step."""
        self.step = Step()
        self.conn.at_us = at_us
        self.recording.begin(self.step, at_us)
        return self.step

    @property
    def can_go_on(self) -> bool:
        """Whether an agent that has ended can be started anew: it was ready once."""
        return self.conn.agent.is_initialized

    def tell(self, line: bytes) -> None:
        """Send a line to the client."""
        self.step.to_client.append(line)

    def send(self, line: bytes) -> None:
        """Send a line to the agent; nothing goes to one that is no more."""
        if self.conn.agent.ended is None or self.conn.agent.is_running:
            self.step.to_agent.append(line)

    def see(self, side: Side, line: bytes, message: Envelope) -> None:
        """Record what there is to record of a line."""
        session_id = message.session_id
        if isinstance(message.id, Raw):
            if message.method is not UNSET:
                self.recording.request(side, message.id, message.method, session_id, line)
            elif message.is_response:
                self.recording.response(side, message.id, message, line)
        elif message.is_update and side is Side.AGENT and session_id is not None:
            self.recording.update(session_id, message.update_kind, line, line)
        elif message.method is not UNSET:
            self.recording.notification(side, message.method, session_id, line)

    def objects(self, side: Side, line: bytes, message: Envelope | None) -> bool:
        """Tell whether strictness forbids a line; if so, say why."""
        objection = self._strictness and self._strictness.objection(side, line, message)
        if not objection:
            return False
        if objection.answer:
            self.step.to(side).append(objection.answer)
        self.step.reports.append(objection.complaint)
        return True

    def answer_for_agent(self, asked: OpenRequest, outcome: dict[str, Any]) -> None:
        """Answer a request in the agent's place."""
        answer = encode({"jsonrpc": "2.0", "id": Raw(asked.id), **outcome})
        if asked.method == methods.PROMPT and asked.session_id is not None:
            self.recording.end_turn(asked.session_id, answer)
            if self.conn.is_translating:
                self.end_turn(asked.session_id, outcome)
                return
        self.tell(answer)

    def tell_title(self, live: LiveSession) -> None:
        """Tell the client a title that it does not know yet."""
        if live.new_title is None:
            return
        live.title, live.new_title = live.new_title, None
        update = {"sessionUpdate": methods.SESSION_INFO_UPDATE, "title": live.title}
        line = update_line(live.id, update)
        self.recording.news(live.id, line)
        self.tell(line)

    def cut_off(self, live: LiveSession, ended: AgentExit) -> None:
        """End a turn whose prompt a version 2 agent has taken, and whose end it did not live to."""
        self._end_for_agent(live, {"error": ended.error(methods.PROMPT)})

    def call_off(self, live: LiveSession) -> None:
        """End a turn that a version 2 agent was asked to cancel, and did not."""
        self._end_for_agent(live, {"result": {"stopReason": "cancelled"}})

    def _end_for_agent(self, live: LiveSession, outcome: dict[str, Any]) -> None:
        live.is_working, live.awaiting = False, 0
        self.recording.end_turn(live.id, encode({"jsonrpc": "2.0", **outcome}))
        if self.conn.is_translating:
            self.end_turn(live.id, outcome)
        else:
            state = {"sessionUpdate": "state_update", **ending_to_v2(outcome)}
            self.tell(update_line(live.id, state))

    def end_turn(self, session_id: str, outcome: dict[str, Any]) -> None:
        """Tell a client of the other version how a turn has ended, as it expects to be told."""
        live = self.conn.sessions.get(session_id)
        if self.conn.client_protocol > 1:
            state = {"sessionUpdate": "state_update", **ending_to_v2(outcome)}
            self.tell(update_line(session_id, state))
        elif live is not None and live.open_prompt is not None:
            live.is_working, live.awaiting = False, 0
            told = {name: outcome[name] for name in ("result", "error") if name in outcome}
            answer = {"jsonrpc": "2.0", "id": Raw(live.open_prompt), **told}
            live.open_prompt = None
            self.tell(encode(answer))

    def answer_all_for_agent(self, ended: AgentExit) -> None:
        """Answer what an agent that has ended has left open."""
        for asked in self.conn.requests.settle(Side.CLIENT):
            self.answer_for_agent(asked, {"error": ended.error(asked.method)})
