"""Reduce messages to the fields that may be recorded.

A client may add any field to a message, and an extension may send any notification. An unknown
field may hold a secret, and Rekindle does not need it. So the recorded fields are listed one by
one. Content stays whole: the blocks of a prompt, updates, and permission requests.

A message that has no other field is recorded as the same bytes.
"""

from typing import Any

from rekindle.acp import methods
from rekindle.jsonvalue import Json, as_object, decode_object, encode, without

_ENVELOPE = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_SESSION_ONLY = frozenset({"sessionId"})
_PARAMS = {
    methods.PROMPT: _SESSION_ONLY | {"messageId", "prompt"},
    methods.SET_MODE: _SESSION_ONLY | {"modeId"},
    methods.SET_MODEL: _SESSION_ONLY | {"modelId"},
    methods.SET_CONFIG_OPTION: _SESSION_ONLY | {"configId", "type", "value"},
}
_OUTCOME = frozenset({"outcome"})
_CHOICE = frozenset({"outcome", "optionId"})
_ERROR = frozenset({"code", "message"})
_AGENT_ENDED = b'"agentEnded"'


def recorded_request(method: str, line: bytes) -> bytes:
    """Return a client's request or notification without unknown fields.

    A notification of an extension keeps its method and its session.
    """
    message = decode_object(line)
    if message is None:
        return line
    kept = _only(message, _ENVELOPE)
    kept["params"] = _only(as_object(message.get("params")), _PARAMS.get(method, _SESSION_ONLY))
    return line if kept == message else encode(kept)


def recorded_outcome(line: bytes) -> bytes:
    """Return a client's answer to a permission request without unknown fields."""
    message = decode_object(line)
    if message is None:
        return line
    kept = _only(message, _ENVELOPE)
    if "result" in message:
        result = _only(as_object(message["result"]), _OUTCOME)
        kept["result"] = {name: _only(as_object(it), _CHOICE) for name, it in result.items()}
    if "error" in message:
        kept["error"] = _only(as_object(message["error"]), _ERROR)
    return line if kept == message else encode(kept)


def recorded_ending(line: bytes) -> bytes:
    """Return the end of a turn without the stderr of an agent that died.

    The lines of stderr are for the client, and may hold secrets. The end may be the response to a
    prompt, or a state of version 2; either may come from another Rekindle.
    """
    if _AGENT_ENDED not in line:
        return line
    message = decode_object(line) or {}
    params = as_object(message.get("params"))
    update = as_object(params.get("update"))
    if _has_stderr(message.get("error")):
        return encode({**message, "error": _without_stderr(message["error"])})
    if _has_stderr(update.get("error")):
        ending = {**update, "error": _without_stderr(update["error"])}
        return encode({**message, "params": {**params, "update": ending}})
    return line


def recorded_servers(servers: list[Any]) -> list[Json]:
    """Return the types and names of MCP servers. Everything else of them may be a secret."""
    return [
        {name: server[name] for name in ("type", "name") if isinstance(server.get(name), str)}
        for server in map(as_object, servers)
    ]


def _only(fields: Json, names: frozenset[str]) -> Json:
    return {name: value for name, value in fields.items() if name in names}


def _has_stderr(error: object) -> bool:
    return "stderr" in as_object(as_object(error).get("data"))


def _without_stderr(error: Json) -> Json:
    return {**error, "data": without(error["data"], "stderr")}
