"""Sub-agents and messages between sessions in both versions."""

import pytest

from rekindle.acp.translate.live_v1 import LiveToV1
from rekindle.acp.translate.live_v2 import LiveToV2
from rekindle.acp.translate.subagents import (
    session_message_to_v1,
    state_report,
    subagent_to_v1,
)
from rekindle.acp.update_kinds import update_to_v1, update_to_v2
from rekindle.jsonvalue import Json

ANNOUNCED = {"sessionUpdate": "subagent_update", "sessionId": "c"}
CHUNK = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}


def test_the_state_of_version_1_has_no_background_work() -> None:
    state = {"state": "idle", "stopReason": "end_turn", "background": [{"type": "subagent"}]}
    shown = subagent_to_v1({**ANNOUNCED, "state": state})
    assert shown == {**ANNOUNCED, "state": {"state": "idle", "stopReason": "end_turn"}}
    assert subagent_to_v1({**ANNOUNCED, "state": None}) == {**ANNOUNCED, "state": None}


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ([{"type": "new"}], [{"type": "text", "text": "[new]"}]),
        ({"type": "new"}, {"type": "text", "text": "[new]"}),
        (None, None),
    ],
)
def test_content_that_version_1_lacks_becomes_text(content: object, shown: object) -> None:
    update: Json = {"sessionUpdate": "session_message", "messageId": "m", "content": content}
    assert session_message_to_v1(update) == {**update, "content": shown}


def test_updates_about_sub_agents_are_translated() -> None:
    message = {"sessionUpdate": "session_message", "messageId": "m"}
    for update in (ANNOUNCED, message):
        assert update_to_v1(LiveToV1(), update) == [update]


@pytest.mark.parametrize(
    "update", [ANNOUNCED, {"sessionUpdate": "session_message_chunk", "messageId": "m"}]
)
def test_a_new_item_ends_the_open_message_for_a_version_2_client(update: Json) -> None:
    live = LiveToV2("made")
    ids = [update_to_v2(live, it)[0].get("messageId") for it in (CHUNK, update, CHUNK)]
    again = [update_to_v2(live, it)[0].get("messageId") for it in (update, CHUNK)]
    assert ids[0] != ids[2] == again[1]


def test_state_report() -> None:
    state = {"state": "running"}
    assert state_report("c", state) == {**ANNOUNCED, "state": state}
