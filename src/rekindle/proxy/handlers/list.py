"""`session/list`: the recorded sessions and the agent's own sessions, each once.

Pages follow the key (last use, id), newest first. So no session is repeated or skipped when others
are written between two pages. A session that was never prompted is not listed. The agent's copy of
a forgotten session is not listed until it is used without Rekindle. The agent's own list has a time
limit; an agent that is slow or fails does not fail the request, but the result and a report to the
user name the failure. A title that the agent gives only in its list is recorded; it does not
replace a title that the agent has given before.
"""

import base64
import binascii
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rekindle.acp import methods
from rekindle.jsonvalue import as_array, as_object, as_str, decode, encode
from rekindle.model import Change, Session, Titled, TitleSource
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    NO_RESPONSE,
    AgentReply,
    CallAgent,
    ClientRequest,
    Flow,
    GetForgottenIds,
    GetSession,
    LookupIds,
    RecordChanges,
    ReportToUser,
    SubFlow,
)
from rekindle.proxy.handlers.archive_filter import (
    adopt_archive_states,
    read_archive_filter,
    read_page,
)
from rekindle.proxy.handlers.placeholders import find_placeholders
from rekindle.proxy.handlers.restore import (
    belongs_to_agent,
    can_restore_natively,
    has_locked_title,
)
from rekindle.proxy.journal import normalize_folder
from rekindle.proxy.validation import check_folder, invalid
from rekindle.text.times import in_us, iso, read_iso
from rekindle.transcript.preface import is_preface_title
from rekindle.transcript.titles import title_from_agent

PAGE_SIZE = 50

_AGENT_TIMEOUT_US = 2_000_000
_MAX_AGENT_PAGES = 20
_MAX_TIME_US = 2**63 - 1
_CLOCK_TOLERANCE_US = 60_000_000
_LIST_FAILED = (
    "the agent could not list its sessions; sessions that only the agent has may be missing"
)

_SUB_AGENT_FIELDS = (
    "parentSessionId",
    "parentId",
    "parentID",
    "isSidechain",
    "isSubagent",
    "subagent",
)

PageKey = tuple[int, str]
"""The position of a session in the list: the time of its last use, and its id."""


class ListedSession(Struct, frozen=True):
    """One session of the list."""

    key: PageKey
    info: dict[str, Any]


class AgentList(Struct, frozen=True):
    """The agent's own list, as far as the agent answered in time."""

    infos: dict[str, dict[str, Any]] = {}
    """Each `SessionInfo` by its id."""
    is_complete: bool = False
    error: dict[str, Any] | None = None
    """The reason why it is not complete, if the agent failed."""


def list_sessions(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Answer `session/list`."""
    cwd = _folder(request.params)
    before = _position(request.params.get("cursor"))
    wanted = read_archive_filter(request.params)
    recorded: list[Session] = yield from read_page(cwd, before, PAGE_SIZE + 1, wanted)
    agents = AgentList()
    if conn.agent.is_running and conn.agent.capabilities.offers(methods.LIST):
        agents = yield from ask_agent(conn, cwd)
        if (yield from adopt_archive_states(conn, agents.infos)):
            recorded = yield from read_page(cwd, before, PAGE_SIZE + 1, wanted)
        recorded = yield from _adopt_titles(conn, recorded, agents)
    listed = [describe(session, conn, agents) for session in recorded]
    others: list[ListedSession] = yield from _only_at_agent(conn, agents, cwd)
    others = [item for item in others if wanted.selects(is_archived=item.info["archived"])]
    listed += [item for item in others if before is None or item.key < before]
    listed.sort(key=lambda item: item.key, reverse=True)
    shown = listed[:PAGE_SIZE]
    result: dict[str, Any] = {"sessions": [item.info for item in shown]}
    if len(listed) > PAGE_SIZE:
        result["nextCursor"] = write_cursor(shown[-1].key)
    if agents.error is not None:
        yield ReportToUser(_LIST_FAILED, agents.error["message"])
        result["_meta"] = {"rekindle": {"agentListError": agents.error}}
    return result


def describe(session: Session, conn: ConnectionState, agents: AgentList) -> ListedSession:
    """Describe a recorded session as `SessionInfo`."""
    meta = {
        "agent": session.agent.name or session.agent.program,
        "messageCount": session.messages,
        "turnCount": session.turns,
        "restoresNatively": _restores_natively(session, conn, agents),
    }
    if session.origin is not None and session.origin.entries:
        meta["importedFrom"] = session.origin.tool
    info: dict[str, Any] = {
        "sessionId": session.id,
        "cwd": session.cwd,
        **({"title": session.title} if session.title is not None else {}),
        "updatedAt": iso(session.updated_us),
        "archived": session.archived_us is not None,
        "_meta": {"rekindle": meta},
    }
    if session.directories:
        info["additionalDirectories"] = list(session.directories)
    return ListedSession((session.updated_us, session.id), info)


def _restores_natively(session: Session, conn: ConnectionState, agents: AgentList) -> bool:
    """Return whether the agent is expected to restore a session without a handover."""
    agent_id, live = session.agent_session_id, conn.sessions.get(session.id)
    if not can_restore_natively(conn, session) or not conn.sessions.is_free(agent_id, session.id):
        return False
    if live is not None and (live.handover.lacks_history or live.memory.is_outdated):
        return False
    is_known = live is not None and not live.memory.is_missing
    return is_known or not agents.is_complete or agent_id in agents.infos


# -- cursors --------------------------------------------------------------------------------------


def write_cursor(key: PageKey) -> str:
    """Encode a position in the list as a cursor."""
    return base64.urlsafe_b64encode(encode(key)).decode("ascii")


def _position(cursor: object) -> PageKey | None:
    if cursor is None:
        return None
    try:
        at_us, session_id = as_array(decode(base64.urlsafe_b64decode(str(cursor).encode("ascii"))))
    except (ValueError, binascii.Error):
        at_us = session_id = None
    match at_us, session_id:
        # A store has no larger numbers, and no id with half of a surrogate pair.
        case int(), str() if abs(at_us) <= _MAX_TIME_US and as_str(session_id) == session_id:
            return at_us, session_id
        case _:
            raise invalid(methods.LIST, "cursor", cursor, "is not a cursor from Rekindle")


def _folder(params: dict[str, Any]) -> str | None:
    cwd = params.get("cwd")
    if cwd is None:
        return None
    check_folder(methods.LIST, "cwd", cwd)
    return normalize_folder(str(cwd))


# -- the agent's own list -------------------------------------------------------------------------


def ask_agent(conn: ConnectionState, cwd: str | None) -> SubFlow:
    """Return the agent's own list, all its pages."""
    until_us = conn.at_us + _AGENT_TIMEOUT_US
    infos: dict[str, dict[str, Any]] = {}
    params: dict[str, Any] = {} if cwd is None else {"cwd": cwd}
    if conn.agent.capabilities.offers(methods.ARCHIVE):
        params["archived"] = "include"
    for _ in range(_MAX_AGENT_PAGES):
        reply: AgentReply = yield CallAgent(methods.LIST, params, until_us - conn.at_us)
        result = as_object(reply.result)
        sessions = result.get("sessions")
        for info in map(as_object, as_array(sessions)):
            session_id = as_str(info.get("sessionId"))
            if session_id is not None:
                infos.setdefault(session_id, info)
        if reply.error is not None or not isinstance(sessions, list):
            return AgentList(infos, error=_list_error(reply))
        cursor = as_str(result.get("nextCursor"))
        if cursor is None:
            return AgentList(infos, is_complete=True)
        if cursor == params.get("cursor") or conn.at_us >= until_us:
            break
        params = {**params, "cursor": cursor}
    return AgentList(infos)


def _list_error(reply: AgentReply) -> dict[str, Any]:
    """Return the error of a list that failed."""
    if reply.error is NO_RESPONSE:
        return {"message": f"no response within {_AGENT_TIMEOUT_US // 1_000_000} s"}
    if reply.error is None:
        return {"message": "the response has no list of sessions"}
    message = as_str(reply.error.get("message")) or "the agent gave no reason"
    return {"code": reply.error.get("code"), "message": message}


def _adopt_titles(conn: ConnectionState, recorded: list[Session], agents: AgentList) -> SubFlow:
    """Record the titles that the agent gives only in its list; return the sessions with them."""
    sessions: list[Session] = []
    changes: list[Change] = []
    for known in recorded:
        info = agents.infos.get(known.agent_session_id, {})
        title = title_from_agent(info.get("title"))
        is_new = title is not None and not _repeats(title, known.title or "")
        if is_new and belongs_to_agent(conn, known) and not _has_own_title(known):
            source = TitleSource.AGENT
            at_us = conn.at_us
            changes.append(Titled(session_id=known.id, at_us=at_us, source=source, title=title))
            sessions.append(replace(known, title=title, title_source=source))
        else:
            sessions.append(known)
    if changes:
        yield RecordChanges(changes)
    return sessions


def _repeats(title: str, known: str) -> bool:
    """Return whether a title is the known one, such as the first prompt, cut at any place."""
    shorter, longer = sorted((title.rstrip(".…"), known.rstrip(".…")), key=len)
    return shorter != "" and longer.startswith(shorter)


def _has_own_title(session: Session) -> bool:
    """Return whether the agent's title is worse than the stored one.

    A fork has the title of its parent. Its first prompt at the agent may have been a handover. Some
    agents send a good title in a turn, and list the session with its first prompt.
    """
    is_agents = session.title_source == TitleSource.AGENT
    return is_agents or has_locked_title(session) or session.parent_id is not None


def _only_at_agent(conn: ConnectionState, agents: AgentList, cwd: str | None) -> SubFlow:
    """Return the sessions of the agent's list that the record does not have."""
    found: dict[str, ListedSession] = {}
    for info in agents.infos.values():
        item = listed_by_agent(info)
        if item is not None and cwd in {None, normalize_folder(str(info["cwd"]))}:
            found[item.key[1]] = item
    if not found:
        return []
    known: set[str] = yield LookupIds(tuple(found), recorded_only=True)
    placeholders: dict[str, Session] = yield from find_placeholders(found)
    found |= {id_: _with_marks(found[id_], placeholders[id_]) for id_ in placeholders}
    shown = found.keys() - known
    forgotten: dict[str, int] = yield GetForgottenIds(tuple(shown))
    shown -= {it for it, at_us in forgotten.items() if not _was_used_since(found[it], at_us)}
    shown |= placeholders.keys()
    offers = conn.agent.capabilities.offers
    if conn.agent.capabilities.protocol == 1 and not offers(methods.LOAD):
        for session_id in known:
            if (yield from _has_unrecorded_history(session_id, found[session_id])):
                shown.add(session_id)
    return [item for session_id, item in found.items() if session_id in shown]


def _was_used_since(item: ListedSession, forgotten_us: int) -> bool:
    """Return whether a session that was forgotten as unused was used without Rekindle since.

    The agent's list shows it by a later time, or by a title that describes the session.
    """
    is_later = item.key[0] > forgotten_us + _CLOCK_TOLERANCE_US
    return is_later or title_from_agent(item.info.get("title")) is not None


def _with_marks(item: ListedSession, placeholder: Session) -> ListedSession:
    """Return a session of the agent with the user's title and archive mark."""
    marks: dict[str, Any] = {}
    if placeholder.title_source is TitleSource.USER:
        marks["title"] = placeholder.title
    if placeholder.archived_us is not None:
        marks["archived"] = True
    return ListedSession(item.key, {**item.info, **marks})


def _has_unrecorded_history(session_id: str, item: ListedSession) -> SubFlow:
    """Return whether a session without turns had a history before it was opened here.

    An agent that cannot replay its sessions leaves the record empty. Its list shows that a session
    is older than the record of it.
    """
    session: Session | None = yield GetSession(session_id)
    if session is None or session.turns > 0 or session.deleted_us is not None:
        return False
    if session.archived_us is not None:
        # The record lists it itself.
        return False
    return 0 < item.key[0] < session.created_us - _CLOCK_TOLERANCE_US


def listed_by_agent(info: dict[str, Any]) -> ListedSession | None:
    """Describe a session of the agent's list; None if it is not listed."""
    session_id, cwd = as_str(info.get("sessionId")), as_str(info.get("cwd"))
    if session_id is None or cwd is None or _is_sub_agents(info):
        return None
    updated_at = read_iso(as_str(info.get("updatedAt")))
    at_us = in_us(updated_at) if updated_at else 0
    shown = {**info, "updatedAt": iso(at_us)} if at_us else dict(info)
    if is_preface_title(as_str(info.get("title")) or ""):
        del shown["title"]
    meta = {**as_object(info.get("_meta")), "rekindle": {"isRecorded": False}}
    archived = info.get("archived") is True
    return ListedSession((at_us, session_id), {**shown, "archived": archived, "_meta": meta})


def _is_sub_agents(info: dict[str, Any]) -> bool:
    """Return whether the agent marks a session as a sub-agent's. There is no standard field."""
    meta = as_object(info.get("_meta"))
    places = [info, meta, *map(as_object, meta.values())]
    return any(place.get(name) for place in places for name in _SUB_AGENT_FIELDS)
