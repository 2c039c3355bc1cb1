"""The sub-agents of an open session: each has updates and permission requests of its own."""

from collections.abc import Callable

from msgspec import Raw

from rekindle.acp.translate.subagents import SUBAGENT_UPDATE
from rekindle.acp.update_kinds import STATE_UPDATE
from rekindle.client.events import EventBuilder, SubagentEvent, SubagentUpdated, SurrogateJoiner
from rekindle.client.follow import EventSink
from rekindle.client.models import OnPermission, as_subagent
from rekindle.client.permissions import PermissionQueue
from rekindle.client.rpc import RpcConnection
from rekindle.client.session_record import SessionRecord
from rekindle.jsonvalue import Json, as_object, as_str, decode_object
from rekindle.model import Kind, Side

CurrentSink = Callable[[], EventSink | None]
"""Returns the sink for the events of the session that the client has opened, if any."""


class SubagentChannel:
    """The connection's side of a sub-agent. Its events belong to the events of that session."""

    def __init__(
        self, session_id: str, family: "SubagentFamily", parent: SessionRecord, sink: CurrentSink
    ) -> None:
        self.id = session_id
        self.record = SessionRecord(parent.protocol)
        self._parent = parent
        self._family = family
        self._sink = sink
        self._permissions = family.permissions(self.record)
        self._joiner = SurrogateJoiner()

    def receive_update(self, line: bytes) -> None:
        """Receive an update of the sub-agent's session."""
        update = as_object(as_object(as_object(decode_object(line)).get("params")).get("update"))
        builder = EventBuilder(self.record.transcript, update)
        event = builder.build(self.record.add(Side.AGENT, Kind.UPDATE, line))
        self._family.note(update, self.record)
        sink = self._sink()
        if sink is None:
            return
        if update.get("sessionUpdate") == STATE_UPDATE:
            item = self._parent.transcript.subagent(self.id)
            if item is not None:
                sink.add_event(SubagentUpdated(as_subagent(item)))
            return
        event = self._joiner.join(event) if event is not None else None
        if event is not None:
            sink.add_event(SubagentEvent(self.id, event))

    def receive_permission_request(self, request_id: Raw, line: bytes) -> None:
        """Receive a permission request of the sub-agent."""
        self._permissions.receive(request_id, line, self._sink())

    def withdraw(self, request_id: Raw) -> None:
        """Drop a permission request that the agent has withdrawn, if the sub-agent has it."""
        self._permissions.withdraw(request_id)

    def cancel(self) -> None:
        """Answer all open requests as cancelled, except those of turns of other clients."""
        self._permissions.cancel()

    def leave(self) -> None:
        """Answer the requests of the own turn as cancelled, and forget the others."""
        self._permissions.leave()


class SubagentFamily:
    """All sub-agents of one open session, and theirs."""

    def __init__(
        self, rpc: RpcConnection, on_permission: OnPermission | None, sink: CurrentSink
    ) -> None:
        self._rpc = rpc
        self._on_permission = on_permission
        self._sink = sink
        self._channels: dict[str, SubagentChannel] = {}

    def permissions(self, record: SessionRecord) -> PermissionQueue:
        """Return the queue of a sub-agent's permission requests."""
        return PermissionQueue(self._rpc, record, self._on_permission)

    def get(self, session_id: str) -> SubagentChannel | None:
        """Return the sub-agent with this session id."""
        return self._channels.get(session_id)

    def note(self, update: Json, parent: SessionRecord) -> None:
        """Register the sub-agent that an update announces; `parent` has the update."""
        session_id = as_str(update.get("sessionId"))
        if update.get("sessionUpdate") != SUBAGENT_UPDATE or session_id is None:
            return
        if session_id not in self._channels:
            self._channels[session_id] = SubagentChannel(session_id, self, parent, self._sink)
        item = parent.transcript.subagent(session_id)
        if item is not None:
            item.child = self._channels[session_id].record.transcript

    def withdraw(self, request_id: Raw) -> None:
        """Drop a permission request that the agent has withdrawn, if a sub-agent has it."""
        for channel in self._channels.values():
            channel.withdraw(request_id)

    def cancel(self) -> None:
        """Answer the open requests of the sub-agents as cancelled, except those of other turns."""
        for channel in self._channels.values():
            channel.cancel()

    def leave(self) -> None:
        """Answer the requests of the own turn as cancelled, and forget the others."""
        for channel in self._channels.values():
            channel.leave()
