"""Translate MCP servers. Version 2 requires the type of each; its empty fields are optional."""

from rekindle.jsonvalue import Json, as_array, as_object, without

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
            rest = without(server, "type")
            return {**rest, "args": as_array(rest.get("args")), "env": as_array(rest.get("env"))}
        case _:
            return {**server, "headers": as_array(server.get("headers"))}
