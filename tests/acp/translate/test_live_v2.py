"""Live translation for a version 2 client of a version 1 agent."""

from typing import Any

from rekindle.acp.translate.live_v2 import LiveToV2, NamedMessage
from rekindle.acp.update_kinds import update_to_v2 as to_v2

Json = dict[str, Any]


def chunk(kind: str, text: str, **more: str) -> Json:
    return {"sessionUpdate": kind, **more, "content": {"type": "text", "text": text}}


def call(kind: str, call_id: str = "t", **more: object) -> Json:
    return {"sessionUpdate": kind, "toolCallId": call_id, **more}


def test_each_run_of_chunks_without_an_id_gets_one() -> None:
    live = LiveToV2("x")
    assert live.begin_turn() == "x-1"
    update, named = to_v2(live, chunk("agent_message_chunk", "a"))
    assert (update["messageId"], named) == ("x-2", NamedMessage("agent_message_chunk", "x-2"))
    update, named = to_v2(live, chunk("agent_message_chunk", "b"))
    assert (update["messageId"], named) == ("x-2", None)
    assert to_v2(live, chunk("agent_thought_chunk", "c"))[0]["messageId"] == "x-3"
    own = chunk("agent_message_chunk", "d", messageId="own")
    assert to_v2(live, own) == (own, None)
    assert to_v2(live, chunk("agent_message_chunk", "e"))[0]["messageId"] == "x-4"


def test_a_new_item_ends_a_run_and_an_update_of_a_known_item_does_not() -> None:
    live = LiveToV2("x")

    def next_id() -> str:
        return to_v2(live, chunk("agent_message_chunk", "a"))[0]["messageId"]

    assert next_id() == "x-1"
    for update in (call("tool_call", title="T"), {"sessionUpdate": "plan", "entries": []}):
        to_v2(live, update)
        begun = next_id()
        to_v2(live, {**update, "sessionUpdate": update["sessionUpdate"]})
        assert next_id() == begun
    to_v2(live, {"sessionUpdate": "usage_update", "used": 1, "size": 2})
    assert next_id() == "x-3"
    to_v2(live, {"sessionUpdate": "odd"})
    assert next_id() == "x-4"
    live.begin_turn()
    to_v2(live, {"sessionUpdate": "plan", "entries": []})
    assert next_id() == "x-6"


def test_each_kind_is_translated() -> None:
    live = LiveToV2("x")
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "A"}]}
    (option,) = live.read_options({"modes": modes})
    assert option["currentValue"] == "ask"
    sent = to_v2(live, {"sessionUpdate": "current_mode_update", "currentModeId": "code"})[0]
    assert sent["sessionUpdate"] == "config_option_update"
    assert sent["configOptions"][0]["currentValue"] == "code"
    model = {"id": "model", "name": "M", "type": "select", "currentValue": "m", "options": []}
    sent = to_v2(live, {"sessionUpdate": "config_option_update", "configOptions": [model]})[0]
    assert [it["configId"] for it in sent["configOptions"]] == ["mode", "model"]
    sent = to_v2(live, call("tool_call", title="T", content=[]))[0]
    assert sent == call("tool_call_update", title="T", content=[])
    sent = to_v2(live, {"sessionUpdate": "plan", "entries": [], "_meta": {}})[0]
    assert sent["plan"] == {"type": "items", "planId": "main", "entries": []}
    sent = to_v2(
        live,
        {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "c"}]},
    )[0]
    assert sent["availableCommands"] == [{"type": "command", "name": "c"}]
    assert to_v2(live, {"sessionUpdate": "odd", "x": 1})[0] == {
        "sessionUpdate": "_odd",
        "x": 1,
    }
    assert to_v2(live, {"sessionUpdate": "_odd"})[0] == {"sessionUpdate": "_odd"}
    assert to_v2(live, {})[0] == {"sessionUpdate": "_"}
