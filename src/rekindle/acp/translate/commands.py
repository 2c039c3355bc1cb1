"""Slash commands: version 2 names the type of each, and of what follows it."""

from typing import Any

from rekindle.jsonvalue import as_array, as_object

Json = dict[str, Any]


def commands_to_v2(commands: object) -> list[Json]:
    """Return the commands of version 1 as those of version 2."""
    return [_to_v2(as_object(command)) for command in as_array(commands)]


def commands_to_v1(commands: object) -> list[Json]:
    """Return the commands of version 2 as those of version 1.

    Lost: things that are no commands, and input that is no text.
    """
    told = [as_object(command) for command in as_array(commands)]
    return [_to_v1(command) for command in told if command.get("type", "command") == "command"]


def _to_v2(command: Json) -> Json:
    told = {"type": "command", **{k: v for k, v in command.items() if v is not None}}
    if "input" in told:
        told["input"] = {"type": "text", **as_object(told["input"])}
    return told


def _to_v1(command: Json) -> Json:
    told = {k: v for k, v in command.items() if k != "type" and v is not None}
    given = as_object(told.pop("input", None))
    if given.get("type", "text") == "text" and "hint" in given:
        told["input"] = {k: v for k, v in given.items() if k != "type"}
    return told
