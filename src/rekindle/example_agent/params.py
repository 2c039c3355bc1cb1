def _bad(field: str, message: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"{field}: {message}", {"field": field})


def _session_id(params: Json) -> str:
    match params.get("sessionId"):
        case str(session_id):
            return session_id
        case _:
            raise _bad("sessionId", "must be a string")


def _cwd(params: Json) -> str:
    match params.get("cwd"):
        case str(cwd) if PurePath(cwd).is_absolute():
            return cwd
        case _:
            raise _bad("cwd", "must be an absolute path")


def _check_servers(params: Json, *, required: bool) -> None:
    servers = params.get("mcpServers", None if required else [])
    if not isinstance(servers, list):
        raise _bad("mcpServers", "must be an array")


def _blocks(params: Json) -> list[Json]:
    blocks = params.get("prompt")
    if not isinstance(blocks, list) or not all(map(_is_block, blocks)):
        raise _bad("prompt", "must be an array of content blocks")
    return blocks


def _is_block(block: Any) -> bool:  # noqa: ANN401 - whatever the client put there
    match block:
        case {"type": "text"}:
            return isinstance(block.get("text"), str)
        case {"type": str()}:
            return True
        case _:
            return False


