"""The `archived` filter of `session/list`, and the archive states that an agent reports.

The filter applies before paging. The store has an index for each part of the list, so the parts are
read separately: the sessions that are not archived, of which only prompted ones are listed, and the
archived ones. `include` merges a page of both.

An agent with `session/archive` reports the state of each session in its list. If the state differs
from the last known state, it was changed without Rekindle, and the record adopts it. An unchanged
state is ignored: the record may differ from it, because the agent refused a change, or because the
user ran `rekindle archive` or `rekindle unarchive`.
"""

from enum import StrEnum
from typing import Any

from rekindle.acp import methods
from rekindle.model import AgentArchived, Archived, Change, Page, Session
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import CompareArchiveStates, ListSessions, RecordChanges, SubFlow
from rekindle.proxy.handlers.restore import belongs_to_agent
from rekindle.proxy.validation import invalid


class ArchiveFilter(StrEnum):
    """The values of `archived` in `session/list`."""

    EXCLUDE = "exclude"
    INCLUDE = "include"
    ONLY = "only"

    def selects(self, *, is_archived: bool) -> bool:
        """Return whether a session is listed."""
        return self is ArchiveFilter.INCLUDE or is_archived is (self is ArchiveFilter.ONLY)


def read_archive_filter(params: dict[str, Any]) -> ArchiveFilter:
    """Return the filter of a request. Raises Refusal."""
    value = params.get("archived")
    if value is None:
        return ArchiveFilter.EXCLUDE
    if value not in list(ArchiveFilter):
        what = "must be one of " + ", ".join(ArchiveFilter)
        raise invalid(methods.LIST, "archived", value, what)
    return ArchiveFilter(value)


def read_page(
    cwd: str | None, before: tuple[int, str] | None, limit: int, wanted: ArchiveFilter
) -> SubFlow:
    """Return the first recorded sessions after a position, last used first."""
    found: dict[str, Session] = {}
    for is_archived in (False, True):
        if wanted.selects(is_archived=is_archived):
            # An archived session is listed even without a turn, because the user has archived it.
            page = Page(
                cwd=cwd,
                before=before,
                limit=limit,
                archived=is_archived,
                prompted=not is_archived,
            )
            sessions: list[Session] = yield ListSessions(page)
            # Another process may archive a session between the two queries.
            found |= {session.id: session for session in sessions}
    newest = sorted(found.values(), key=lambda it: (it.updated_us, it.id), reverse=True)
    return newest[:limit]


def adopt_archive_states(conn: ConnectionState, infos: dict[str, dict[str, Any]]) -> SubFlow:
    """Record the states that were changed at the agent; return whether any was recorded.

    `infos` are the rows of the agent's list, by the agent's session id.
    """
    if not conn.agent.capabilities.offers(methods.ARCHIVE):
        return False
    reported = {id_: info.get("archived") for id_, info in infos.items()}
    states = {id_: state for id_, state in reported.items() if isinstance(state, bool)}
    differing: list[Session] = yield CompareArchiveStates(states)
    changes: list[Change] = []
    for session in differing:
        if belongs_to_agent(conn, session):
            id_, state = session.id, states[session.agent_session_id]
            changes += [
                AgentArchived(session_id=id_, at_us=conn.at_us, is_archived=state),
                Archived(session_id=id_, at_us=conn.at_us, is_archived=state),
            ]
    if changes:
        yield RecordChanges(changes)
    return bool(changes)
