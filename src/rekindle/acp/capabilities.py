"""What the agent can do by itself, and what the client is told that it can do."""

from typing import Any

from msgspec import Struct

from rekindle.acp import methods
from rekindle.jsonvalue import as_object, as_str

# What is advertised under `sessionCapabilities`, and the method it stands for.
CAPABILITY_METHODS = {
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
    info = as_object(result.get("info") if speaks_v2 else result.get("agentInfo"))
    told = as_object(result.get("capabilities" if speaks_v2 else "agentCapabilities"))
    session = as_object(told.get("session" if speaks_v2 else "sessionCapabilities"))
    # `{}` means yes; absent and null mean no.
    offered = {
        method for marker, method in CAPABILITY_METHODS.items() if session.get(marker) is not None
    }
    if told.get("loadSession") is True:
        offered.add(methods.LOAD)
    if speaks_v2 and told.get("session") is not None:
        # What every version 2 agent with sessions has.
        offered |= {methods.LIST, methods.RESUME, methods.CLOSE}
    return Capabilities(
        name=as_str(info.get("name")),
        version=as_str(info.get("version")),
        protocol=2 if speaks_v2 else 1,
        methods=frozenset(offered),
    )
