"""MCP servers: version 2 wants to be told the type of each, and lets be left out what is empty."""

from typing import Any

from rekindle.acp.jsonrpc import rows, table

Json = dict[str, Any]

SHARED_TYPES = frozenset({"stdio", "http"})
"""Those that both versions have."""


def servers_to_v2(servers: object) -> list[Json]:
    """Return the servers of version 1 as those of version 2."""
    return [{"type": "stdio", **table(server)} for server in rows(servers)]


def servers_to_v1(servers: object) -> list[Json]:
    """Return the servers of version 2 as those of version 1."""
    return [_to_v1(table(server)) for server in rows(servers)]


def _to_v1(server: Json) -> Json:
    match server.get("type", "stdio"):
        case "stdio":
            rest = {name: value for name, value in server.items() if name != "type"}
            return {**rest, "args": rows(rest.get("args")), "env": rows(rest.get("env"))}
        case _:
            return {**server, "headers": rows(server.get("headers"))}
