"""Read the capabilities of an agent."""

from typing import Any

from msgspec import Struct

from rekindle.acp import methods
from rekindle.jsonvalue import Json, as_object, as_str

CAPABILITY_METHODS = {
    "list": methods.LIST,
    "resume": methods.RESUME,
    "close": methods.CLOSE,
    "delete": methods.DELETE,
    "fork": methods.FORK,
    "archive": methods.ARCHIVE,
    "title": methods.SET_TITLE,
    "status": methods.STATUS,
}
"""The names in `sessionCapabilities`, and the methods that they announce."""

PROPOSED_METHODS = {"rewind": methods.REWIND, "edit_prompt": methods.EDIT_PROMPT}
"""Methods that no schema has yet, by their names in `_meta.rekindle.methods`."""

APPEND = "append"
"""The mode of a system prompt that every agent with system prompts supports."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """The identity and the methods that an agent announces in its response to `initialize`."""

    name: str | None = None
    version: str | None = None
    protocol: int = 1
    methods: frozenset[str] = frozenset()
    system_prompt_modes: frozenset[str] = frozenset()
    """The modes in which it accepts `systemPrompt`; none if it does not support the field."""

    def offers(self, method: str) -> bool:
        """Return whether the agent announces a method of the session lifecycle."""
        return method in self.methods


def read_capabilities(result: dict[str, Any]) -> Capabilities:
    """Read the result of `initialize`."""
    # The number alone proves nothing: some agents return 2 with the body of version 1.
    speaks_v2 = result.get("protocolVersion") == 2 and "capabilities" in result  # noqa: PLR2004
    info = as_object(result.get("info") if speaks_v2 else result.get("agentInfo"))
    announced = as_object(result.get("capabilities" if speaks_v2 else "agentCapabilities"))
    session = as_object(announced.get("session" if speaks_v2 else "sessionCapabilities"))
    # `{}` means supported; a missing name and null mean unsupported.
    offered = {
        method for marker, method in CAPABILITY_METHODS.items() if session.get(marker) is not None
    }
    if methods.ARCHIVE in offered:
        offered.add(methods.UNARCHIVE)
    offered |= _proposed_methods(announced, session)
    if announced.get("loadSession") is True:
        offered.add(methods.LOAD)
    if speaks_v2 and announced.get("session") is not None:
        # Every version 2 agent with sessions has these.
        offered |= {methods.LIST, methods.RESUME, methods.CLOSE}
    return Capabilities(
        name=as_str(info.get("name")),
        version=as_str(info.get("version")),
        protocol=2 if speaks_v2 else 1,
        methods=frozenset(offered),
        system_prompt_modes=_system_prompt_modes(session.get("systemPrompt")),
    )


def _proposed_methods(announced: Json, session: Json) -> set[str]:
    """Return the methods that an agent announces as the proposal says, or as Rekindle does."""
    served = as_object(as_object(as_object(announced.get("_meta")).get("rekindle")).get("methods"))
    offered = {method for name, method in PROPOSED_METHODS.items() if name in served}
    marker = session.get("rewind")
    if marker is not None:
        offered.add(methods.REWIND)
        if as_object(marker).get("edit_prompt") is True:
            offered.add(methods.EDIT_PROMPT)
    return offered


def _system_prompt_modes(announced: object) -> frozenset[str]:
    if announced is None:
        return frozenset()
    modes = as_object(as_object(announced).get("mode"))
    return frozenset({APPEND, *(name for name, marker in modes.items() if marker is not None)})
