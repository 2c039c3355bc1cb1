"""The sub-agents of the sessions that a connection uses.

An agent announces a sub-agent with an update of its parent. From then on it sends updates and
requests under the sub-agent's own session id. A client opens and prompts no such session.

The client knows a sub-agent by the agent's id, unless another session on this connection has that
id, or its parent had it before a handover. Then the id gets a suffix.
"""

from collections.abc import Collection, Iterator
from typing import Any

from msgspec import Struct

from rekindle.acp.jsonrpc import update_line
from rekindle.acp.translate.subagents import SUBAGENT_UPDATE
from rekindle.acp.update_kinds import Category, kind_of
from rekindle.jsonvalue import Json, as_object, as_str, without
from rekindle.model import subagent_record_id
from rekindle.proxy.live_session import LiveSession, LiveSessions

_LINKS = ("sessionId", "senderSessionId", "recipientSessionId")


class LiveSubagent(Struct):
    """A sub-agent that the agent has announced."""

    live: LiveSession
    """Its ids and translators. Its updates are treated as those of the root."""
    parent_id: str
    """The client's id of the session that owns it, which may be a sub-agent's."""
    root: LiveSession
    """The session that the client has opened."""
    record_id: str
    parent_record_id: str
    parent_agent_id: str
    fields: dict[str, Any] = {}
    """Its title, capabilities and state, as the agent last reported them."""
    is_fresh: bool = True
    """Whether the agent has announced it now, and not as a part of its history."""

    @property
    def id(self) -> str:
        """The client's id."""
        return self.live.id

    @property
    def is_ignored(self) -> bool:
        """Whether its updates are a part of history that the record has, or of a closed session."""
        return self.root.is_closed or not (self.is_fresh or self.root.updates.is_forwarding)

    @property
    def is_working(self) -> bool:
        """Whether the agent has reported that it works, and not that its work has ended."""
        return as_object(self.fields.get("state")).get("state") not in {None, "idle"}


class Subagents:
    """The sub-agents of one engine, by the client's id and by the agent's."""

    def __init__(self) -> None:
        self._by_id: dict[str, LiveSubagent] = {}
        self._by_agent_id: dict[str, LiveSubagent] = {}
        self._removed: set[str] = set()
        """The records of sub-agents that rewinds have removed. Another one gets another id."""

    def __bool__(self) -> bool:
        return bool(self._by_id)

    def get(self, session_id: str | None) -> LiveSubagent | None:
        """Return the sub-agent with the client's id."""
        return self._by_id.get(session_id) if session_id is not None else None

    def get_by_agent_id(self, agent_id: str | None) -> LiveSubagent | None:
        """Return the sub-agent with the agent's id."""
        return self._by_agent_id.get(agent_id) if agent_id is not None else None

    def of(self, root_id: str) -> list[LiveSubagent]:
        """Return the sub-agents of a session, and theirs, in the order of their announcement."""
        return [it for it in self._by_id.values() if it.root.id == root_id]

    def announcements(self, root_id: str, *, with_states: bool) -> Iterator[bytes]:
        """Yield the lines with which the agent would announce again the sub-agents of a session.

        A client that has loaded a session must not rely on what the replay reports of its
        sub-agents. Sub-agents of the agent's history only are left out. With `with_states`, the
        sub-agents report their states too.
        """
        for it in self._by_id.values():
            if it.root.id != root_id or not it.is_fresh:
                continue
            update = {
                "sessionUpdate": SUBAGENT_UPDATE,
                "sessionId": it.live.agent_id,
                **it.fields,
                "capabilities": as_object(it.fields.get("capabilities")),
            }
            yield update_line(it.parent_agent_id, update)
            state = as_object(it.fields.get("state"))
            if state and with_states:
                yield update_line(it.live.agent_id, {"sessionUpdate": "state_update", **state})

    def record_id(self, session_id: str) -> str:
        """Return the id under which a session is recorded, given the client's id."""
        known = self._by_id.get(session_id)
        return session_id if known is None else known.record_id

    def announce(
        self, parent: "LiveSession | LiveSubagent", update: Json, sessions: LiveSessions
    ) -> LiveSubagent | None:
        """Note a `subagent_update`; return its sub-agent, or None if it names no new session."""
        agent_id = as_str(update.get("sessionId"))
        if agent_id is None or sessions.get_by_agent_id(agent_id) is not None:
            return None
        root = parent.root if isinstance(parent, LiveSubagent) else parent
        known = self._by_agent_id.get(agent_id)
        if known is None:
            known = self._add(parent, root, agent_id, sessions)
        elif known.parent_id != parent.id:
            # A sub-agent has one parent only.
            return None
        # A restored agent first replays its history, and then announces what still works.
        known.is_fresh = root.updates.is_forwarding or not root.memory.is_in_transition
        known.fields |= without(update, "sessionUpdate", "sessionId")
        return known

    def _add(
        self,
        parent: "LiveSession | LiveSubagent",
        root: LiveSession,
        agent_id: str,
        sessions: LiveSessions,
    ) -> LiveSubagent:
        session_id = agent_id
        if agent_id in root.suffixed.taken:
            session_id += root.suffixed.suffix
        parent_record = parent.record_id if isinstance(parent, LiveSubagent) else parent.id
        number = 1
        while (
            session_id in self._by_id
            or sessions.get(session_id) is not None
            or subagent_record_id(parent_record, session_id) in self._removed
        ):
            number += 1
            session_id = f"{agent_id}~{number}"
        live = LiveSession(
            id=session_id,
            agent_id=agent_id,
            updates=root.updates,
            suffixed=root.suffixed,
            clients=root.clients,
        )
        subagent = LiveSubagent(
            live=live,
            parent_id=parent.id,
            root=root,
            record_id=subagent_record_id(parent_record, session_id),
            parent_record_id=parent_record,
            parent_agent_id=(
                parent.live.agent_id if isinstance(parent, LiveSubagent) else parent.agent_id
            ),
        )
        self._by_id[session_id] = self._by_agent_id[agent_id] = subagent
        return subagent

    def with_client_ids(self, update: Json, sessions: LiveSessions) -> Json:
        """Return an update in which the sessions that it names have the client's ids."""
        changed: Json = {}
        for name in _LINKS:
            agent_id = as_str(update.get(name))
            known = sessions.get_by_agent_id(agent_id)
            subagent = self.get_by_agent_id(agent_id)
            own = known or (subagent.live if subagent is not None else None)
            if own is not None and own.id != agent_id:
                changed[name] = own.id
        return {**update, **changed} if changed else update

    def drop(self, root_id: str) -> list[str]:
        """Forget the sub-agents of a session; return the agent's ids of them."""
        dropped = self.of(root_id)
        for subagent in dropped:
            del self._by_id[subagent.id]
            del self._by_agent_id[subagent.live.agent_id]
        return [it.live.agent_id for it in dropped]

    def remove(self, root_id: str, records: Collection[str]) -> list[str]:
        """Forget the sub-agents that a rewind has removed, and theirs; return the agent's ids.

        The agent may use the ids again for others, which must not continue the same records.
        """
        self._removed.update(records)
        owned = tuple(f"{record}." for record in records)
        gone = [it for it in self.of(root_id) if f"{it.record_id}.".startswith(owned)]
        for subagent in gone:
            del self._by_id[subagent.id]
            del self._by_agent_id[subagent.live.agent_id]
        return [it.live.agent_id for it in gone]

    def working(self) -> Iterator[LiveSubagent]:
        """Yield the sub-agents that work, as far as the agent has reported."""
        return (it for it in self._by_id.values() if it.is_working)

    def agent_exited(self) -> None:
        """Forget all sub-agents: the agent that knew them has exited."""
        self._by_id.clear()
        self._by_agent_id.clear()


def is_announcement(kind: str) -> bool:
    """Return whether an update announces a sub-agent, or reports a change of it."""
    return kind_of(kind).category is Category.SUBAGENT
