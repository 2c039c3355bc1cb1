"""The choice of the agent as a configuration option of each session.

The user must have asked for it, and several agents must be installed. The option is added to every
list of options on its way to the client. It is never recorded, because it is not the agent's.
"""

from rekindle.acp import methods
from rekindle.acp.translate.config import config_id
from rekindle.jsonvalue import Json, as_array, as_object, decode_object, encode
from rekindle.proxy.connection_state import AgentChoice, ConnectionState
from rekindle.proxy.flow import ClientRequest
from rekindle.proxy.peers import ClientConnection

OPTION_ID = "rekindle_agent"
_CATEGORY = "agent"
_OPTIONS = b'"configOptions":'


def is_agent_choice(request: ClientRequest) -> bool:
    """Return whether a request sets the option."""
    if request.method != methods.SET_CONFIG_OPTION:
        return False
    return setting_in(request.line).get("configId") == OPTION_ID


def setting_in(line: bytes) -> Json:
    """Return the params of a request."""
    return as_object((decode_object(line) or {}).get("params"))


def find_choice(conn: ConnectionState, name: object) -> AgentChoice | None:
    """Return the agent with a name."""
    return next((it for it in conn.settings.agents if it.name == name), None)


def with_agent_option(conn: ConnectionState, client: ClientConnection, line: bytes) -> bytes:
    """Return a line for the client, with the option at the end of its list of options, if any."""
    message = decode_object(line) if _OPTIONS in line else None
    if message is None:
        return line
    for part in (message.get("result"), as_object(message.get("params")).get("update")):
        options = as_object(part).get("configOptions")
        if isinstance(options, list):
            own = [it for it in as_array(as_object(part)["configOptions"]) if not _is_own(it)]
            as_object(part)["configOptions"] = [*own, _option(conn, client)]
            return encode(message)
    return line


def _is_own(option: object) -> bool:
    return config_id(as_object(option)) == OPTION_ID


def _option(conn: ConnectionState, client: ClientConnection) -> Json:
    return {
        "configId" if client.protocol > 1 else "id": OPTION_ID,
        "name": "Agent",
        "description": "Another agent continues all open sessions with their next prompts",
        "category": _CATEGORY,
        "type": "select",
        "currentValue": conn.agent.chosen,
        "options": [{"value": it.name, "name": it.title} for it in conn.settings.agents],
    }
