"""`initialize`: getting to know an agent, whichever version of the protocol it speaks."""

from typing import Any, Literal

from msgspec import Struct

from rekindle import __version__
from rekindle.acp import methods
from rekindle.acp.capabilities import read_capabilities
from rekindle.acp.translate.initialize import response_to_v2
from rekindle.client.models import AuthMethod, as_auth_method
from rekindle.client.rpc import Rpc
from rekindle.errors import AgentRefused, UsageError
from rekindle.jsonvalue import as_array, as_object
from rekindle.model import AgentIdentity

Json = dict[str, Any]

VERSIONS = (1, 2)

Offer = Literal[
    "list", "load", "resume", "fork", "close", "delete",
    "image", "audio", "embeddedContext",
    "stdio", "http", "sse",
    "logout",
    "additionalDirectories",
]  # fmt: skip
"""What an agent may offer: methods; what prompts may hold; kinds of MCP servers; logging out;
more folders."""

# This client has neither files nor terminals to offer.
_CAPABILITIES_V1: Json = {
    "fs": {"readTextFile": False, "writeTextFile": False},
    "terminal": False,
    "session": {"configOptions": {"boolean": {}}},
}


class Greeting(Struct, frozen=True, kw_only=True):
    """What an agent says of itself, in one form for both versions."""

    protocol: int
    identity: AgentIdentity
    capabilities: Json
    """As version 2 has them."""
    offered: frozenset[str]
    auth_methods: tuple[AuthMethod, ...]

    @property
    def name(self) -> str:
        """What to call the agent."""
        return self.identity.name or self.identity.program or "the agent"


async def greet(rpc: Rpc, protocol: int, command: tuple[str, ...], name: str) -> Greeting:
    """Introduce ourselves in that version of the protocol, and if that is refused, in the other.

    Raises AgentRefused, AgentGone.
    """
    if protocol not in VERSIONS:
        raise UsageError(f"there is no version {protocol} of the protocol: give 1 or 2")
    first, second = (_hello_v1, _hello_v2) if protocol == 1 else (_hello_v2, _hello_v1)
    try:
        result = await rpc.call(methods.INITIALIZE, first(name))
    except AgentRefused as refusal:
        try:
            result = await rpc.call(methods.INITIALIZE, second(name))
        except AgentRefused:
            raise refusal from None
    return _read(result, command)


def _hello_v1(name: str) -> Json:
    info = {"name": name, "version": __version__}
    return {"protocolVersion": 1, "clientInfo": info, "clientCapabilities": _CAPABILITIES_V1}


def _hello_v2(name: str) -> Json:
    info = {"name": name, "version": __version__}
    return {"protocolVersion": 2, "info": info, "capabilities": {}}


def _read(result: Json, command: tuple[str, ...]) -> Greeting:
    own = read_capabilities(result)
    told = result if own.protocol > 1 else response_to_v2(result)
    capabilities = as_object(told.get("capabilities"))
    session = as_object(capabilities.get("session"))
    offered = {method.removeprefix("session/") for method in own.methods}
    if own.protocol > 1 and "resume" in offered:
        offered.add("load")
    for part in ("prompt", "mcp"):
        offered |= {name for name, it in as_object(session.get(part)).items() if it is not None}
    if session.get("additionalDirectories") is not None:
        offered.add("additionalDirectories")
    offered |= (
        _only_in_v1(as_object(result.get("agentCapabilities"))) if own.protocol == 1 else set()
    )
    if own.protocol > 1 and as_array(result.get("authMethods")):
        offered.add("logout")
    return Greeting(
        protocol=own.protocol,
        identity=AgentIdentity(name=own.name, version=own.version, command=command),
        capabilities=capabilities,
        offered=frozenset(offered),
        auth_methods=tuple(
            as_auth_method(as_object(it)) for it in as_array(told.get("authMethods"))
        ),
    )


def _only_in_v1(told: Json) -> set[str]:
    """Return what version 1 says of itself in a way of its own."""
    takes_sse = as_object(told.get("mcpCapabilities")).get("sse") is True
    can_log_out = as_object(told.get("auth")).get("logout") is not None
    return {name for name, has_it in (("sse", takes_sse), ("logout", can_log_out)) if has_it}
