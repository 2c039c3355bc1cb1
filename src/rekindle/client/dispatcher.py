"""The open sessions of a connection: which one each line of the agent belongs to."""

from collections.abc import Generator
from contextlib import contextmanager

from msgspec import Raw

from rekindle.acp import methods
from rekindle.acp.translate.permissions import CANCELLED
from rekindle.client.handshake import Greeting
from rekindle.client.permissions import OnPermission
from rekindle.client.process import Ended
from rekindle.client.rpc import Rpc
from rekindle.client.session_channel import Context, Talk
from rekindle.errors import AgentGone


class Sessions:
    """Hands each line to its session.

    Some agents tell of a session before they answer the request that makes it. What comes while
    one is being made, for a session that is not known, is kept until then.
    """

    def __init__(self) -> None:
        self.rpc = Rpc(self._update, self._question, self._withdrawn)
        self._open: dict[str, Talk] = {}
        self._early: dict[str, list[bytes]] = {}
        self._being_made = 0

    def context(self, agent: Greeting, on_permission: OnPermission | None) -> Context:
        """Return what the sessions of this connection share."""
        return Context(self.rpc, agent, on_permission, self._forget)

    def get(self, session_id: str) -> Talk | None:
        """Return an open session."""
        return self._open.get(session_id)

    def add(self, talk: Talk) -> None:
        """Let a session have its lines from now on, and what came early."""
        self._open[talk.id] = talk
        for line in self._early.pop(talk.id, ()):
            talk.take_update(line)

    @contextmanager
    def making(self) -> Generator[None, None, None]:
        """Keep what comes early, while a session is being made."""
        self._being_made += 1
        try:
            yield
        finally:
            self._being_made -= 1
            if not self._being_made:
                self._early.clear()

    def end(self, ended: Ended) -> None:
        """Let all of them know that the agent is gone."""
        self.rpc.end(ended)
        for talk in list(self._open.values()):
            talk.leave(AgentGone(methods.PROMPT, ended.exit_code, ended.signal, ended.stderr))

    def _forget(self, talk: Talk) -> None:
        if self._open.get(talk.id) is talk:
            del self._open[talk.id]

    def _update(self, session_id: str, line: bytes) -> None:
        talk = self._open.get(session_id)
        if talk is not None:
            talk.take_update(line)
        elif self._being_made:
            self._early.setdefault(session_id, []).append(line)

    def _question(self, session_id: str, request_id: Raw, line: bytes) -> None:
        talk = self._open.get(session_id)
        if talk is not None:
            talk.take_question(request_id, line)
        else:
            self.rpc.answer(request_id, CANCELLED)

    def _withdrawn(self, request_id: Raw) -> None:
        for talk in list(self._open.values()):
            talk.withdraw(request_id)
