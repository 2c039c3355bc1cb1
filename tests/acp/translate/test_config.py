from rekindle.acp.translate.config import (
    config_id,
    mode_option,
    modes_to_v1,
    options_to_v1,
    options_to_v2,
    setting_to_v1,
    setting_to_v2,
)

MODES = {
    "currentModeId": "ask",
    "availableModes": [
        {"id": "ask", "name": "Ask", "description": "d"},
        {"id": "code", "name": "C"},
    ],
}


MODE_OPTION = {
    "configId": "mode",
    "name": "Mode",
    "category": "mode",
    "type": "select",
    "currentValue": "ask",
    "options": [
        {"value": "ask", "name": "Ask", "description": "d"},
        {"value": "code", "name": "C"},
    ],
}


MODEL_V1 = {
    "id": "model",
    "name": "Model",
    "type": "select",
    "currentValue": "m",
    "options": [{"group": "g", "name": "G", "options": [{"value": "m", "name": "M"}]}],
}


MODEL_V2 = {
    "configId": "model",
    "name": "Model",
    "type": "select",
    "currentValue": "m",
    "options": [{"groupId": "g", "name": "G", "options": [{"value": "m", "name": "M"}]}],
}


SWITCH_V1 = {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": True}


SWITCH_V2 = {"configId": "fast", "name": "Fast", "type": "boolean", "currentValue": True}


def test_options_are_translated_both_ways() -> None:
    both = options_to_v2([MODEL_V1, SWITCH_V1], MODES)
    assert both == [MODE_OPTION, MODEL_V2, SWITCH_V2]
    assert options_to_v1(both[1:], with_booleans=True) == [MODEL_V1, SWITCH_V1]
    assert modes_to_v1(both) == MODES
    assert [config_id(option) for option in (MODEL_V1, MODEL_V2, {})] == ["model", "model", None]


def test_boolean_options_need_a_client_that_shows_them() -> None:
    unknown = {"configId": "x", "name": "X", "type": "slider"}
    translated = options_to_v1([SWITCH_V2, unknown, MODEL_V2], with_booleans=False)
    assert [option["id"] for option in translated] == ["model"]


def test_an_option_of_category_mode_replaces_the_modes() -> None:
    own = {**MODEL_V1, "category": "mode"}
    assert len(options_to_v2([own], MODES)) == 1
    assert options_to_v2([], {}) == []
    assert mode_option([SWITCH_V2]) is None
    assert modes_to_v1([SWITCH_V2]) is None


def test_groups_of_modes_are_flattened() -> None:
    grouped = {**MODEL_V2, "category": "mode"}
    assert modes_to_v1([grouped]) == {
        "currentModeId": "m",
        "availableModes": [{"id": "m", "name": "M"}],
    }


def test_settings_are_translated_both_ways() -> None:
    chosen = {"sessionId": "s", "configId": "model", "value": "m"}
    assert setting_to_v2(chosen) == {**chosen, "type": "id"}
    assert setting_to_v1({**chosen, "type": "id"}) == chosen
    switched = {"sessionId": "s", "configId": "fast", "type": "boolean", "value": True}
    assert setting_to_v1(switched) == setting_to_v2(switched) == switched


def test_options_with_an_invalid_type_are_left_out() -> None:
    assert options_to_v1([{"configId": "o", "type": []}], with_booleans=True) == []
