"""The outbox: everything that adds messages to the step of the present event.

Knows how a message reaches a peer, and how the clients of a session learn of its turns. Decides
nothing about which messages are sent.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Raw

from rekindle.acp import methods, update_kinds
from rekindle.acp.jsonrpc import Envelope, update_line
from rekindle.acp.translate.endings import STOP_REASONS, ending_to_v2
from rekindle.jsonvalue import Json, encode
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.journal import Journal
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.open_requests import OpenRequest
from rekindle.proxy.peers import AGENT, NO_CLIENT, ClientConnection, Peer
from rekindle.proxy.step import AgentExit, Step, TurnEvent, TurnEventKind, UserReport
from rekindle.proxy.strict import StrictMode
from rekindle.proxy.translation import shown_to, translate_update

RUNNING: Json = {"state": "running"}
REQUIRES_ACTION: Json = {"state": "requires_action"}


class Outbox:
    """Collects the messages of one step."""

    def __init__(self, conn: ConnectionState, journal: Journal) -> None:
        self.conn = conn
        self.journal = journal
        self.step = Step()
        self.strict = StrictMode() if conn.settings.is_strict else None

    # -- messages --------------------------------------------------------------------------

    def send(self, peer: Peer, line: bytes) -> None:
        """Send a line to the agent or a client. A client that has left receives nothing."""
        if peer == AGENT:
            self.send_to_agent(line)
        elif peer in self.conn.clients:
            self.step.to_clients.setdefault(peer, []).append(line)

    def send_lines(self, client: Peer, lines: Iterable[bytes]) -> None:
        """Send lines to a client."""
        if client in self.conn.clients:
            self.step.to_clients.setdefault(client, []).extend(lines)

    def send_to_primary(self, line: bytes) -> None:
        """Send a line that concerns no session in use to the client that the agent knows."""
        self.send(self.conn.primary, line)

    def send_to_session(self, live: LiveSession, line: bytes) -> None:
        """Send a line, the same in both versions, to every client of a session."""
        for client in self.conn.audience(live):
            self.send(client.peer, line)

    def broadcast(
        self,
        live: LiveSession,
        line: bytes,
        translated: Sequence[Json] = (),
        *,
        but: Peer = NO_CLIENT,
    ) -> None:
        """Send an update to every client of a session, in its version.

        `line` is in the agent's version, `translated` in the other one. The client `but` knows
        the update already.
        """
        protocol = self.conn.agent.capabilities.protocol
        for client in self.conn.audience(live):
            if client.peer == but:
                continue
            if client.protocol == protocol:
                self.send(client.peer, line)
            else:
                self._send_translated(live, client, translated)

    def send_update(self, live: LiveSession, update: Json, *, but: Peer = NO_CLIENT) -> None:
        """Send an update of Rekindle's own, in the agent's version, like `broadcast`."""
        translated: list[Json] = []
        if any(map(self.conn.translates_for, self.conn.audience(live))):
            translated = translate_update(self.conn, live, update).updates
        self.broadcast(live, update_line(live.id, update), translated, but=but)

    def _send_translated(
        self, live: LiveSession, client: ClientConnection, updates: Sequence[Json]
    ) -> None:
        for update in updates:
            shown = shown_to(client, update)
            if shown is not None:
                self.send(client.peer, update_line(live.id, shown))

    def send_to_agent(self, line: bytes) -> None:
        """Send a line to the agent, unless its process has ended."""
        agent = self.conn.agent
        if agent.last_exit is None or agent.is_running:
            self.step.to_agent.append(line)

    def send_to_host(self, host: Peer, line: bytes) -> None:
        """Send a line to the host of a session."""
        self.step.to_hosts.setdefault(host, []).append(line)

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
        """Answer a request of a client for the agent. The end of a turn is recorded."""
        line = encode({"jsonrpc": "2.0", "id": Raw(request.id), **outcome})
        if request.method == methods.PROMPT and request.session_id is not None:
            live = self.conn.sessions.get(request.session_id)
            self.announce_title(live)
            self.journal.end_turn(request.session_id, line)
            self.prompt_ended(live, request.asked_by, outcome, line)
        else:
            self.send(request.asked_by, line)

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

    def fail_turn(self, live: LiveSession, outcome: dict[str, Any]) -> None:
        """End a turn of a version 2 agent with an error of Rekindle's own."""
        self._end_turn_for_agent(live, outcome)

    def _end_turn_for_agent(self, live: LiveSession, outcome: dict[str, Any]) -> None:
        live.turn.finish()
        self.announce_title(live)
        self.journal.end_turn(live.id, encode({"jsonrpc": "2.0", **outcome}))
        self.turn_ended(live, outcome)

    def prompt_ended(
        self, live: LiveSession | None, client: Peer, outcome: dict[str, Any], line: bytes
    ) -> None:
        """Answer the client whose prompt has its response, and inform the others.

        A client of the agent's version receives the response itself, as `line`. The response of a
        version 1 agent ends the turn. From a version 2 agent it is an error before the turn.
        """
        asking = self.conn.clients.get(client)
        if asking is not None and not self.conn.translates_for(asking):
            self.send(client, line)
        if live is None:
            return
        if self.conn.agent.capabilities.protocol > 1:
            self._answer_held(live, outcome)
        elif not self.conn.has_turn(live.id):
            self.report_turn(live, ending_to_v2(outcome), but=client)
        if not self.conn.has_turn(live.id):
            self._note_end(live, outcome)

    def turn_ended(
        self, live: LiveSession, outcome: dict[str, Any], *, is_reported: bool = False
    ) -> None:
        """Inform the clients of a session that a turn of a version 2 agent has ended.

        With `is_reported`, the agent itself has sent the state.
        """
        self._answer_held(live, outcome)
        self.report_turn(live, ending_to_v2(outcome), but=live.turn.prompter, to_v2=not is_reported)
        self._note_end(live, outcome)

    def _answer_held(self, live: LiveSession, outcome: dict[str, Any]) -> None:
        """Answer the version 1 client that waits for the end of a turn, if any."""
        held = live.turn.held_prompt
        if held is not None:
            live.turn.finish()
            live.turn.held_prompt = None
            ending = {name: outcome[name] for name in ("result", "error") if name in outcome}
            self.send(held.client, encode({"jsonrpc": "2.0", "id": Raw(held.id), **ending}))

    def report_turn(
        self, live: LiveSession, state: Json, *, but: Peer = NO_CLIENT, to_v2: bool = True
    ) -> None:
        """Send the clients of a session the state of its turn, as version 2 has it.

        Version 1 has no such update: its clients receive the state in `_meta` of another one, if
        a client has prompted the turn. The client `but` needs none if it is of version 1: it has
        the response to its own prompt, or waits for it. Without `to_v2`, version 2 clients receive
        nothing.
        """
        is_prompted = live.turn.prompter != NO_CLIENT
        for client in self.conn.audience(live):
            if client.protocol > 1:
                if to_v2:
                    update = {"sessionUpdate": update_kinds.STATE_UPDATE, **state}
                    self.send(client.peer, update_line(live.id, update))
            elif is_prompted and client.peer != but:
                meta = {"rekindle": {"turn": state}}
                update = {"sessionUpdate": update_kinds.SESSION_INFO_UPDATE, "_meta": meta}
                self.send(client.peer, update_line(live.id, update))

    # -- events for the user ---------------------------------------------------------------

    def note_event(
        self, live: LiveSession, kind: TurnEventKind, reason: str, question: str = ""
    ) -> None:
        """Inform the driver of an event in a turn, if it wants to know."""
        if self.conn.settings.has_hooks:
            event = TurnEvent(
                session_id=live.id,
                kind=kind,
                reason=reason,
                clients=sum(not it.is_observer for it in live.clients.values()),
                question=question,
            )
            self.step.events.append(event)

    def note_death(self, live: LiveSession, exited: AgentExit) -> None:
        """Note that the agent has exited in the middle of a turn, which has no other end."""
        if live.turn.awaits_end:
            live.turn.awaits_end = False
            self.note_event(live, TurnEventKind.DEATH, str(exited))

    def _note_end(self, live: LiveSession, outcome: dict[str, Any]) -> None:
        """Note the end of a turn. Only the first of several reports of one end counts."""
        if live.turn.take_end():
            reason = ending_to_v2(outcome)["stopReason"]
            is_known = reason in STOP_REASONS or reason == "error"
            # An agent can give any text as a reason.
            self.note_event(live, TurnEventKind.END, reason if is_known else "end_turn")

    # -- titles ----------------------------------------------------------------------------

    def announce_title(self, live: LiveSession | None) -> None:
        """Send the clients the title that waits for the end of the turn, if any.

        Call it before the turn ends for a client: after the end, version 1 allows no update.
        """
        title = live.title.announce() if live is not None else None
        if live is None or title is None:
            return
        update = {"sessionUpdate": update_kinds.SESSION_INFO_UPDATE, "title": title}
        line = update_line(live.id, update)
        self.journal.own_update(live.id, line)
        self.send_to_session(live, line)
