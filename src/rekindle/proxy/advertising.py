"""The capabilities that Rekindle advertises to a client, added to those of the agent."""

from typing import Any

from rekindle.acp import methods
from rekindle.acp.capabilities import CAPABILITY_METHODS, Capabilities
from rekindle.jsonvalue import as_object
from rekindle.transcript.replay_cursor import REPLAY_CURSORS


def advertise_v2(result: dict[str, Any], own: Capabilities, version: str) -> dict[str, Any]:
    """Return an answer of version 2 with the whole session lifecycle added to it."""
    told = as_object(result.get("capabilities"))
    session: dict[str, Any] = {"delete": {}, "fork": {}, **as_object(told.get("session"))}
    ours = {"version": version, "methods": _served_by(own), "replayFrom": list(REPLAY_CURSORS)}
    meta = {**as_object(told.get("_meta")), "rekindle": ours}
    return {**result, "capabilities": {**told, "session": session, "_meta": meta}}


def advertise_v1(result: dict[str, Any], own: Capabilities, version: str) -> dict[str, Any]:
    """Return an answer of version 1 with the whole session lifecycle added to it."""
    told = as_object(result.get("agentCapabilities"))
    session = as_object(told.get("sessionCapabilities"))
    markers = {name: as_object(session.get(name)) for name in CAPABILITY_METHODS}
    ours = {"version": version, "methods": _served_by(own)}
    meta = {**as_object(told.get("_meta")), "rekindle": ours}
    capabilities = {
        **told,
        "loadSession": True,
        "sessionCapabilities": {**session, **markers},
        "_meta": meta,
    }
    return {**result, "agentCapabilities": capabilities}


def _served_by(own: Capabilities) -> dict[str, str]:
    return {
        method.removeprefix("session/"): "agent" if own.offers(method) else "rekindle"
        for method in (methods.LOAD, *CAPABILITY_METHODS.values())
    }
