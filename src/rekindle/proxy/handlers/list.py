"""`session/list`: the recorded sessions and the agent's own sessions, each once.

Pages follow the key (last use, id), newest first. So no session is repeated or skipped when others
are written between two pages. The agent's own list has a time limit; an agent that is slow or
fails does not fail the request.
"""

import base64
import binascii
from typing import Any

from msgspec import Struct

from rekindle.acp import methods
from rekindle.jsonvalue import as_array, as_object, as_str, decode, encode
from rekindle.model import Page, Session
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import (
    AgentReply,
    CallAgent,
    ClientRequest,
    Flow,
    ListSessions,
    LookupIds,
    SubFlow,
)
from rekindle.proxy.handlers.restore import can_restore_natively
from rekindle.proxy.journal import normalize_folder
from rekindle.proxy.validation import check_folder, invalid
from rekindle.text.times import in_us, iso, read_iso

PAGE_SIZE = 50

_AGENT_TIMEOUT_US = 2_000_000
_MAX_AGENT_PAGES = 20
_MAX_TIME_US = 2**63 - 1

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


def list_sessions(conn: ConnectionState, request: ClientRequest) -> Flow:
    """Answer `session/list`."""
    cwd = _folder(request.params)
    before = _position(request.params.get("cursor"))
    page = Page(cwd=cwd, before=before, limit=PAGE_SIZE + 1)
    recorded: list[Session] = yield ListSessions(page)
    listed = [describe(session, conn) for session in recorded]
    if conn.agent.is_running and conn.agent.capabilities.offers(methods.LIST):
        others: list[ListedSession] = yield from _list_of_agent(conn, cwd)
        listed += [item for item in others if before is None or item.key < before]
    listed.sort(key=lambda item: item.key, reverse=True)
    shown = listed[:PAGE_SIZE]
    result: dict[str, Any] = {"sessions": [item.info for item in shown]}
    if len(listed) > PAGE_SIZE:
        result["nextCursor"] = write_cursor(shown[-1].key)
    return result


def describe(session: Session, conn: ConnectionState) -> ListedSession:
    """Describe a recorded session as `SessionInfo`."""
    meta = {
        "agent": session.agent.name or session.agent.program,
        "messageCount": session.messages,
        "turnCount": session.turns,
        "restoresNatively": can_restore_natively(conn, session),
    }
    if session.origin is not None and session.origin.entries:
        meta["importedFrom"] = session.origin.tool
    info: dict[str, Any] = {
        "sessionId": session.id,
        "cwd": session.cwd,
        **({"title": session.title} if session.title is not None else {}),
        "updatedAt": iso(session.updated_us),
        "_meta": {"rekindle": meta},
    }
    if session.directories:
        info["additionalDirectories"] = list(session.directories)
    return ListedSession((session.updated_us, session.id), info)


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
            raise invalid(methods.LIST, "cursor", cursor, "is not one that Rekindle has given")


def _folder(params: dict[str, Any]) -> str | None:
    cwd = params.get("cwd")
    if cwd is None:
        return None
    check_folder(methods.LIST, "cwd", cwd)
    return normalize_folder(str(cwd))


# -- the agent's own list -------------------------------------------------------------------------


def _list_of_agent(conn: ConnectionState, cwd: str | None) -> SubFlow:
    """Return the sessions that the agent lists in time and the record does not have."""
    until_us = conn.at_us + _AGENT_TIMEOUT_US
    found: dict[str, ListedSession] = {}
    params: dict[str, Any] = {} if cwd is None else {"cwd": cwd}
    for _ in range(_MAX_AGENT_PAGES):
        reply: AgentReply = yield CallAgent(methods.LIST, params, until_us - conn.at_us)
        result = as_object(reply.result)
        for info in map(as_object, as_array(result.get("sessions"))):
            item = _listed_by_agent(info)
            if item is not None and cwd in {None, normalize_folder(str(info["cwd"]))}:
                found.setdefault(item.key[1], item)
        cursor = as_str(result.get("nextCursor"))
        is_last = cursor is None or cursor == params.get("cursor")
        if not reply.is_success or is_last or conn.at_us >= until_us:
            break
        params = {**params, "cursor": cursor}
    known: set[str] = yield LookupIds(tuple(found))
    return [item for session_id, item in found.items() if session_id not in known]


def _listed_by_agent(info: dict[str, Any]) -> ListedSession | None:
    session_id, cwd = as_str(info.get("sessionId")), as_str(info.get("cwd"))
    if session_id is None or cwd is None or _is_sub_agents(info):
        return None
    updated_at = read_iso(as_str(info.get("updatedAt")))
    at_us = in_us(updated_at) if updated_at else 0
    shown = {**info, "updatedAt": iso(at_us)} if at_us else info
    meta = {**as_object(info.get("_meta")), "rekindle": {"isRecorded": False}}
    return ListedSession((at_us, session_id), {**shown, "_meta": meta})


def _is_sub_agents(info: dict[str, Any]) -> bool:
    """Return whether the agent marks a session as a sub-agent's. There is no standard field."""
    meta = as_object(info.get("_meta"))
    places = [info, meta, *map(as_object, meta.values())]
    return any(place.get(name) for place in places for name in _SUB_AGENT_FIELDS)
