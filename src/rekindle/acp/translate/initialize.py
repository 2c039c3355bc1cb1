"""`initialize`, in both directions: who is there, and what they can do."""

from typing import Any

from rekindle.jsonvalue import as_array, as_object, as_str

Json = dict[str, Any]

_NOBODY = {"name": "unknown", "version": "0"}


def request_to_v1(params: Json) -> Json:
    """Return a version 2 client's greeting as one of version 1.

    Lost: nothing that a version 1 agent could use. It may touch neither files nor terminals.
    """
    told = as_object(params.get("capabilities"))
    kept = {name: told[name] for name in ("elicitation", "_meta") if name in told}
    if as_object(told.get("auth")).get("terminal") is not None:
        kept["auth"] = {"terminal": True}
    return {
        "protocolVersion": 1,
        "clientCapabilities": {
            "fs": {"readTextFile": False, "writeTextFile": False},
            "terminal": False,
            **kept,
        },
        "clientInfo": _who(params.get("info")),
    }


def request_to_v2(params: Json) -> Json:
    """Return a version 1 client's greeting as one of version 2.

    Lost: its file system and its terminals, which a version 2 agent does not ask for.
    """
    told = as_object(params.get("clientCapabilities"))
    kept = {name: told[name] for name in ("elicitation", "_meta") if name in told}
    if as_object(told.get("auth")).get("terminal"):
        kept["auth"] = {"terminal": {}}
    return {"protocolVersion": 2, "info": _who(params.get("clientInfo")), "capabilities": kept}


def response_to_v2(result: Json) -> Json:
    """Return a version 1 agent's answer as one of version 2."""
    told = as_object(result.get("agentCapabilities"))
    can = as_object(told.get("promptCapabilities"))
    prompt: Json = {name: {} for name, is_true in can.items() if is_true is True}
    # Every version 1 agent can start an MCP server. Lost: that one takes `sse`, which is gone.
    mcp: Json = {"stdio": {}}
    if as_object(told.get("mcpCapabilities")).get("http") is True:
        mcp["http"] = {}
    own = as_object(told.get("sessionCapabilities"))
    markers = ("delete", "fork", "additionalDirectories")
    session = {name: as_object(own[name]) for name in markers if own.get(name) is not None}
    capabilities: Json = {"session": {"prompt": prompt, "mcp": mcp, **session}}
    if "_meta" in told:
        capabilities["_meta"] = told["_meta"]
    answer: Json = {
        "protocolVersion": 2,
        "info": _who(result.get("agentInfo")),
        "capabilities": capabilities,
        "authMethods": [_method_to_v2(as_object(it)) for it in as_array(result.get("authMethods"))],
    }
    return answer | ({"_meta": result["_meta"]} if "_meta" in result else {})


def response_to_v1(result: Json) -> Json:
    """Return a version 2 agent's answer as one of version 1."""
    told = as_object(result.get("capabilities"))
    session = as_object(told.get("session"))
    prompt = as_object(session.get("prompt"))
    mcp = as_object(session.get("mcp"))
    # What every version 2 agent with sessions has.
    own: Json = {"list": {}, "resume": {}, "close": {}} if told.get("session") is not None else {}
    for name in ("delete", "fork", "additionalDirectories"):
        if session.get(name) is not None:
            own[name] = session[name]
    capabilities: Json = {
        "loadSession": told.get("session") is not None,
        "promptCapabilities": {
            name: prompt.get(name) is not None for name in ("image", "audio", "embeddedContext")
        },
        "mcpCapabilities": {"http": mcp.get("http") is not None, "sse": False},
        "sessionCapabilities": own,
    }
    if "_meta" in told:
        capabilities["_meta"] = told["_meta"]
    methods = [as_object(it) for it in as_array(result.get("authMethods"))]
    answer: Json = {
        "protocolVersion": 1,
        "agentInfo": _who(result.get("info")),
        "agentCapabilities": capabilities,
        "authMethods": [_method_to_v1(it) for it in methods],
    }
    return answer | ({"_meta": result["_meta"]} if "_meta" in result else {})


def _who(info: object) -> Json:
    told = as_object(info)
    known = as_str(told.get("name")) is not None
    return {**_NOBODY, **told} if known else dict(_NOBODY)


def _method_to_v2(method: Json) -> Json:
    renamed = {"methodId" if name == "id" else name: value for name, value in method.items()}
    return {"type": "agent", **renamed}


def _method_to_v1(method: Json) -> Json:
    renamed = {"id" if name == "methodId" else name: value for name, value in method.items()}
    if renamed.get("type") == "agent":
        del renamed["type"]
    return renamed
