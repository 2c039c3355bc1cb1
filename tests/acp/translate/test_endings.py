from typing import Any

import pytest

from rekindle.acp.translate.endings import ending_to_v1, ending_to_v2

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ({"result": {"stopReason": "refusal"}}, {"state": "idle", "stopReason": "refusal"}),
        ({"result": {}}, {"state": "idle", "stopReason": "end_turn"}),
        (
            {"error": {"code": -1, "message": "no"}},
            {"state": "idle", "stopReason": "error", "error": {"code": -1, "message": "no"}},
        ),
    ],
)
def test_a_response_becomes_a_state(answer: Json, state: Json) -> None:
    assert ending_to_v2(answer) == state


@pytest.mark.parametrize(
    ("state", "answer"),
    [
        ({"state": "idle"}, {"result": {"stopReason": "end_turn"}}),
        ({"stopReason": "cancelled"}, {"result": {"stopReason": "cancelled"}}),
        ({"stopReason": "_odd"}, {"result": {"stopReason": "end_turn"}}),
        ({"stopReason": "error"}, {"error": {"code": -32603, "message": "the agent failed"}}),
    ],
)
def test_a_state_becomes_a_response(state: Json, answer: Json) -> None:
    assert ending_to_v1(state) == answer
