"""Announcements and states of sub-agents: note them, and report them in the client's version.

Version 2 reports the state of a sub-agent's work twice: in the sub-agent's own session, and in the
update of its parent. Version 1 has only the latter. So each is made from the other.
"""

from rekindle.acp.jsonrpc import update_line
from rekindle.acp.translate.subagents import state_report, state_to_v1
from rekindle.jsonvalue import Json, as_object, decode_object, encode, without
from rekindle.proxy.journal import update_in
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.outbox import Outbox
from rekindle.proxy.subagents import LiveSubagent

_UNKNOWN: Json = {"state": "unknown"}


class SubagentUpdates:
    """The updates about the sub-agents of one engine."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._conn = outbox.conn

    def announce(self, parent: LiveSession | LiveSubagent, line: bytes) -> LiveSubagent | None:
        """Note a `subagent_update` of the agent; return its sub-agent."""
        return self._conn.subagents.announce(parent, update_in(line), self._conn.sessions)

    def announced(self, line: bytes) -> None:
        """Record a sub-agent after its announcement was forwarded, and report its state."""
        conn, update = self._conn, update_in(line)
        subagent = conn.subagents.get_by_agent_id(update.get("sessionId"))
        if subagent is None:
            return
        self._outbox.journal.announced(subagent.id, update)
        state = as_object(update.get("state"))
        if state and conn.agent.capabilities.protocol == 1:
            self._send_state(subagent, state)

    def state_changed(self, subagent: LiveSubagent, update: Json) -> None:
        """Note the state that a version 2 sub-agent reports; send it to version 1 clients."""
        state = subagent.fields["state"] = without(update, "sessionUpdate")
        report = state_report(subagent.id, state_to_v1(state))
        line = update_line(subagent.parent_id, report)
        for client in self._conn.audience(subagent.root):
            if client.protocol == 1 and client.takes_subagents:
                self._outbox.send(client.peer, line)

    def agent_exited(self) -> None:
        """Report the work of all sub-agents as unknown: the agent that did it has exited."""
        conn, outbox = self._conn, self._outbox
        for subagent in conn.subagents.working():
            line = update_line(subagent.parent_id, state_report(subagent.id, _UNKNOWN))
            outbox.journal.own_update(subagent.parent_id, line)
            for client in conn.audience(subagent.root):
                if client.takes_subagents:
                    outbox.send(client.peer, line)
            self._send_state(subagent, _UNKNOWN)

    def with_client_ids(self, line: bytes) -> bytes:
        """Return an update in which the sessions that it names have the client's ids."""
        message = decode_object(line) or {}
        params = as_object(message.get("params"))
        update = as_object(params.get("update"))
        renamed = self._conn.subagents.with_client_ids(update, self._conn.sessions)
        if renamed is update:
            return line
        return encode({**message, "params": {**params, "update": renamed}})

    def _send_state(self, subagent: LiveSubagent, state: Json) -> None:
        """Send the state of a sub-agent to the version 2 clients."""
        line = update_line(subagent.id, {"sessionUpdate": "state_update", **state})
        for client in self._conn.audience(subagent.root):
            if client.protocol > 1:
                self._outbox.send(client.peer, line)
