"""Translate `initialize`: identities and capabilities."""

from rekindle.jsonvalue import Json, as_array, as_object, as_str

_UNKNOWN = {"name": "unknown", "version": "0"}
_SHARED_MARKERS = (
    "delete",
    "fork",
    "additionalDirectories",
    "archive",
    "title",
    "status",
    "systemPrompt",
)
"""The session capabilities that have the same name and form in both versions."""


def request_to_v1(params: Json) -> Json:
    """Return the params of a version 2 client in the form of version 1.

    Nothing that a version 1 agent could use is lost. It is offered neither files nor terminals.
    """
    announced = as_object(params.get("capabilities"))
    kept = {name: announced[name] for name in ("elicitation", "_meta") if name in announced}
    if as_object(announced.get("auth")).get("terminal") is not None:
        kept["auth"] = {"terminal": True}
    return {
        "protocolVersion": 1,
        "clientCapabilities": {
            "fs": {"readTextFile": False, "writeTextFile": False},
            "terminal": False,
            # Version 2 has these without a capability.
            "session": {"configOptions": {"boolean": {}}, "compaction": {}, "notices": {}},
            "subagents": {},
            **kept,
        },
        "clientInfo": _identity(params.get("info")),
    }


def request_to_v2(params: Json) -> Json:
    """Return the params of a version 1 client in the form of version 2.

    Lost: its file system and terminals, which a version 2 agent does not use.
    """
    announced = as_object(params.get("clientCapabilities"))
    kept = {name: announced[name] for name in ("elicitation", "_meta") if name in announced}
    if as_object(announced.get("auth")).get("terminal"):
        kept["auth"] = {"terminal": {}}
    return {"protocolVersion": 2, "info": _identity(params.get("clientInfo")), "capabilities": kept}


def response_to_v2(result: Json) -> Json:
    """Return the result of a version 1 agent in the form of version 2.

    Lost: support for `sse` servers, which version 2 does not have, and `providers`, whose messages
    differ.
    """
    announced = as_object(result.get("agentCapabilities"))
    can = as_object(announced.get("promptCapabilities"))
    prompt: Json = {name: {} for name, is_true in can.items() if is_true is True}
    # Every version 1 agent can start an MCP server.
    mcp: Json = {"stdio": {}}
    if as_object(announced.get("mcpCapabilities")).get("http") is True:
        mcp["http"] = {}
    own = as_object(announced.get("sessionCapabilities"))
    session = {name: as_object(own[name]) for name in _SHARED_MARKERS if own.get(name) is not None}
    capabilities: Json = {"session": {"prompt": prompt, "mcp": mcp, **session}}
    status = as_object(announced.get("auth")).get("status")
    if status is not None:
        capabilities["auth"] = {"status": status}
    if "_meta" in announced:
        capabilities["_meta"] = announced["_meta"]
    answer: Json = {
        "protocolVersion": 2,
        "info": _identity(result.get("agentInfo")),
        "capabilities": capabilities,
        "authMethods": [_method_to_v2(as_object(it)) for it in as_array(result.get("authMethods"))],
    }
    return answer | ({"_meta": result["_meta"]} if "_meta" in result else {})


def response_to_v1(result: Json) -> Json:
    """Return the result of a version 2 agent in the form of version 1."""
    announced = as_object(result.get("capabilities"))
    session = as_object(announced.get("session"))
    prompt = as_object(session.get("prompt"))
    mcp = as_object(session.get("mcp"))
    # Every version 2 agent with sessions has these.
    own: Json = (
        {"list": {}, "resume": {}, "close": {}} if announced.get("session") is not None else {}
    )
    for name in _SHARED_MARKERS:
        if session.get(name) is not None:
            own[name] = session[name]
    capabilities: Json = {
        "loadSession": announced.get("session") is not None,
        "promptCapabilities": {
            name: prompt.get(name) is not None for name in ("image", "audio", "embeddedContext")
        },
        "mcpCapabilities": {"http": mcp.get("http") is not None, "sse": False},
        "sessionCapabilities": own,
    }
    methods = [as_object(it) for it in as_array(result.get("authMethods"))]
    auth: Json = {} if not methods else {"logout": {}}
    status = as_object(announced.get("auth")).get("status")
    if status is not None:
        auth["status"] = status
    if auth:
        # A version 2 agent with methods of authentication always has `auth/logout`.
        capabilities["auth"] = auth
    if "_meta" in announced:
        capabilities["_meta"] = announced["_meta"]
    answer: Json = {
        "protocolVersion": 1,
        "agentInfo": _identity(result.get("info")),
        "agentCapabilities": capabilities,
        "authMethods": [_method_to_v1(it) for it in methods],
    }
    return answer | ({"_meta": result["_meta"]} if "_meta" in result else {})


def _identity(info: object) -> Json:
    fields = as_object(info)
    has_name = as_str(fields.get("name")) is not None
    return {**_UNKNOWN, **fields} if has_name else dict(_UNKNOWN)


def _method_to_v2(method: Json) -> Json:
    renamed = {"methodId" if name == "id" else name: value for name, value in method.items()}
    if isinstance(renamed.get("env"), dict):
        variables = as_object(renamed["env"]).items()
        renamed["env"] = [{"name": name, "value": value} for name, value in variables]
    return {"type": "agent", **renamed}


def _method_to_v1(method: Json) -> Json:
    """Return a method of authentication in the form of version 1.

    Lost: the `_meta` of single environment variables.
    """
    renamed = {"id" if name == "methodId" else name: value for name, value in method.items()}
    if renamed.get("type") == "agent":
        del renamed["type"]
    if isinstance(renamed.get("env"), list):
        variables = [as_object(it) for it in as_array(renamed["env"])]
        renamed["env"] = {it["name"]: it.get("value", "") for it in variables if "name" in it}
    return renamed
