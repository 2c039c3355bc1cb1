"""Translate slash commands. Version 2 adds a type to each command and to its input."""

from rekindle.jsonvalue import Json, as_array, as_object, without


def commands_to_v2(commands: object) -> list[Json]:
    """Return commands in the form of version 2."""
    return [_to_v2(as_object(command)) for command in as_array(commands)]


def commands_to_v1(commands: object) -> list[Json]:
    """Return commands in the form of version 1.

    Lost: list elements of another type than `command`, and input of another type than text.
    """
    elements = [as_object(command) for command in as_array(commands)]
    return [_to_v1(it) for it in elements if it.get("type", "command") == "command"]


def _to_v2(command: Json) -> Json:
    translated = {"type": "command", **{k: v for k, v in command.items() if v is not None}}
    if "input" in translated:
        translated["input"] = {"type": "text", **as_object(translated["input"])}
    return translated


def _to_v1(command: Json) -> Json:
    translated = {k: v for k, v in command.items() if k != "type" and v is not None}
    command_input = as_object(translated.pop("input", None))
    if command_input.get("type", "text") == "text" and "hint" in command_input:
        translated["input"] = without(command_input, "type")
    return translated
