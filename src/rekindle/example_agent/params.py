"""Read the parameters of requests. Invalid ones raise an error that names the field."""

from pathlib import PurePath
from typing import cast

from rekindle.example_agent.options import Options
from rekindle.example_agent.rpc import INVALID_PARAMS, Json, RpcError

_HIGHEST_VERSION = 65_535


def invalid(field: str, message: str) -> RpcError:
    """Return the error for an invalid field."""
    return RpcError(INVALID_PARAMS, f"{field} {message}", {"field": field})


def read_version(params: Json) -> int:
    """Return `protocolVersion`."""
    match params.get("protocolVersion"):
        case int(version) if type(version) is int and 0 <= version <= _HIGHEST_VERSION:
            return version
        case _:
            raise invalid("protocolVersion", f"must be a number from 0 to {_HIGHEST_VERSION}")


def check_info(params: Json) -> None:
    """Check `info`, the identity of the client."""
    match params.get("info"):
        case {"name": str(), "version": str()}:
            pass
        case _:
            raise invalid("info", "must have a name and a version")


def read_session_id(params: Json) -> str:
    """Return `sessionId`."""
    match params.get("sessionId"):
        case str(session_id):
            return session_id
        case _:
            raise invalid("sessionId", "must be a string")


def read_cwd(params: Json) -> str:
    """Return `cwd`."""
    match params.get("cwd"):
        case str(cwd) if PurePath(cwd).is_absolute():
            return cwd
        case _:
            raise invalid("cwd", "must be an absolute path")


def check_servers(params: Json, *, required: bool) -> None:
    """Check the type of `mcpServers`, which this agent does not use."""
    servers = params.get("mcpServers", None if required else [])
    if not isinstance(servers, list):
        raise invalid("mcpServers", "must be an array")


def read_system_prompt(params: Json, options: Options) -> Json | None:
    """Return `systemPrompt`, if it has a supported mode and only text blocks."""
    match params.get("systemPrompt"):
        case None:
            return None
        case {"mode": "append" | "override", "content": [_, *_] as blocks} as prompt if (
            "systemPrompt" in options.offers and all(map(_is_text, cast("list[object]", blocks)))
        ):
            return cast("Json", prompt)
        case _:
            raise invalid("systemPrompt", "is not supported in this form")


def check_no_directories_or_servers(params: Json) -> None:
    """Check that the client sends no additional folders and no MCP servers."""
    for field in ("additionalDirectories", "mcpServers"):
        if params.get(field) not in (None, []):
            raise invalid(field, "must be empty: this agent does not have the capability")


def read_replay(params: Json) -> bool:
    """Return whether `replayFrom` asks for the whole conversation, the only supported replay."""
    match params.get("replayFrom"):
        case None:
            return False
        case {"type": "start"}:
            return True
        case _:
            raise invalid("replayFrom", "must be absent or of type 'start'")


def read_list_filter(params: Json) -> str | None:
    """Return the folder to list, or None for all."""
    if params.get("cursor") is not None:
        raise invalid("cursor", "is unknown: there is only one page")
    return None if params.get("cwd") is None else read_cwd(params)


def read_prompt(params: Json) -> list[Json]:
    """Return the content blocks of `prompt`."""
    blocks = params.get("prompt")
    if not isinstance(blocks, list) or not all(map(_is_block, cast("list[object]", blocks))):
        raise invalid("prompt", "must be an array of content blocks")
    return cast("list[Json]", blocks)


def _is_text(block: object) -> bool:
    match block:
        case {"type": "text", "text": str()}:
            return True
        case _:
            return False


def _is_block(block: object) -> bool:
    match block:
        case {"type": "text", "text": str()}:
            return True
        case {"type": str(kind)}:
            return kind != "text"
        case _:
            return False
