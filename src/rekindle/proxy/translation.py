"""What passes between sides of different versions: requests, their answers, updates, questions.

One place that knows which translation goes with which line. Where both sides speak the same
version nothing here is used.
"""

from typing import Any

from msgspec import Struct

from rekindle.acp import methods
from rekindle.acp.jsonrpc import read_envelope, update_line
from rekindle.acp.translate.config import (
    MODE,
    config_id,
    mode_option,
    modes_to_v1,
    options_to_v1,
    options_to_v2,
    setting_to_v1,
    setting_to_v2,
)
from rekindle.acp.translate.live_v1 import LiveToV1
from rekindle.acp.translate.live_v2 import LiveToV2, NamedMessage
from rekindle.acp.translate.permissions import outcome_to_v1, permission_to_v1, permission_to_v2
from rekindle.acp.translate.servers import SHARED_TYPES, servers_to_v1, servers_to_v2
from rekindle.jsonvalue import as_array, as_object, as_str, decode_object, encode
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.validation import invalid
from rekindle.transcript.reducer import made_permission_id

Json = dict[str, Any]

_RENAMED_TO_V1 = {methods.AUTH_LOGIN: methods.AUTHENTICATE, methods.AUTH_LOGOUT: methods.LOGOUT}
_RENAMED_TO_V2 = {old: new for new, old in _RENAMED_TO_V1.items()}


class Seen(Struct):
    """What the client gets to see of an update, and the message that was named for it."""

    updates: list[Json] = []
    named: NamedMessage | None = None
    message_id: str | None = None
    """The id under which the client is told what had none."""
    is_same: bool = False
    """Whether nothing but such an id was changed."""


def setup_for_agent(conn: ConnectionState, method: str, setup: Json) -> Json:
    """Return what the agent is told of a session that is opened, in its version.

    Raises Refusal if that version has no word for it.
    """
    if not conn.is_translating:
        return setup
    servers = as_array(setup.get("mcpServers"))
    for server in servers:
        kind = as_object(server).get("type", "stdio")
        if as_str(kind) not in SHARED_TYPES:
            what = f"cannot have a server of type {kind}: the agent speaks another version, "
            raise invalid(method, "mcpServers", kind, f"{what}in which there is no such type")
    to_agent = servers_to_v2 if conn.agent.own.protocol > 1 else servers_to_v1
    return {**setup, "mcpServers": to_agent(servers)}


def opening_for_client(conn: ConnectionState, live: LiveSession, result: Json) -> Json:
    """Return the answer that opens a session, in the client's version."""
    if conn.client_protocol == 1:
        if not conn.is_translating:
            return result
        return _opening_to_v1(conn, live, result)
    options = options_to_v2(result.get("configOptions"), result.get("modes"))
    translator = to_v2(conn, live)
    translator.learn(result)
    rest = {k: v for k, v in result.items() if k not in {"modes", "models", "configOptions"}}
    return {**rest, "configOptions": options} if options else rest


def _opening_to_v1(conn: ConnectionState, live: LiveSession, result: Json) -> Json:
    options = as_array(result.get("configOptions"))
    translator = to_v1(conn, live)
    translator.options = options or translator.options
    told = options_to_v1(options, with_booleans=conn.client_takes_booleans)
    modes = modes_to_v1(options)
    if as_array(result.get("availableCommands")):
        # Version 1 has no place for them in the answer; they are told after it.
        told_after = {"sessionUpdate": "available_commands_update"}
        told_after["availableCommands"] = result["availableCommands"]
        live.held.append(update_line(live.agent_id, told_after))
    hidden = {"configOptions", "availableCommands"}
    rest = {k: v for k, v in result.items() if k not in hidden}
    rest |= {"modes": modes} if modes else {}
    return {**rest, "configOptions": told} if told else rest


def to_v2(conn: ConnectionState, live: LiveSession) -> LiveToV2:
    """Return what translates a session's updates for a version 2 client."""
    if live.to_v2 is None:
        live.to_v2 = LiveToV2(f"rekindle-{conn.at_us:x}")
    return live.to_v2


def to_v1(conn: ConnectionState, live: LiveSession) -> LiveToV1:
    """Return what translates a session's updates for a version 1 client."""
    if live.to_v1 is None:
        live.to_v1 = LiveToV1(with_booleans=conn.client_takes_booleans)
    return live.to_v1


def update_for_client(conn: ConnectionState, live: LiveSession, update: Json) -> Seen:
    """Return an update of the agent's as the client gets to see it."""
    if conn.client_protocol > 1:
        told, named = to_v2(conn, live).update(update)
        has_id = as_str(update.get("messageId")) is not None
        made_id = None if has_id else told.get("messageId")
        is_same = {**told, "messageId": 0} == {**update, "messageId": 0}
        return Seen([told], named, made_id, is_same=is_same)
    translator = to_v1(conn, live)
    updates = translator.update(update)
    return Seen(updates, is_same=updates == [update] and not translator.has_renamed)


def request_for_agent(conn: ConnectionState, live: LiveSession | None, line: bytes) -> bytes:
    """Return a request of the client's in the agent's version; as it is, if it cannot be read."""
    whole = decode_object(line)
    if whole is None:
        return line
    method, params = str(whole.get("method")), as_object(whole.get("params"))
    if conn.agent.own.protocol == 1:
        method, params = _to_v1(live, method, params)
    else:
        method, params = _to_v2(live, method, params)
    return encode({**whole, "method": method, "params": params})


def _to_v1(live: LiveSession | None, method: str, params: Json) -> tuple[str, Json]:
    if method == methods.SET_CONFIG_OPTION and live is not None and live.to_v2 is not None:
        own = live.to_v2.options
        is_own = any(config_id(as_object(option)) == params.get("configId") for option in own)
        if params.get("configId") == MODE and not is_own:
            live.to_v2.wanted_mode = params.get("value")
            rest = {"sessionId": params.get("sessionId"), "modeId": params.get("value")}
            return methods.SET_MODE, rest
        return method, setting_to_v1(params)
    return _RENAMED_TO_V1.get(method, method), params


def _to_v2(live: LiveSession | None, method: str, params: Json) -> tuple[str, Json]:
    if method == methods.SET_MODE:
        options = live.to_v1.options if live is not None and live.to_v1 is not None else []
        option = mode_option(options) or {"configId": MODE}
        value = {"configId": config_id(option), "type": "id", "value": params.get("modeId")}
        return methods.SET_CONFIG_OPTION, {"sessionId": params.get("sessionId"), **value}
    if method == methods.SET_CONFIG_OPTION:
        return method, setting_to_v2(params)
    return _RENAMED_TO_V2.get(method, method), params


def answer_for_client(
    conn: ConnectionState, live: LiveSession | None, asked: str, line: bytes
) -> bytes:
    """Return the agent's answer to a request of the client's, in the client's version."""
    whole = decode_object(line)
    is_setting = asked in {methods.SET_MODE, methods.SET_CONFIG_OPTION}
    if live is None or not is_setting or whole is None or whole.get("error") is not None:
        return line
    result = as_object(whole.get("result"))
    if conn.client_protocol > 1:
        translator = to_v2(conn, live)
        translator.learn(result)
        translator.take_wanted_mode()
        options = options_to_v2(translator.options, translator.modes)
        return encode({**whole, "result": {**result, "configOptions": options}})
    translator_v1 = to_v1(conn, live)
    translator_v1.options = as_array(result.get("configOptions")) or translator_v1.options
    if asked == methods.SET_MODE:
        return encode({**whole, "result": {}})
    told = options_to_v1(translator_v1.options, with_booleans=conn.client_takes_booleans)
    return encode({**whole, "result": {**result, "configOptions": told}})


def question_for_client(conn: ConnectionState, live: LiveSession | None, line: bytes) -> bytes:
    """Return the agent's question for permission in the client's version.

    Also about a session that no client has opened: a sub-agent's may ask, too.
    """
    whole = decode_object(line)
    if whole is None:
        return line
    params = as_object(whole.get("params"))
    if conn.client_protocol > 1:
        if live is not None:
            to_v2(conn, live).see_call(as_str(as_object(params.get("toolCall")).get("toolCallId")))
        return encode({**whole, "params": permission_to_v2(params)})
    made_id = made_permission_id(read_envelope(line))
    translator = LiveToV1() if live is None else to_v1(conn, live)
    told = permission_to_v1(params, made_id, translator.show_terminal)
    return encode({**whole, "params": told})


def outcome_for_agent(conn: ConnectionState, line: bytes) -> bytes:
    """Return the client's answer to such a question in the agent's version."""
    whole = decode_object(line)
    if conn.agent.own.protocol > 1 or whole is None or whole.get("error") is not None:
        return line
    return encode({**whole, "result": outcome_to_v1(as_object(whole.get("result")))})
