"""`session/list`: what we have recorded, and what the agent has besides, each session once.

Pages follow the key (last used, id), the latest first, so that no session comes twice or is
missed when others are written between two pages. The agent's list is asked for in bounded
time; one that is slow or fails does not fail ours.
"""

import base64
import binascii
from typing import Any

from msgspec import Struct

from rekindle.acp import methods
from rekindle.jsonvalue import as_array, as_object, as_str, decode, encode
from rekindle.model import Page, Session
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import AgentReply, CallAgent, Flow, ListSessions, LookupIds, SubFlow
from rekindle.proxy.handlers.restore import can_restore_natively
from rekindle.proxy.validation import check_folder, invalid, tidy
from rekindle.text.times import in_us, iso, read_iso

PAGE_SIZE = 50

_PATIENCE_US = 2_000_000
_MOST_PAGES_OF_THE_AGENT = 20

_MARKS_OF_SUB_AGENTS = (
    "parentSessionId",
    "parentId",
    "parentID",
    "isSidechain",
    "isSubagent",
    "subagent",
)

Key = tuple[int, str]


class Listed(Struct, frozen=True):
    """One session of the list, and its place in it."""

    key: Key
    info: dict[str, Any]


def list_sessions(conn: ConnectionState, params: dict[str, Any], _: bytes) -> Flow:
    """Answer `session/list`."""
    cwd = _folder(params)
    before = _position(params.get("cursor"))
    ours: list[Session] = yield ListSessions(Page(cwd=cwd, before=before, limit=PAGE_SIZE + 1))
    listed = [describe(session, conn) for session in ours]
    if conn.agent.is_running and conn.agent.own.offers(methods.LIST):
        theirs: list[Listed] = yield from _of_agent(conn, cwd)
        listed += [item for item in theirs if before is None or item.key < before]
    listed.sort(key=lambda item: item.key, reverse=True)
    page = listed[:PAGE_SIZE]
    result: dict[str, Any] = {"sessions": [item.info for item in page]}
    if len(listed) > PAGE_SIZE:
        result["nextCursor"] = write_cursor(page[-1].key)
    return result


def describe(session: Session, conn: ConnectionState) -> Listed:
    """Describe a session of ours as `SessionInfo`."""
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
    return Listed((session.updated_us, session.id), info)


def write_cursor(key: Key) -> str:
    """Write a place in the list as a cursor."""
    return base64.urlsafe_b64encode(encode(key)).decode("ascii")


def _position(cursor: object) -> Key | None:
    if cursor is None:
        return None
    try:
        at_us, session_id = as_array(decode(base64.urlsafe_b64decode(str(cursor).encode("ascii"))))
    except (ValueError, binascii.Error):
        at_us = session_id = None
    if not isinstance(at_us, int) or not isinstance(session_id, str):
        raise invalid(methods.LIST, "cursor", cursor, "is not one that Rekindle has given")
    return at_us, session_id


def _folder(params: dict[str, Any]) -> str | None:
    cwd = params.get("cwd")
    if cwd is None:
        return None
    check_folder(methods.LIST, "cwd", cwd)
    return tidy(str(cwd))


def _of_agent(conn: ConnectionState, cwd: str | None) -> SubFlow:
    """Return what the agent lists and we do not have, as far as it tells in time."""
    until_us = conn.at_us + _PATIENCE_US
    found: dict[str, Listed] = {}
    params: dict[str, Any] = {} if cwd is None else {"cwd": cwd}
    for _ in range(_MOST_PAGES_OF_THE_AGENT):
        reply: AgentReply = yield CallAgent(methods.LIST, params, until_us - conn.at_us)
        result = as_object(reply.result)
        for info in map(as_object, as_array(result.get("sessions"))):
            item = _listed(info)
            if item is not None and cwd in {None, tidy(str(info["cwd"]))}:
                found.setdefault(item.key[1], item)
        cursor = as_str(result.get("nextCursor"))
        is_last = cursor is None or cursor == params.get("cursor")
        if not reply.is_success or is_last or conn.at_us >= until_us:
            break
        params = {**params, "cursor": cursor}
    known: set[str] = yield LookupIds(tuple(found))
    return [item for session_id, item in found.items() if session_id not in known]


def _listed(info: dict[str, Any]) -> Listed | None:
    session_id, cwd = as_str(info.get("sessionId")), as_str(info.get("cwd"))
    if session_id is None or cwd is None or _is_of_sub_agent(info):
        return None
    told_at = read_iso(as_str(info.get("updatedAt")))
    at_us = in_us(told_at) if told_at else 0
    told = {**info, "updatedAt": iso(at_us)} if at_us else info
    meta = {**as_object(info.get("_meta")), "rekindle": {"isRecorded": False}}
    return Listed((at_us, session_id), {**told, "_meta": meta})


def _is_of_sub_agent(info: dict[str, Any]) -> bool:
    """Tell whether an agent marks a session as one of its own making. There is no standard way."""
    meta = as_object(info.get("_meta"))
    places = [info, meta, *map(as_object, meta.values())]
    return any(place.get(mark) for place in places for mark in _MARKS_OF_SUB_AGENTS)
