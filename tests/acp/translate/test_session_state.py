"""The parts of a session's state in the forms of both versions."""

import pytest

from rekindle.acp.translate.session_state import (
    SessionState,
    StateTranslation,
    commands_to_replay_v1,
    commands_to_replay_v2,
    not_replayed,
    options_to_replay_v1,
    options_to_replay_v2,
    unchanged,
)

EMPTY = SessionState(updates={})
META = {"_meta": {"a": 1}}


@pytest.mark.parametrize(
    "translate",
    [
        unchanged,
        not_replayed,
        options_to_replay_v1,
        options_to_replay_v2,
        commands_to_replay_v1,
        commands_to_replay_v2,
    ],
)
def test_an_unknown_state_is_not_replayed(translate: StateTranslation) -> None:
    assert translate(EMPTY, "x_update") is None


def test_a_shared_kind_is_unchanged() -> None:
    state = SessionState(updates={"x_update": {"used": 1, **META}})
    assert unchanged(state, "x_update") == {"used": 1, **META}
    assert not_replayed(state, "x_update") is None


def test_commands_are_translated_from_either_version() -> None:
    v1 = {"name": "c", "description": "C"}
    v2 = {"type": "command", **v1}
    for command in (v1, v2):
        state = SessionState(updates={"x": {"availableCommands": [command], **META}})
        assert commands_to_replay_v1(state, "x") == {"availableCommands": [v1], **META}
        assert commands_to_replay_v2(state, "x") == {"availableCommands": [v2], **META}


def test_options_are_translated_from_either_version() -> None:
    for field in ("id", "configId"):
        state = SessionState(updates={"x": {"configOptions": [{field: "o", "type": "select"}]}})
        v1, v2 = options_to_replay_v1(state, "x"), options_to_replay_v2(state, "x")
        assert v1 == {"configOptions": [{"id": "o", "type": "select"}]}
        assert v2 == {
            "sessionUpdate": "x",
            "configOptions": [{"configId": "o", "type": "select"}],
        }


def test_boolean_options_are_only_for_clients_that_show_them() -> None:
    updates = {"x": {"configOptions": [{"id": "o", "type": "boolean"}]}}
    shown = options_to_replay_v1(SessionState(updates=updates), "x")
    hidden = options_to_replay_v1(SessionState(updates=updates, with_booleans=False), "x")
    assert shown == updates["x"]
    assert hidden == {"configOptions": []}


def test_modes_are_an_option_of_version_2_even_without_other_options() -> None:
    modes = {"currentModeId": "code", "availableModes": [{"id": "code", "name": "Code"}]}
    fields = options_to_replay_v2(SessionState(updates={}, modes=modes), "x") or {}
    (option,) = fields["configOptions"]
    assert (option["configId"], option["currentValue"]) == ("mode", "code")
