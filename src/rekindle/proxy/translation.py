"""Translate messages between a client and an agent of different protocol versions.

Chooses the translation for each message. Nothing here is used when both have the same version.
"""

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
from rekindle.acp.translate.mcp_servers import SHARED_TYPES, servers_to_v1, servers_to_v2
from rekindle.acp.translate.permissions import outcome_to_v1, permission_to_v1, permission_to_v2
from rekindle.acp.update_kinds import concerns_subagents, update_to_v1, update_to_v2
from rekindle.jsonvalue import Json, as_array, as_object, as_str, decode_object, encode, without
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.peers import ClientConnection
from rekindle.proxy.session_clients import SessionSetup
from rekindle.proxy.validation import invalid
from rekindle.transcript.model import PlanItem, Role, ToolCallItem, TranscriptMessage
from rekindle.transcript.reducer import Transcript, made_permission_id
from rekindle.transcript.replay_v2 import replay_v2

_RENAMED_TO_V1 = {methods.AUTH_LOGIN: methods.AUTHENTICATE, methods.AUTH_LOGOUT: methods.LOGOUT}
_RENAMED_TO_V2 = {old: new for new, old in _RENAMED_TO_V1.items()}


class TranslatedUpdate(Struct):
    """An update as the client receives it."""

    updates: list[Json] = []
    named: NamedMessage | None = None
    """The message that begins here, if an id was made for it."""
    message_id: str | None = None
    """The id that was added to an update without one."""
    is_same: bool = False
    """Whether nothing but such an id was changed."""


# -- opening a session ------------------------------------------------------------------------


def setup_for_agent(conn: ConnectionState, method: str, setup: SessionSetup) -> Json:
    """Return the params that open a session, in the agent's version.

    Raises Refusal if that version cannot express them.
    """
    params = setup.params
    if setup.protocol == conn.agent.capabilities.protocol:
        return params
    servers = as_array(params.get("mcpServers"))
    for server in servers:
        kind = as_object(server).get("type", "stdio")
        if as_str(kind) not in SHARED_TYPES:
            what = f"has a server of type {kind}, which the agent's protocol version does not have"
            raise invalid(method, "mcpServers", kind, what)
    to_agent = servers_to_v2 if conn.agent.capabilities.protocol > 1 else servers_to_v1
    return {**params, "mcpServers": to_agent(servers)}


def opening_for_client(
    conn: ConnectionState, client: ClientConnection, live: LiveSession, result: Json
) -> Json:
    """Return the response that opens a session, in the client's version.

    It has a list of options if Rekindle adds one of its own.
    """
    own: Json = {"configOptions": []} if conn.settings.agents else {}
    return {**own, **_opening_in_version(conn, client, live, result)}


def _opening_in_version(
    conn: ConnectionState, client: ClientConnection, live: LiveSession, result: Json
) -> Json:
    if client.protocol == 1:
        is_same = conn.agent.capabilities.protocol == 1
        return _as_v1(client, result) if is_same else _opening_to_v1(conn, client, live, result)
    options = options_to_v2(result.get("configOptions"), result.get("modes"))
    if conn.translates_for(client):
        translator_to_v2(conn, live).read_options(result)
    rest = without(result, "modes", "models", "configOptions")
    return {**rest, "configOptions": options} if options else rest


def _as_v1(client: ClientConnection, result: Json) -> Json:
    """Return a result with the options that an earlier agent of version 2 had, as version 1 has."""
    options = as_array(result.get("configOptions"))
    if not any("configId" in as_object(option) for option in options):
        return result
    shown = options_to_v1(options, with_booleans=client.takes_booleans)
    return {**result, "configOptions": shown}


def _opening_to_v1(
    conn: ConnectionState, client: ClientConnection, live: LiveSession, result: Json
) -> Json:
    options = as_array(result.get("configOptions"))
    translator = translator_to_v1(live)
    translator.options = options or translator.options
    shown = options_to_v1(options, with_booleans=client.takes_booleans)
    modes = modes_to_v1(options)
    if as_array(result.get("availableCommands")):
        # Version 1 has no field for commands in the response. An update after it has one.
        commands = {"sessionUpdate": "available_commands_update"}
        commands["availableCommands"] = result["availableCommands"]
        conn.queues.hold(live.id, update_line(live.agent_id, commands))
    hidden = {"configOptions", "availableCommands"}
    rest = {k: v for k, v in result.items() if k not in hidden}
    rest |= {"modes": modes} if modes else {}
    return {**rest, "configOptions": shown} if shown else rest


# -- translators of a session -----------------------------------------------------------------


def translator_to_v2(conn: ConnectionState, live: LiveSession) -> LiveToV2:
    """Return the translator of a session's updates for version 2 clients."""
    translators = live.translators
    if translators.to_v2 is None:
        translators.to_v2 = LiveToV2(f"rekindle-{conn.at_us:x}")
    return translators.to_v2


def translator_to_v1(live: LiveSession) -> LiveToV1:
    """Return the translator of a session's updates for version 1 clients."""
    translators = live.translators
    if translators.to_v1 is None:
        translators.to_v1 = LiveToV1()
    return translators.to_v1


def translate_update(conn: ConnectionState, live: LiveSession, update: Json) -> TranslatedUpdate:
    """Translate an update of the agent into the other protocol version."""
    if conn.agent.capabilities.protocol == 1:
        translated, named = update_to_v2(translator_to_v2(conn, live), update)
        has_id = as_str(update.get("messageId")) is not None
        made_id = None if has_id else translated.get("messageId")
        is_same = {**translated, "messageId": 0} == {**update, "messageId": 0}
        return TranslatedUpdate([translated], named, made_id, is_same=is_same)
    translator = translator_to_v1(live)
    updates = update_to_v1(translator, update)
    is_same = updates == [update] and not translator.has_renamed
    return TranslatedUpdate(updates, is_same=is_same)


def seed_translator(conn: ConnectionState, live: LiveSession, transcript: Transcript) -> None:
    """Give a session a translator for clients of the other version, if it has none.

    The translator knows the running turn, as if it had translated the turn from its beginning.
    """
    translators, turns = live.translators, transcript.turns
    running = turns[-1:] if conn.has_turn(live.id) else []
    calls = [it.id for turn in turns for it in turn.items if isinstance(it, ToolCallItem)]
    if conn.agent.capabilities.protocol > 1:
        if translators.to_v1 is None:
            to_v1 = translator_to_v1(live)
            to_v1.tool_calls.know(calls)
            for update in replay_v2(running, transcript, is_running=True):
                update_to_v1(to_v1, update)
    elif translators.to_v2 is None:
        to_v2 = translator_to_v2(conn, live)
        items = [it for turn in running for it in turn.items]
        to_v2.know(calls, has_plan=any(isinstance(it, PlanItem) for it in items))
        last = items[-1] if items else None
        if isinstance(last, TranscriptMessage) and last.role is not Role.USER and last.id is None:
            to_v2.continue_message(NamedMessage(_CHUNK_KINDS[last.role], last.replay_id))


_CHUNK_KINDS = {Role.AGENT: "agent_message_chunk", Role.THOUGHT: "agent_thought_chunk"}


def shown_to(client: ClientConnection, update: Json) -> Json | None:
    """Return a translated update without the parts that a version 1 client does not know.

    None means that it knows no part of it.
    """
    if client.protocol > 1:
        return update
    kind = as_str(update.get("sessionUpdate")) or ""
    if concerns_subagents(kind) and not client.takes_subagents:
        return None
    if kind == "config_option_update" and not client.takes_booleans:
        options = options_to_v1(update.get("configOptions"), with_booleans=False)
        return {**update, "configOptions": options}
    return update


# -- requests and responses -------------------------------------------------------------------


def request_for_agent(conn: ConnectionState, live: LiveSession | None, line: bytes) -> bytes:
    """Translate a request of a client of the other version.

    A line that cannot be decoded stays unchanged.
    """
    message = decode_object(line)
    if message is None:
        return line
    method, params = str(message.get("method")), as_object(message.get("params"))
    if conn.agent.capabilities.protocol == 1:
        method, params = _request_to_v1(live, method, params)
    else:
        method, params = _request_to_v2(live, method, params)
    return encode({**message, "method": method, "params": params})


def _request_to_v1(live: LiveSession | None, method: str, params: Json) -> tuple[str, Json]:
    to_v2 = live.translators.to_v2 if live is not None else None
    if method == methods.SET_CONFIG_OPTION and to_v2 is not None:
        options = map(as_object, to_v2.options)
        is_own = any(config_id(option) == params.get("configId") for option in options)
        if params.get("configId") == MODE and not is_own:
            to_v2.requested_mode = params.get("value")
            mode = {"sessionId": params.get("sessionId"), "modeId": params.get("value")}
            return methods.SET_MODE, mode
        return method, setting_to_v1(params)
    return _RENAMED_TO_V1.get(method, method), params


def _request_to_v2(live: LiveSession | None, method: str, params: Json) -> tuple[str, Json]:
    if method == methods.SET_MODE:
        to_v1 = live.translators.to_v1 if live is not None else None
        options = to_v1.options if to_v1 is not None else []
        option = mode_option(options) or {"configId": MODE}
        value = {"configId": config_id(option), "type": "id", "value": params.get("modeId")}
        return methods.SET_CONFIG_OPTION, {"sessionId": params.get("sessionId"), **value}
    if method == methods.SET_CONFIG_OPTION:
        return method, setting_to_v2(params)
    return _RENAMED_TO_V2.get(method, method), params


def response_for_client(
    conn: ConnectionState,
    client: ClientConnection,
    live: LiveSession | None,
    method: str,
    line: bytes,
) -> bytes:
    """Translate the agent's response to a request of a client."""
    message = decode_object(line)
    is_setting = method in {methods.SET_MODE, methods.SET_CONFIG_OPTION}
    if live is None or not is_setting or message is None or message.get("error") is not None:
        return line
    result = as_object(message.get("result"))
    if client.protocol > 1:
        to_v2 = translator_to_v2(conn, live)
        to_v2.read_options(result)
        to_v2.accept_requested_mode()
        options = options_to_v2(to_v2.options, to_v2.modes)
        return encode({**message, "result": {**result, "configOptions": options}})
    to_v1 = translator_to_v1(live)
    to_v1.options = as_array(result.get("configOptions")) or to_v1.options
    if method == methods.SET_MODE:
        return encode({**message, "result": {}})
    shown = options_to_v1(to_v1.options, with_booleans=client.takes_booleans)
    return encode({**message, "result": {**result, "configOptions": shown}})


# -- permissions ------------------------------------------------------------------------------


def translate_permission(conn: ConnectionState, live: LiveSession | None, line: bytes) -> bytes:
    """Translate a permission request of the agent into the other protocol version.

    No client need have opened the session: a sub-agent may ask too.
    """
    message = decode_object(line)
    if message is None:
        return line
    params = as_object(message.get("params"))
    if conn.agent.capabilities.protocol == 1:
        if live is not None:
            call_id = as_str(as_object(params.get("toolCall")).get("toolCallId"))
            translator_to_v2(conn, live).note_call(call_id)
        return encode({**message, "params": permission_to_v2(params)})
    made_id = made_permission_id(read_envelope(line))
    to_v1 = LiveToV1() if live is None else translator_to_v1(live)
    return encode({**message, "params": permission_to_v1(params, made_id, to_v1.show_terminal)})


def outcome_for_agent(conn: ConnectionState, line: bytes) -> bytes:
    """Translate the response of a client of the other version to a permission request."""
    message = decode_object(line)
    is_v2 = conn.agent.capabilities.protocol > 1
    if is_v2 or message is None or message.get("error") is not None:
        return line
    return encode({**message, "result": outcome_to_v1(as_object(message.get("result")))})
