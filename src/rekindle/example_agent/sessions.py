"""The sessions that the agent has open, and those that it only remembers."""

import os
import time
from contextlib import suppress

from rekindle.example_agent.conversation import Conversation
from rekindle.example_agent.dialect import Dialect
from rekindle.example_agent.memory import Memory
from rekindle.example_agent.options import Options
from rekindle.example_agent.params import read_cwd, read_session_id
from rekindle.example_agent.rpc import RESOURCE_NOT_FOUND, Connection, Json, RpcError
from rekindle.example_agent.turn import Session

# How long turns may take to end once the client has hung up.
_GRACE_SECONDS = 1.0


class Sessions:
    """Finds sessions. Whatever form of the agent made one, another finds it too."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._options = options
        self._memory = Memory(options.memory)
        self._open: dict[str, Session] = {}
        self._put_aside: dict[str, Conversation] = {}

    # Opening.

    def create(self, cwd: str, dialect: Dialect) -> Session:
        """Return a new session."""
        return self._add(Conversation(_new_session_id(), cwd), dialect)

    def fork(self, params: Json, dialect: Dialect) -> Session:
        """Return a session that goes on where another one is."""
        cwd = read_cwd(params)
        return self._add(self._known(params).fork(_new_session_id(), cwd), dialect)

    def revive(self, params: Json, dialect: Dialect) -> Session:
        """Open a session again, in the folder that the client names now."""
        cwd = read_cwd(params)
        conversation = self._known(params)
        conversation.cwd = cwd
        return self._open.get(conversation.session_id) or self._take(conversation, dialect)

    def _add(self, conversation: Conversation, dialect: Dialect) -> Session:
        self.save(conversation)
        return self._take(conversation, dialect)

    def _take(self, conversation: Conversation, dialect: Dialect) -> Session:
        self._put_aside.pop(conversation.session_id, None)
        session = Session(self._connection, conversation, dialect, self._options)
        self._open[conversation.session_id] = session
        return session

    # Finding.

    def opened(self, params: Json) -> Session:
        """Return a session that the client has open."""
        session_id = read_session_id(params)
        if session := self._open.get(session_id):
            return session
        raise _unknown(session_id)

    def check_known(self, params: Json) -> None:
        """Check that there is such a session, open or not."""
        self._known(params)

    def _known(self, params: Json) -> Conversation:
        session_id = read_session_id(params)
        if session := self._open.get(session_id):
            return session.conversation
        if kept := self._put_aside.get(session_id) or self._memory.find(session_id):
            return kept
        raise _unknown(session_id)

    def newest_first(self, cwd: str | None) -> list[Conversation]:
        """Return all conversations, or those of one folder."""
        found = {kept.session_id: kept for kept in self._memory}
        found.update(self._put_aside)
        found.update((key, session.conversation) for key, session in self._open.items())
        matching = [kept for kept in found.values() if cwd in (None, kept.cwd)]
        return sorted(matching, key=lambda kept: kept.updated_at, reverse=True)

    # Keeping, and ending.

    def save(self, conversation: Conversation) -> None:
        """Remember the conversation as it is now."""
        self._memory.save(conversation)

    def cancel(self, session_id: str) -> None:
        """Cancel what a session does, if it is open and does anything."""
        if session := self._open.get(session_id):
            session.cancel()

    def close(self, session_id: str) -> None:
        """End what a session does, and have it open no more. It need not be open."""
        self._close(session_id)

    def put_aside(self, session_id: str) -> None:
        """Close a session that may be opened again. It need not be open."""
        session = self._close(session_id)
        if session and self._options.memory is None:
            self._put_aside[session_id] = session.conversation

    def _close(self, session_id: str) -> Session | None:
        if session := self._open.pop(session_id, None):
            session.cancel()
            session.settle()
        return session

    def forget(self, session_id: str) -> None:
        """Close a session, and remember nothing of it."""
        self.close(session_id)
        self._put_aside.pop(session_id, None)
        self._memory.forget(session_id)

    def stop(self) -> None:
        """Cancel every turn, and wait a moment for them to end."""
        for session in self._open.values():
            with suppress(OSError):  # nobody may be there to hear of it
                session.cancel()
        deadline = time.monotonic() + _GRACE_SECONDS
        for session in self._open.values():
            session.settle(max(0.0, deadline - time.monotonic()))


def _new_session_id() -> str:
    return f"example-{os.urandom(16).hex()}"


def _unknown(session_id: str) -> RpcError:
    return RpcError(RESOURCE_NOT_FOUND, f"no session {session_id!r}", {"sessionId": session_id})
