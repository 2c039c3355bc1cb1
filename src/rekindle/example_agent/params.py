"""Reading the parameters of requests. What does not fit is refused, and the field named."""

from pathlib import PurePath
from typing import cast

from rekindle.example_agent.rpc import INVALID_PARAMS, Json, RpcError


def invalid(field: str, message: str) -> RpcError:
    """Return the error for a field that does not fit."""
    return RpcError(INVALID_PARAMS, f"{field} {message}", {"field": field})


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
    """Check `mcpServers`, which this agent has no use for."""
    servers = params.get("mcpServers", None if required else [])
    if not isinstance(servers, list):
        raise invalid("mcpServers", "must be an array")


def read_prompt(params: Json) -> list[Json]:
    """Return the content blocks of `prompt`."""
    blocks = params.get("prompt")
    if not isinstance(blocks, list) or not all(map(_is_block, cast("list[object]", blocks))):
        raise invalid("prompt", "must be an array of content blocks")
    return cast("list[Json]", blocks)


def _is_block(block: object) -> bool:
    match block:
        case {"type": "text", "text": str()}:
            return True
        case {"type": str(kind)}:
            return kind != "text"
        case _:
            return False
