"""The outbox: everything that adds messages to the step of the present event.

Knows how a message reaches a peer and how a turn ends for a client. Decides nothing about which
messages are sent.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Raw

from rekindle.acp import methods, update_kinds
from rekindle.acp.jsonrpc import Envelope, update_line
from rekindle.acp.translate.endings import ending_to_v2
from rekindle.jsonvalue import encode
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.journal import Journal
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.open_requests import OpenRequest
from rekindle.proxy.step import AGENT, AgentExit, Peer, Step, UserReport
from rekindle.proxy.strict import StrictMode

RUNNING = {"sessionUpdate": "state_update", "state": "running"}


class Outbox:
    """Collects the messages of one step."""

    def __init__(self, conn: ConnectionState, journal: Journal) -> None:
        self.conn = conn
        self.journal = journal
        self.step = Step()
        self.strict = StrictMode() if conn.settings.is_strict else None

    # -- messages --------------------------------------------------------------------------

    def send(self, peer: Peer, line: bytes) -> None:
        """Send a line to the agent or a client."""
        if peer == AGENT:
            self.send_to_agent(line)
        else:
            self.send_to_client(line, peer)

    def send_to_client(self, line: bytes, peer: Peer | None = None) -> None:
        """Send a line to a client: the first one, unless another is named."""
        self.step.to_clients.setdefault(peer or self.conn.client.peer, []).append(line)

    def send_lines(self, client: Peer, lines: Iterable[bytes]) -> None:
        """Send lines to a client."""
        self.step.to_clients.setdefault(client, []).extend(lines)

    def send_to_agent(self, line: bytes) -> None:
        """Send a line to the agent, unless its process has ended."""
        agent = self.conn.agent
        if agent.last_exit is None or agent.is_running:
            self.step.to_agent.append(line)

    def report(self, text: str, quote: str) -> None:
        """Report something to the user. `quote` comes from the conversation."""
        self.step.reports.append(UserReport(text, quote))

    def report_fault(self, fault: Exception) -> None:
        """Report a fault of Rekindle itself to the user."""
        self.report("a bug in Rekindle, please report it", repr(fault))

    def is_refused(self, peer: Peer, line: bytes, envelope: Envelope | None) -> bool:
        """Refuse and report a line that strict mode forbids; return whether it does."""
        violation = self.strict and self.strict.violation(peer, line, envelope)
        if not violation:
            return False
        if violation.response:
            self.send(peer, violation.response)
        self.step.reports.append(violation.report)
        return True

    # -- turns -----------------------------------------------------------------------------

    def respond_for_agent(self, request: OpenRequest, outcome: dict[str, Any]) -> None:
        """Answer a request of the client for the agent. The end of a turn is recorded."""
        line = encode({"jsonrpc": "2.0", "id": Raw(request.id), **outcome})
        if request.method == methods.PROMPT and request.session_id is not None:
            self.announce_title(self.conn.sessions.get(request.session_id))
            self.journal.end_turn(request.session_id, line)
            if self.conn.is_translating:
                self.end_turn(request.session_id, outcome)
                return
        self.send_to_client(line)

    def respond_to_all(self, exited: AgentExit) -> None:
        """Answer the requests that an agent left open when it exited."""
        for request in self.conn.requests.answer_for_agent():
            self.respond_for_agent(request, {"error": exited.error(request.method)})

    def interrupt_turn(self, live: LiveSession, exited: AgentExit) -> None:
        """End a turn that a version 2 agent had acknowledged before it exited."""
        self._end_turn_for_agent(live, {"error": exited.error(methods.PROMPT)})

    def cancel_turn(self, live: LiveSession) -> None:
        """End a turn that a version 2 agent did not end after it was cancelled."""
        self._end_turn_for_agent(live, {"result": {"stopReason": "cancelled"}})

    def _end_turn_for_agent(self, live: LiveSession, outcome: dict[str, Any]) -> None:
        live.turn.finish()
        self.announce_title(live)
        self.journal.end_turn(live.id, encode({"jsonrpc": "2.0", **outcome}))
        if self.conn.is_translating:
            self.end_turn(live.id, outcome)
        else:
            state = {"sessionUpdate": "state_update", **ending_to_v2(outcome)}
            self.send_to_client(update_line(live.id, state))

    def end_turn(self, session_id: str, outcome: dict[str, Any]) -> None:
        """Inform a client of the other protocol version that a turn has ended.

        A version 2 client receives a state, a version 1 client the response to its prompt.
        """
        if self.conn.client.protocol > 1:
            state = {"sessionUpdate": "state_update", **ending_to_v2(outcome)}
            self.send_to_client(update_line(session_id, state))
            return
        live = self.conn.sessions.get(session_id)
        if live is not None and live.turn.held_prompt is not None:
            live.turn.finish()
            ending = {name: outcome[name] for name in ("result", "error") if name in outcome}
            response = {"jsonrpc": "2.0", "id": Raw(live.turn.held_prompt), **ending}
            live.turn.held_prompt = None
            self.send_to_client(encode(response))

    def announce_title(self, live: LiveSession | None) -> None:
        """Send the client the title that waits for the end of the turn, if any.

        Call it before the turn ends for the client: after the end, version 1 allows no update.
        """
        title = live.title.announce() if live is not None else None
        if live is None or title is None:
            return
        update = {"sessionUpdate": update_kinds.SESSION_INFO_UPDATE, "title": title}
        line = update_line(live.id, update)
        self.journal.own_update(live.id, line)
        self.send_to_client(line)
