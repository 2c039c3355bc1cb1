"""Placeholders: the marks of sessions that only the agent has.

The user can archive or rename every listed session, even if only the agent has it. Then the store
gets a row for the session, without a folder and without entries. The row holds the user's title and
the archive mark; the agent has the history. When the session is opened, Rekindle adopts it, and the
marks become those of the recorded session.
"""

from collections.abc import Container

from rekindle.model import Archived, Change, Opened, Page, Session, Titled, TitleSource
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import ListSessions, SubFlow

_MAX_PLACEHOLDERS = 10_000


def placeholder_changes(
    conn: ConnectionState, session_id: str, marks: list[Change]
) -> list[Change]:
    """Return the changes that set marks of a session that only the agent has."""
    opened = Opened(
        session_id=session_id,
        at_us=conn.at_us,
        agent_session_id=session_id,
        agent=conn.agent.identity,
    )
    return [opened, *marks]


def marks_of(session: Session | None, at_us: int) -> list[Change]:
    """Return the changes that set the marks of a session again after it was erased."""
    marks: list[Change] = []
    if session is not None and session.title_source is TitleSource.USER:
        marks.append(
            Titled(session_id=session.id, at_us=at_us, source=TitleSource.USER, title=session.title)
        )
    if session is not None and session.archived_us is not None:
        marks.append(Archived(session_id=session.id, at_us=session.archived_us))
    return marks


def find_placeholders(session_ids: Container[str]) -> SubFlow:
    """Return the placeholders among sessions, by id."""
    page = Page(placeholders=True, with_archived=True, limit=_MAX_PLACEHOLDERS)
    sessions: list[Session] = yield ListSessions(page)
    return {session.id: session for session in sessions if session.id in session_ids}
