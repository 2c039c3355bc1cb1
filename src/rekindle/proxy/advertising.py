"""The capabilities that Rekindle advertises to a client, added to those of the agent."""

from typing import Any

from rekindle.acp import methods
from rekindle.acp.capabilities import CAPABILITY_METHODS, Capabilities
from rekindle.jsonvalue import as_object
from rekindle.transcript.replay_cursor import REPLAY_CURSORS


def advertise_v2(
    result: dict[str, Any], capabilities: Capabilities, version: str
) -> dict[str, Any]:
    """Return a version 2 result of `initialize` with the whole session lifecycle added."""
    offered = as_object(result.get("capabilities"))
    session: dict[str, Any] = {"delete": {}, "fork": {}, **as_object(offered.get("session"))}
    ours = {
        "version": version,
        "methods": _served_by(capabilities),
        "replayFrom": list(REPLAY_CURSORS),
    }
    meta = {**as_object(offered.get("_meta")), "rekindle": ours}
    return {**result, "capabilities": {**offered, "session": session, "_meta": meta}}


def advertise_v1(
    result: dict[str, Any], capabilities: Capabilities, version: str
) -> dict[str, Any]:
    """Return a version 1 result of `initialize` with the whole session lifecycle added."""
    offered = as_object(result.get("agentCapabilities"))
    session = as_object(offered.get("sessionCapabilities"))
    lifecycle = {name: as_object(session.get(name)) for name in CAPABILITY_METHODS}
    ours = {"version": version, "methods": _served_by(capabilities)}
    meta = {**as_object(offered.get("_meta")), "rekindle": ours}
    advertised = {
        **offered,
        "loadSession": True,
        "sessionCapabilities": {**session, **lifecycle},
        "_meta": meta,
    }
    return {**result, "agentCapabilities": advertised}


def _served_by(capabilities: Capabilities) -> dict[str, str]:
    """Return for each method whether the agent has it or only Rekindle."""
    return {
        method.removeprefix("session/"): "agent" if capabilities.offers(method) else "rekindle"
        for method in (methods.LOAD, *CAPABILITY_METHODS.values())
    }
