"""The registry of update kinds. tests/export/test_views.py compares it with the other tables."""

import pytest

import schema
from rekindle.acp import update_kinds
from rekindle.acp.translate.live_v1 import LiveToV1
from rekindle.acp.translate.live_v2 import LiveToV2, NamedMessage
from rekindle.acp.translate.session_state import SessionState
from rekindle.acp.update_kinds import (
    KINDS,
    Category,
    kind_of,
    state_updates,
    update_to_v1,
    update_to_v2,
)


def test_rows_are_found_by_their_own_name() -> None:
    assert all(kind_of(name).name == name for name in KINDS)


@pytest.mark.parametrize("name", ["to_come", "", None, ["plan"]])
def test_an_unknown_kind_belongs_to_the_history(name: object) -> None:
    kind = kind_of(name)
    assert (kind.versions, kind.category, kind.is_chunk) == ((), Category.OTHER, False)


def test_version_2_has_every_category_but_that_of_a_proposal() -> None:
    found = {kind.category for kind in KINDS.values() if 2 in kind.versions}
    assert found == set(Category) - {Category.TRUNCATION}
    assert KINDS[update_kinds.HISTORY_TRUNCATED].versions == ()


def test_a_truncation_reaches_version_2_clients_only() -> None:
    update = {"sessionUpdate": "history_truncated", "lastMessageId": "m"}
    assert update_to_v1(LiveToV1(), update) == []
    assert update_to_v2(LiveToV2("x"), update) == (update, None)


@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize("version", [1, 2])
def test_the_published_schema_defines_the_kinds_of_a_version(version: int) -> None:
    stable, unstable = schema.schemas(version)
    known = {name for name, kind in KINDS.items() if version in kind.versions}
    subagents = kinds_that("concerns_subagents")
    assert known - subagents == stable.kinds
    assert subagents <= unstable.kinds


def kinds_that(question: str) -> set[str]:
    return {name for name in KINDS if getattr(update_kinds, question)(name)}


def test_questions_select_the_kinds_of_a_category() -> None:
    assert kinds_that("is_user_message") == {"user_message", "user_message_chunk"}
    assert kinds_that("is_agent_message") == {"agent_message", "agent_message_chunk"}
    assert kinds_that("is_agent_chunk") == {"agent_message_chunk", "agent_thought_chunk"}
    assert kinds_that("is_tool_call") == {"tool_call", "tool_call_update"}
    assert kinds_that("is_terminal_output") == {"terminal_output_chunk"}
    assert kinds_that("concerns_subagents") == {
        "subagent_update",
        "session_message",
        "session_message_chunk",
    }
    assert kinds_that("is_state") == {
        "available_commands_update",
        "config_option_update",
        "current_mode_update",
        "session_info_update",
        "state_update",
        "usage_update",
    }


def test_a_made_message_id_is_reported_once() -> None:
    live = LiveToV2("x")
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}
    assert update_to_v2(live, chunk)[1] == NamedMessage("agent_message_chunk", "x-1")
    assert update_to_v2(live, chunk)[1] is None


def test_only_output_of_a_terminal_is_followed_as_such() -> None:
    live = LiveToV1()
    update_to_v1(live, {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": ""})
    assert live.follows_terminal
    update_to_v1(live, {"sessionUpdate": "terminal_update", "terminalId": "t"})
    assert not live.follows_terminal


def test_the_fields_of_a_replayed_state_keep_their_order() -> None:
    recorded = [
        {"used": 1, "sessionUpdate": "usage_update", "size": 2},
        {"used": 1, "size": 2},
    ]
    v1, v2 = (
        [
            list(update)
            for fields in recorded
            for update in state_updates(SessionState(updates={"usage_update": fields}), version)
        ]
        for version in (1, 2)
    )
    assert v1 == [["sessionUpdate", "used", "size"]] * 2
    assert v2 == [["used", "sessionUpdate", "size"], ["used", "size", "sessionUpdate"]]
