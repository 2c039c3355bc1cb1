"""The `initialize` request: find out the agent's version, identity and capabilities."""

from typing import Literal

from msgspec import Struct

from rekindle import __version__
from rekindle.acp import methods
from rekindle.acp.capabilities import read_capabilities
from rekindle.acp.translate.initialize import response_to_v2
from rekindle.client.models import AuthMethod, as_auth_method
from rekindle.client.rpc import RpcConnection
from rekindle.errors import AgentRefused, UsageError
from rekindle.jsonvalue import Json, as_array, as_object
from rekindle.model import AgentIdentity

VERSIONS = (1, 2)

Capability = Literal[
    "list", "load", "resume", "fork", "close", "delete", "rewind", "edit_prompt",
    "archive", "set_title", "status",
    "image", "audio", "embeddedContext",
    "stdio", "http", "sse",
    "logout",
    "additionalDirectories",
]  # fmt: skip
"""The capabilities of an agent: methods, content of prompts, transports of MCP servers, logout,
and additional folders."""

# This client serves neither files nor terminals.
_CAPABILITIES_V1: Json = {
    "fs": {"readTextFile": False, "writeTextFile": False},
    "terminal": False,
    "session": {"configOptions": {"boolean": {}}},
    "subagents": {},
}


class Handshake(Struct, frozen=True, kw_only=True):
    """The agent's response to `initialize`, in one form for both versions."""

    protocol: int
    identity: AgentIdentity
    capabilities: Json
    """The capabilities in the form of version 2."""
    offered: frozenset[str]
    auth_methods: tuple[AuthMethod, ...]

    @property
    def name(self) -> str:
        """The agent's name for messages."""
        return self.identity.name or self.identity.program or "the agent"


async def initialize(
    rpc: RpcConnection, protocol: int, command: tuple[str, ...], name: str
) -> Handshake:
    """Send `initialize` in a version of the protocol, and in the other one if it is refused.

    Raises UsageError, AgentRefused, AgentGone.
    """
    if protocol not in VERSIONS:
        raise UsageError(f"there is no version {protocol} of the protocol; use 1 or 2")
    first, second = (_params_v1, _params_v2) if protocol == 1 else (_params_v2, _params_v1)
    try:
        result = await rpc.call(methods.INITIALIZE, first(name))
    except AgentRefused as refusal:
        try:
            result = await rpc.call(methods.INITIALIZE, second(name))
        except AgentRefused:
            raise refusal from None
    return _read(result, command)


def _params_v1(name: str) -> Json:
    info = {"name": name, "version": __version__}
    return {"protocolVersion": 1, "clientInfo": info, "clientCapabilities": _CAPABILITIES_V1}


def _params_v2(name: str) -> Json:
    info = {"name": name, "version": __version__}
    return {"protocolVersion": 2, "info": info, "capabilities": {}}


def _read(result: Json, command: tuple[str, ...]) -> Handshake:
    agent = read_capabilities(result)
    result_v2 = result if agent.protocol > 1 else response_to_v2(result)
    capabilities = as_object(result_v2.get("capabilities"))
    session = as_object(capabilities.get("session"))
    offered = {method.removeprefix("session/") for method in agent.methods}
    if agent.protocol > 1 and "resume" in offered:
        offered.add("load")
    for part in ("prompt", "mcp"):
        offered |= {
            name for name, value in as_object(session.get(part)).items() if value is not None
        }
    if session.get("additionalDirectories") is not None:
        offered.add("additionalDirectories")
    if agent.protocol == 1:
        offered |= _only_in_v1(as_object(result.get("agentCapabilities")))
    elif as_array(result.get("authMethods")):
        offered.add("logout")
    return Handshake(
        protocol=agent.protocol,
        identity=AgentIdentity(name=agent.name, version=agent.version, command=command),
        capabilities=capabilities,
        offered=frozenset(offered),
        auth_methods=tuple(
            as_auth_method(as_object(method)) for method in as_array(result_v2.get("authMethods"))
        ),
    )


def _only_in_v1(capabilities: Json) -> set[str]:
    """Return the capabilities that version 1 has in a form of its own."""
    has_sse = as_object(capabilities.get("mcpCapabilities")).get("sse") is True
    can_log_out = as_object(capabilities.get("auth")).get("logout") is not None
    return {name for name, has_it in (("sse", has_sse), ("logout", can_log_out)) if has_it}
