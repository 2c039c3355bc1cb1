"""What the agent can do by itself, and what the client is told that it can do."""

from typing import Any

from msgspec import Struct

from rekindle.acp import methods
from rekindle.acp.jsonrpc import table, text

# What is advertised under `sessionCapabilities`, and the method it stands for.
_MARKERS = {
    "list": methods.LIST,
    "resume": methods.RESUME,
    "close": methods.CLOSE,
    "delete": methods.DELETE,
    "fork": methods.FORK,
}


class Capabilities(Struct, frozen=True, kw_only=True):
    """What an agent's answer to `initialize` says of it."""

    name: str | None = None
    version: str | None = None
    protocol: int = 1
    methods: frozenset[str] = frozenset()

    def offers(self, method: str) -> bool:
        """Tell whether the agent advertises this method of the lifecycle."""
        return method in self.methods


def read_capabilities(result: dict[str, Any]) -> Capabilities:
    """Read the agent's answer to `initialize`."""
    # The number proves nothing: some agents echo 2 over a version 1 body.
    speaks_v2 = result.get("protocolVersion") == 2 and "capabilities" in result  # noqa: PLR2004
    info = table(result.get("info") if speaks_v2 else result.get("agentInfo"))
    told = table(result.get("capabilities" if speaks_v2 else "agentCapabilities"))
    session = table(told.get("session" if speaks_v2 else "sessionCapabilities"))
    # `{}` means yes; absent and null mean no.
    offered = {method for marker, method in _MARKERS.items() if session.get(marker) is not None}
    if told.get("loadSession") is True:
        offered.add(methods.LOAD)
    if speaks_v2 and told.get("session") is not None:
        # What every version 2 agent with sessions has.
        offered |= {methods.LIST, methods.RESUME, methods.CLOSE}
    return Capabilities(
        name=text(info.get("name")),
        version=text(info.get("version")),
        protocol=2 if speaks_v2 else 1,
        methods=frozenset(offered),
    )


CURSORS = ("_rekindle_message", "_rekindle_turns", "_rekindle_seq")
"""Where a replay may begin, besides the start."""


def advertise_v2(result: dict[str, Any], own: Capabilities, version: str) -> dict[str, Any]:
    """Return an answer of version 2 with the whole session lifecycle added to it."""
    told = table(result.get("capabilities"))
    session: dict[str, Any] = {"delete": {}, "fork": {}, **table(told.get("session"))}
    ours = {"version": version, "methods": _by_whom(own), "replayFrom": list(CURSORS)}
    meta = {**table(told.get("_meta")), "rekindle": ours}
    return {**result, "capabilities": {**told, "session": session, "_meta": meta}}


def advertise(result: dict[str, Any], own: Capabilities, version: str) -> dict[str, Any]:
    """Return an answer of version 1 with the whole session lifecycle added to it."""
    told = table(result.get("agentCapabilities"))
    session = table(told.get("sessionCapabilities"))
    markers = {name: table(session.get(name)) for name in _MARKERS}
    ours = {"version": version, "methods": _by_whom(own)}
    meta = {**table(told.get("_meta")), "rekindle": ours}
    capabilities = {
        **told,
        "loadSession": True,
        "sessionCapabilities": {**session, **markers},
        "_meta": meta,
    }
    return {**result, "agentCapabilities": capabilities}


def _by_whom(own: Capabilities) -> dict[str, str]:
    return {
        method.removeprefix("session/"): "agent" if own.offers(method) else "rekindle"
        for method in (methods.LOAD, *_MARKERS.values())
    }
