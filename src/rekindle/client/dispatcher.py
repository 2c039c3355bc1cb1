"""The open sessions of a connection: each line of the agent goes to its session."""

from collections.abc import Generator
from contextlib import contextmanager

from msgspec import Raw

from rekindle.acp import methods
from rekindle.acp.translate.permissions import CANCELLED
from rekindle.client.handshake import Handshake
from rekindle.client.models import OnPermission
from rekindle.client.process import ProcessExit
from rekindle.client.rpc import RpcConnection
from rekindle.client.session_channel import ConnectionContext, SessionChannel
from rekindle.client.subagents import SubagentChannel
from rekindle.errors import AgentGone


class SessionDispatcher:
    """Passes each line to its session.

    Some agents send updates of a session before they respond to the request that creates it.
    The dispatcher keeps these updates while a session is being created.
    """

    def __init__(self) -> None:
        self.rpc = RpcConnection(self._update, self._permission_request, self._withdrawn)
        self._open: dict[str, SessionChannel] = {}
        self._early: dict[str, list[bytes]] = {}
        self._being_created = 0

    def context(
        self, handshake: Handshake, on_permission: OnPermission | None
    ) -> ConnectionContext:
        """Return the shared state of this connection's sessions."""
        return ConnectionContext(self.rpc, handshake, on_permission, self._remove)

    def get(self, session_id: str) -> SessionChannel | None:
        """Return an open session."""
        return self._open.get(session_id)

    def add(self, channel: SessionChannel) -> None:
        """Register a session, and pass it the updates that came early."""
        self._open[channel.id] = channel
        for line in self._early.pop(channel.id, ()):
            channel.receive_update(line)

    @contextmanager
    def keep_early_updates(self) -> Generator[None, None, None]:
        """Keep the updates of unknown sessions while a session is being created."""
        self._being_created += 1
        try:
            yield
        finally:
            self._being_created -= 1
            if not self._being_created:
                self._early.clear()

    def close(self, process_exit: ProcessExit) -> None:
        """Close all sessions: the agent is gone."""
        self.rpc.close(process_exit)
        for channel in list(self._open.values()):
            error = AgentGone(
                methods.PROMPT, process_exit.exit_code, process_exit.signal, process_exit.stderr
            )
            channel.close(error)

    def _remove(self, channel: SessionChannel) -> None:
        if self._open.get(channel.id) is channel:
            del self._open[channel.id]

    def _update(self, session_id: str, line: bytes) -> None:
        channel = self._open.get(session_id) or self._subagent(session_id)
        if channel is not None:
            channel.receive_update(line)
        elif self._being_created:
            self._early.setdefault(session_id, []).append(line)

    def _permission_request(self, session_id: str, request_id: Raw, line: bytes) -> None:
        channel = self._open.get(session_id) or self._subagent(session_id)
        if channel is not None:
            channel.receive_permission_request(request_id, line)
        else:
            self.rpc.respond(request_id, CANCELLED)

    def _subagent(self, session_id: str) -> SubagentChannel | None:
        """Return the sub-agent with this session id, of any open session."""
        found = (channel.subagents.get(session_id) for channel in self._open.values())
        return next((it for it in found if it is not None), None)

    def _withdrawn(self, request_id: Raw) -> None:
        for channel in list(self._open.values()):
            channel.withdraw(request_id)
