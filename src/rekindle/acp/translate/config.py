"""Translate modes and configuration options. Version 2 has only options, with other field names."""

from rekindle.jsonvalue import Json, as_array, as_object, as_str

MODE = "mode"
"""The id of the option that represents the modes of version 1, and its category."""


def options_to_v2(options: object, modes: object) -> list[Json]:
    """Return options in the form of version 2, with the modes as another option."""
    translated = [_option_to_v2(as_object(option)) for option in as_array(options)]
    state = as_object(modes)
    choices = [_choice(as_object(mode)) for mode in as_array(state.get("availableModes"))]
    if choices and not any(option.get("category") == MODE for option in translated):
        option = {
            "configId": MODE,
            "name": "Mode",
            "category": MODE,
            "type": "select",
            "currentValue": state.get("currentModeId"),
            "options": choices,
        }
        translated.insert(0, option)
    return translated


def options_to_v1(options: object, *, with_booleans: bool) -> list[Json]:
    """Return options in the form of version 1.

    Lost: options of other types than `select`, and than `boolean` if the client can show those.
    """
    known = ("select", "boolean") if with_booleans else ("select",)
    objects = [as_object(option) for option in as_array(options)]
    return [_option_to_v1(it) for it in objects if as_str(it.get("type", "select")) in known]


def modes_to_v1(options: object) -> Json | None:
    """Return the option that chooses the mode in the form of version 1's modes.

    Lost: groups of modes.
    """
    option = mode_option(options)
    if option is None:
        return None
    choices = [
        as_object(choice)
        for part in map(as_object, as_array(option.get("options")))
        for choice in (as_array(part["options"]) if "options" in part else [part])
    ]
    modes = [_mode(choice) for choice in choices]
    return {"currentModeId": option.get("currentValue"), "availableModes": modes}


def mode_option(options: object) -> Json | None:
    """Return the option that chooses the mode, if any."""
    for option in map(as_object, as_array(options)):
        if option.get("category") == MODE and option.get("type") == "select":
            return option
    return None


def config_id(option: Json) -> str | None:
    """Return the id of an option in the form of either version."""
    return as_str(option.get("configId")) or as_str(option.get("id"))


def setting_to_v1(params: Json) -> Json:
    """Return the params of `session/set_config_option` in the form of version 1.

    There a value without a type is the id of a choice.
    """
    return {k: v for k, v in params.items() if k != "type" or params.get("type") != "id"}


def setting_to_v2(params: Json) -> Json:
    """Return the params of `session/set_config_option` in the form of version 2."""
    return {**params, "type": params.get("type", "id")}


def _choice(mode: Json) -> Json:
    return {"value" if name == "id" else name: value for name, value in mode.items()}


def _mode(choice: Json) -> Json:
    return {"id" if name == "value" else name: value for name, value in choice.items()}


def _option_to_v2(option: Json) -> Json:
    renamed = {"configId" if name == "id" else name: value for name, value in option.items()}
    return _with_groups(renamed, "group", "groupId")


def _option_to_v1(option: Json) -> Json:
    renamed = {"id" if name == "configId" else name: value for name, value in option.items()}
    return _with_groups(renamed, "groupId", "group")


def _with_groups(option: Json, old: str, new: str) -> Json:
    if "options" not in option:
        return option
    parts = [
        {new if name == old else name: value for name, value in as_object(part).items()}
        for part in as_array(option["options"])
    ]
    return {**option, "options": parts}
