"""The capabilities that Rekindle advertises to a client, added to those of the agent."""

from typing import Any

from rekindle.acp import methods
from rekindle.acp.capabilities import CAPABILITY_METHODS, PROPOSED_METHODS, Capabilities
from rekindle.jsonvalue import as_object, without
from rekindle.transcript.replay_cursor import REPLAY_CURSORS

_MARKERS_V2 = tuple(name for name in CAPABILITY_METHODS if name not in {"list", "resume", "close"})
"""Version 2 has no markers for the methods that every agent with sessions has."""


def advertise_v2(
    result: dict[str, Any], capabilities: Capabilities, version: str
) -> dict[str, Any]:
    """Return a version 2 result of `initialize` with the whole session lifecycle added."""
    offered = as_object(result.get("capabilities"))
    agents = as_object(offered.get("session"))
    lifecycle = {name: as_object(agents.get(name)) for name in _MARKERS_V2}
    session: dict[str, Any] = {**lifecycle, **without(agents, *lifecycle), **_rewind(agents)}
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
        "sessionCapabilities": {**session, **lifecycle, **_rewind(session)},
        "_meta": meta,
    }
    return {**result, "agentCapabilities": advertised}


def _rewind(session: dict[str, Any]) -> dict[str, Any]:
    """Return the marker of an agent that can rewind, with the method that Rekindle adds.

    The schema does not have the marker, so other agents get none: `_meta` names the methods.
    """
    marker = session.get("rewind")
    return {} if marker is None else {"rewind": {**as_object(marker), "edit_prompt": True}}


def _served_by(capabilities: Capabilities) -> dict[str, str]:
    """Return for each method whether the agent has it or only Rekindle."""
    return {
        method.removeprefix("session/"): "agent" if capabilities.offers(method) else "rekindle"
        for method in (methods.LOAD, *CAPABILITY_METHODS.values(), *PROPOSED_METHODS.values())
    }
