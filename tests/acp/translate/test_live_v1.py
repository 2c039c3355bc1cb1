"""Live translation for a version 1 client of a version 2 agent."""

from typing import Any

from rekindle.acp.translate.live_v1 import LiveToV1
from rekindle.acp.update_kinds import update_to_v1 as to_v1

Json = dict[str, Any]


def chunk(kind: str, text: str, **more: str) -> Json:
    return {"sessionUpdate": kind, **more, "content": {"type": "text", "text": text}}


def call(kind: str, call_id: str = "t", **more: object) -> Json:
    return {"sessionUpdate": kind, "toolCallId": call_id, **more}


def test_a_whole_message_adds_only_the_part_that_chunks_did_not_send() -> None:
    live = LiveToV1()
    piece = chunk("agent_message_chunk", "Fir", messageId="m")
    assert to_v1(live, piece) == [piece]
    whole = {"sessionUpdate": "agent_message", "messageId": "m"}
    assert to_v1(live, whole) == []
    blocks = [{"type": "text", "text": "First"}, {"type": "image", "data": ""}]
    assert to_v1(live, {**whole, "content": blocks}) == [
        chunk("agent_message_chunk", "st", messageId="m"),
        {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": blocks[1]},
    ]
    assert to_v1(live, {**whole, "content": blocks}) == []
    pieces = [{"type": "text", "text": text} for text in ("Fir", "st")]
    assert to_v1(live, {**whole, "content": [*pieces, blocks[1]]}) == []


def test_a_replaced_message_is_sent_as_another_message() -> None:
    live = LiveToV1()
    whole = {"sessionUpdate": "agent_thought", "messageId": "m"}
    image = {"type": "image", "data": ""}
    for number, blocks in enumerate(
        [
            [{"type": "text", "text": "one"}],
            [{"type": "text", "text": "two"}],
            [image],
            [image, {"type": "text", "text": "x"}, image],
            [image],
        ]
    ):
        sent = to_v1(live, {**whole, "content": blocks})
        assert [it["content"] for it in sent] == (blocks if number != 3 else blocks[1:])
    assert {it["messageId"] for it in sent} == {"m~3"}
    assert to_v1(live, {**whole, "content": None}) == []


def test_only_the_last_messages_are_remembered() -> None:
    live = LiveToV1()
    for number in range(9):
        to_v1(live, chunk("agent_message_chunk", "x", messageId=f"m{number}"))
    whole = {"sessionUpdate": "agent_message", "content": [{"type": "text", "text": "xy"}]}
    (sent,) = to_v1(live, {**whole, "messageId": "m8"})
    assert sent["content"]["text"] == "y"
    (sent,) = to_v1(live, {**whole, "messageId": "m0"})
    assert sent["content"]["text"] == "xy"


def test_options_report_a_changed_mode_too() -> None:
    live = LiveToV1()
    option = {
        "configId": "mode",
        "name": "Mode",
        "category": "mode",
        "type": "select",
        "currentValue": "ask",
        "options": [],
    }
    update = {"sessionUpdate": "config_option_update", "configOptions": [option]}
    kinds = [it["sessionUpdate"] for it in to_v1(live, update)]
    assert kinds == ["config_option_update", "current_mode_update"]
    assert [it["sessionUpdate"] for it in to_v1(live, update)] == ["config_option_update"]
    assert len(to_v1(live, {"sessionUpdate": "config_option_update"})) == 1


def test_other_kinds_are_forwarded_or_dropped() -> None:
    live = LiveToV1()
    for same in ({"sessionUpdate": "usage_update"}, {"sessionUpdate": "_own"}):
        assert to_v1(live, same) == [same]
    for lost in ("state_update", "notice", "compaction_update", "to_come", ""):
        assert to_v1(live, {"sessionUpdate": lost}) == []
    plan = {"type": "items", "planId": "p", "entries": [{"content": "x", "status": "pending"}]}
    (sent,) = to_v1(live, {"sessionUpdate": "plan_update", "plan": plan})
    assert sent == {"sessionUpdate": "plan", "entries": plan["entries"]}
    assert to_v1(live, {"sessionUpdate": "plan_update", "plan": {"type": "odd"}}) == []
    commands = {"sessionUpdate": "available_commands_update", "availableCommands": []}
    assert to_v1(live, commands) == [commands]


def test_a_message_that_the_client_knows_by_another_id_is_found() -> None:
    live = LiveToV1()
    for text in ("one", "two"):
        blocks = [{"type": "text", "text": text}]
        to_v1(live, {"sessionUpdate": "agent_message", "messageId": "m", "content": blocks})
    assert [live.original_id(it) for it in ("m~1", "m", "x")] == ["m", "m", "x"]


def test_removed_messages_and_calls_begin_again() -> None:
    live = LiveToV1()
    whole = {"sessionUpdate": "agent_message", "content": [{"type": "text", "text": "a"}]}
    text = {"type": "content", "content": {"type": "text", "text": "x"}}
    terminal = {"type": "terminal", "terminalId": "x"}
    shared = {"type": "terminal", "terminalId": "y"}
    for name in ("kept", "removed"):
        to_v1(live, {**whole, "messageId": name})
        parts = [text, shared] if name == "kept" else [text, terminal, shared]
        to_v1(live, call("tool_call_update", name, content=parts))
    output = {"sessionUpdate": "terminal_output_chunk", "data": "YQ=="}
    for name in ("x", "y", "z"):
        to_v1(live, {**output, "terminalId": name})
    live.forget({"removed"})
    assert to_v1(live, {**whole, "messageId": "kept"}) == []
    assert [it["content"]["text"] for it in to_v1(live, {**whole, "messageId": "removed"})] == ["a"]
    (kept,) = to_v1(live, call("tool_call_content_chunk", "kept", content=text))
    (again,) = to_v1(live, call("tool_call_content_chunk", "removed", content=text))
    assert (kept["sessionUpdate"], len(kept["content"])) == ("tool_call_update", 3)
    assert (again["sessionUpdate"], len(again["content"])) == ("tool_call", 1)
    assert [live.show_terminal(name) for name in ("x", "y", "z")] == ["[no output]", "a", "a"]
