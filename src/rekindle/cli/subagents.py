"""The sub-agents of sessions, for the commands that show, export and search them."""

from rekindle.errors import SessionNotFound
from rekindle.model import Session
from rekindle.store.base import Store
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.subagents import attach


def attach_subagents(store: Store, transcript: Transcript, session_id: str) -> None:
    """Read the conversations of a session's sub-agents, and of theirs, into its transcript."""

    def read(record_id: str) -> Transcript | None:
        try:
            return fold(store.read(record_id))
        except SessionNotFound:
            return None

    attach(transcript, session_id, read)


def owner_of(store: Store, session_id: str) -> Session:
    """Return the session that a sub-agent belongs to; any other session is its own owner.

    Raises SessionNotFound.
    """
    session = store.session(session_id)
    while session.is_subagent:
        try:
            session = store.session(str(session.parent_id))
        except SessionNotFound:
            break
    return session
