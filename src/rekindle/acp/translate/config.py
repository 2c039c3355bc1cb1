"""Modes and configuration options: version 2 has only the latter, with other names in them."""

from typing import Any

from rekindle.jsonvalue import as_array, as_object, as_str

Json = dict[str, Any]

MODE = "mode"
"""The id of the option that stands for version 1's modes, and the category of any such option."""


def options_to_v2(options: object, modes: object) -> list[Json]:
    """Return the options of version 1, and its modes as one more."""
    told = [_option_to_v2(as_object(option)) for option in as_array(options)]
    state = as_object(modes)
    choices = [_choice(as_object(mode)) for mode in as_array(state.get("availableModes"))]
    if choices and not any(option.get("category") == MODE for option in told):
        option = {
            "configId": MODE,
            "name": "Mode",
            "category": MODE,
            "type": "select",
            "currentValue": state.get("currentModeId"),
            "options": choices,
        }
        told.insert(0, option)
    return told


def options_to_v1(options: object, *, with_booleans: bool) -> list[Json]:
    """Return the options of version 2 that version 1 knows: selections, and switches if wanted."""
    known = ("select", "boolean") if with_booleans else ("select",)
    told = [as_object(option) for option in as_array(options)]
    # Lost: options of any other type, for which version 1 has no form.
    return [_option_to_v1(it) for it in told if as_str(it.get("type", "select")) in known]


def modes_to_v1(options: object) -> Json | None:
    """Return the option of version 2 that chooses the mode, as version 1's modes."""
    option = mode_option(options)
    if option is None:
        return None
    # Lost: the grouping of modes.
    choices = [
        as_object(choice)
        for part in map(as_object, as_array(option.get("options")))
        for choice in (as_array(part["options"]) if "options" in part else [part])
    ]
    modes = [_mode(choice) for choice in choices]
    return {"currentModeId": option.get("currentValue"), "availableModes": modes}


def mode_option(options: object) -> Json | None:
    """Return the option that chooses the mode, if there is one."""
    for option in map(as_object, as_array(options)):
        if option.get("category") == MODE and option.get("type") == "select":
            return option
    return None


def config_id(option: Json) -> str | None:
    """Return an option's id, in either version."""
    return as_str(option.get("configId")) or as_str(option.get("id"))


def setting_to_v1(params: Json) -> Json:
    """Return a `session/set_config_option` of version 2 as one of version 1."""
    # Version 1 takes a value without a type for the id of a choice.
    return {k: v for k, v in params.items() if k != "type" or params.get("type") != "id"}


def setting_to_v2(params: Json) -> Json:
    """Return a `session/set_config_option` of version 1 as one of version 2."""
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
