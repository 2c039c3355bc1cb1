"""Updates with values of any type cause no internal error, and every request is answered."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from version_conversations import ADDED_V2, DONE, PLAIN_V1, SHOWING, TAKING_BACK_V2, Conversation

Json = dict[str, Any]

ODD = st.sampled_from([None, True, 0, -1, 1.5, "", "x", [], [1], {}, {"a": []}, [[]], [{}]])
OPTION = {"configId": "m", "id": "m", "name": "M", "category": "mode", "type": "select"}
SEEDS = st.sampled_from(
    [
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}},
        {"sessionUpdate": "agent_message", "messageId": "m", "content": [{"type": "text"}]},
        {"sessionUpdate": "user_message", "messageId": "u", "content": [{"type": "text"}]},
        {"sessionUpdate": "tool_call", "toolCallId": "t", "kind": "read", **DONE},
        {"sessionUpdate": "tool_call_update", "toolCallId": "t", "kind": "read", **DONE},
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "t",
            "content": [{"type": "diff", "path": "/a", "oldText": "x", "newText": "y"}],
            "locations": [{"path": "/a", "line": 1}],
        },
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "t",
            "content": [{"type": "diff", "changes": [{"path": "/a"}], "patch": {"text": "x"}}],
        },
        SHOWING,
        {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "eA=="},
        {
            "sessionUpdate": "terminal_update",
            "terminalId": "t",
            "output": {"data": "eA=="},
            "exitStatus": {"exitCode": 0},
        },
        {"sessionUpdate": "plan", "entries": [{"content": "x", "priority": "low", "status": "x"}]},
        {
            "sessionUpdate": "plan_update",
            "plan": {"type": "items", "planId": "p", "entries": [{"content": "x"}]},
        },
        {"sessionUpdate": "current_mode_update", "currentModeId": "x"},
        {
            "sessionUpdate": "config_option_update",
            "configOptions": [{**OPTION, "currentValue": "a", "options": [{"value": "a"}]}],
        },
        {
            "sessionUpdate": "available_commands_update",
            "availableCommands": [{"name": "c", "type": "command", "input": {"hint": "h"}}],
        },
        {"sessionUpdate": "state_update", "state": "running", "stopReason": "end_turn"},
        {"sessionUpdate": "session_info_update", "title": "x"},
        {"sessionUpdate": "usage_update", "used": 1, "size": 2},
        {"sessionUpdate": "x", "_meta": {"terminal_output": {"terminal_id": "t", "data": "x"}}},
    ]
)


def places(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """Return every place in a JSON value."""
    inner: list[tuple[object, ...]] = []
    if isinstance(value, dict):
        inner = [it for name, part in value.items() for it in places(part, (*path, name))]
    elif isinstance(value, list):
        inner = [it for index, part in enumerate(value) for it in places(part, (*path, index))]
    return [*([path] if path else []), *inner]


@st.composite
def odd_updates(draw: st.DrawFn) -> Json:
    """Return an update with one odd value in it."""
    update = json.loads(json.dumps(draw(st.one_of(SEEDS, *PLAIN_V1, *ADDED_V2, *TAKING_BACK_V2))))
    path = draw(st.sampled_from(places(update)))
    place: Any = update
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = draw(ODD)
    return update


PAIRS = [(1, 1), (1, 2), (2, 1), (2, 2)]


@pytest.mark.parametrize(("client", "agent"), PAIRS)
@given(updates=st.lists(odd_updates(), min_size=1, max_size=3))
def test_any_update_is_handled(client: int, agent: int, updates: list[Json]) -> None:
    conversation = Conversation(client, agent)
    conversation.turn(0, [it for it in updates if it.get("sessionUpdate") != "state_update"])
    conversation.turn(1, [])
    conversation.book.out.clear()
    if client == 1:
        conversation.request("session/load", cwd="/p", mcpServers=[])
    else:
        conversation.request("session/resume", cwd="/p", replayFrom={"type": "start"})
    answers = [
        line for line in conversation.book.out if line.startswith("<c ") and '"result"' in line
    ]
    assert len(answers) == 1
    assert conversation.book.reports == []


@pytest.mark.parametrize(("client", "agent"), PAIRS)
@given(updates=st.lists(odd_updates(), min_size=1, max_size=2))
def test_any_history_can_be_handed_over(client: int, agent: int, updates: list[Json]) -> None:
    conversation = Conversation(client, agent)
    conversation.turn(0, [it for it in updates if it.get("sessionUpdate") != "state_update"])
    conversation.book.do_killed("")
    conversation.book.do_agent("Other")
    conversation.book.out.clear()
    method = "session/load" if client == 1 else "session/resume"
    conversation.request(method, cwd="/p", mcpServers=[])
    (asked,) = [line for line in conversation.book.out if line.startswith("<a ")]
    conversation.send({"id": json.loads(asked[3:])["id"], "result": {"sessionId": "other"}})
    conversation.book.out.clear()
    conversation.request("session/prompt", prompt=[{"type": "text", "text": "More"}])
    (asked,) = [line for line in conversation.book.out if line.startswith("<a ")]
    handed, more = json.loads(asked[3:])["params"]["prompt"]
    assert "you do not remember it" in handed["text"]
    assert more["text"] == "More"
