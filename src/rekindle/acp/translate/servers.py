"""Translate MCP servers. Version 2 requires the type of each; its empty fields are optional."""

from typing import Any

from rekindle.jsonvalue import as_array, as_object

Json = dict[str, Any]

SHARED_TYPES = frozenset({"stdio", "http"})
"""The types of servers that both versions have."""


def servers_to_v2(servers: object) -> list[Json]:
    """Return MCP servers in the form of version 2."""
    return [{"type": "stdio", **as_object(server)} for server in as_array(servers)]


def servers_to_v1(servers: object) -> list[Json]:
    """Return MCP servers in the form of version 1."""
    return [_to_v1(as_object(server)) for server in as_array(servers)]


def _to_v1(server: Json) -> Json:
    match server.get("type", "stdio"):
        case "stdio":
            rest = {name: value for name, value in server.items() if name != "type"}
            return {**rest, "args": as_array(rest.get("args")), "env": as_array(rest.get("env"))}
        case _:
            return {**server, "headers": as_array(server.get("headers"))}
