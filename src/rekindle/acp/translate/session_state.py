"""Translate the state of a session for a replay. `acp/update_kinds` chooses the function.

Each function returns the fields of the update that reports one part of the state, or None if there
is nothing to report. The recorded update may have the form of either version.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from rekindle.acp.translate.commands import commands_to_v1, commands_to_v2
from rekindle.acp.translate.config import options_to_v1, options_to_v2
from rekindle.jsonvalue import Json


class SessionState(Struct, frozen=True, kw_only=True):
    """The present state of a session."""

    updates: Mapping[str, Json]
    """The last update of each kind that reports a part of the state."""
    modes: Json = {}
    """The modes of a version 1 agent, with the present one."""
    with_booleans: bool = True
    """Whether a version 1 client can show boolean options."""


StateTranslation = Callable[[SessionState, str], Json | None]
"""Returns the fields of the update of a kind, given the state and the name of the kind."""


def unchanged(state: SessionState, name: str) -> Json | None:
    """Return the last update of a kind that is the same in both versions."""
    return state.updates.get(name)


def not_replayed(state: SessionState, name: str) -> None:
    """Return nothing, for a kind that a replay does not report."""
    del state, name


def options_to_replay_v1(state: SessionState, name: str) -> Json | None:
    """Return the config options in the form of version 1."""
    fields = state.updates.get(name)
    if fields is None:
        return None
    options = options_to_v1(fields.get("configOptions"), with_booleans=state.with_booleans)
    return {**fields, "configOptions": options}


def options_to_replay_v2(state: SessionState, name: str) -> Json | None:
    """Return the config options in the form of version 2. The modes are one of them."""
    options = options_to_v2(state.updates.get(name, {}).get("configOptions"), state.modes)
    return {"sessionUpdate": name, "configOptions": options} if options else None


def commands_to_replay_v1(state: SessionState, name: str) -> Json | None:
    """Return the slash commands in the form of version 1."""
    fields = state.updates.get(name)
    if fields is None:
        return None
    return {**fields, "availableCommands": commands_to_v1(fields.get("availableCommands"))}


def commands_to_replay_v2(state: SessionState, name: str) -> Json | None:
    """Return the slash commands in the form of version 2."""
    fields = state.updates.get(name)
    if fields is None:
        return None
    return {**fields, "availableCommands": commands_to_v2(fields.get("availableCommands"))}
