"""What is said live, to a client of the other version."""

import base64
import json
from itertools import pairwise
from typing import Any

from rekindle.acp.translate.live_v1 import LiveToV1
from rekindle.acp.translate.live_v2 import LiveToV2, NamedMessage
from rekindle.acp.update_kinds import update_to_v1 as to_v1, update_to_v2 as to_v2

Json = dict[str, Any]


def chunk(kind: str, words: str, **more: str) -> Json:
    return {"sessionUpdate": kind, **more, "content": {"type": "text", "text": words}}


def call(kind: str, call_id: str = "t", **more: object) -> Json:
    return {"sessionUpdate": kind, "toolCallId": call_id, **more}


def encoded(words: str) -> str:
    return base64.b64encode(words.encode()).decode()


class TestToV2:
    """A version 1 agent, and a version 2 client."""

    def test_messages_without_an_id_get_one_for_each_run(self) -> None:
        live = LiveToV2("x")
        assert live.begin_turn() == "x-1"
        said, named = to_v2(live, chunk("agent_message_chunk", "a"))
        assert (said["messageId"], named) == ("x-2", NamedMessage("agent_message_chunk", "x-2"))
        said, named = to_v2(live, chunk("agent_message_chunk", "b"))
        assert (said["messageId"], named) == ("x-2", None)
        assert to_v2(live, chunk("agent_thought_chunk", "c"))[0]["messageId"] == "x-3"
        own = chunk("agent_message_chunk", "d", messageId="own")
        assert to_v2(live, own) == (own, None)
        assert to_v2(live, chunk("agent_message_chunk", "e"))[0]["messageId"] == "x-4"

    def test_a_run_ends_where_something_else_begins_and_not_where_it_goes_on(self) -> None:
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

    def test_each_kind(self) -> None:
        live = LiveToV2("x")
        modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "A"}]}
        (option,) = live.read_options({"modes": modes})
        assert option["currentValue"] == "ask"
        told = to_v2(live, {"sessionUpdate": "current_mode_update", "currentModeId": "code"})[0]
        assert told["sessionUpdate"] == "config_option_update"
        assert told["configOptions"][0]["currentValue"] == "code"
        model = {"id": "model", "name": "M", "type": "select", "currentValue": "m", "options": []}
        told = to_v2(live, {"sessionUpdate": "config_option_update", "configOptions": [model]})[0]
        assert [it["configId"] for it in told["configOptions"]] == ["mode", "model"]
        told = to_v2(live, call("tool_call", title="T", content=[]))[0]
        assert told == call("tool_call_update", title="T", content=[])
        told = to_v2(live, {"sessionUpdate": "plan", "entries": [], "_meta": {}})[0]
        assert told["plan"] == {"type": "items", "planId": "main", "entries": []}
        told = to_v2(
            live,
            {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "c"}]},
        )[0]
        assert told["availableCommands"] == [{"type": "command", "name": "c"}]
        assert to_v2(live, {"sessionUpdate": "odd", "x": 1})[0] == {
            "sessionUpdate": "_odd",
            "x": 1,
        }
        assert to_v2(live, {"sessionUpdate": "_odd"})[0] == {"sessionUpdate": "_odd"}
        assert to_v2(live, {})[0] == {"sessionUpdate": "_"}


class TestToV1:
    """A version 2 agent, and a version 1 client."""

    def test_chunks_pass_and_a_whole_message_is_told_in_chunks(self) -> None:
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
        pieces = [{"type": "text", "text": words} for words in ("Fir", "st")]
        assert to_v1(live, {**whole, "content": [*pieces, blocks[1]]}) == []

    def test_what_is_taken_back_is_told_beside_it(self) -> None:
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
            told = to_v1(live, {**whole, "content": blocks})
            assert [it["content"] for it in told] == (blocks if number != 3 else blocks[1:])
        assert {it["messageId"] for it in told} == {"m~3"}
        assert to_v1(live, {**whole, "content": None}) == []

    def test_tool_calls_add_up(self) -> None:
        live = LiveToV1()
        (first,) = to_v1(live, call("tool_call_update", status="pending"))
        assert first == call("tool_call", title="", status="pending")
        text = {"type": "content", "content": {"type": "text", "text": "a"}}
        (told,) = to_v1(live, call("tool_call_content_chunk", content=text))
        assert told == call("tool_call_update", content=[text])
        (told,) = to_v1(live, call("tool_call_content_chunk", content=text))
        assert told["content"] == [text, text]
        (told,) = to_v1(live, call("tool_call_content_chunk", "u", content=text))
        assert told["sessionUpdate"] == "tool_call"
        (told,) = to_v1(live, call("tool_call_update", content=None, status="cancelled"))
        assert (told["content"], told["status"]) == ([], "failed")

    def test_terminals_are_shown_as_text_where_they_belong(self) -> None:
        live = LiveToV1()
        terminal = {"type": "terminal", "terminalId": "x"}
        (told,) = to_v1(live, call("tool_call_update", content=[terminal]))
        assert told["content"][0]["content"]["text"] == "[no output]"
        data = {"sessionUpdate": "terminal_output_chunk", "terminalId": "x"}

        def put(words: str) -> list[str]:
            told = to_v1(live, {**data, "data": encoded(words)})
            return [it["content"][0]["content"]["text"] for it in told]

        assert put("\x1b[31mone\x1b[0m\r\n") == ["one\n"]
        assert put("t") == []
        end = {"sessionUpdate": "terminal_update", "terminalId": "x", "exitStatus": {"exitCode": 0}}
        (told,) = to_v1(live, end)
        assert told["content"][0]["content"]["text"] == "one\nt"
        assert to_v1(live, end) == []
        snapshot = {**end, "output": {"data": encoded("all of it, and more than that")}}
        (told,) = to_v1(live, snapshot)
        assert told["content"][0]["content"]["text"] == "all of it, and more than that"
        assert to_v1(live, {**data, "terminalId": "y", "data": "not base64!"}) == []

    def test_what_is_late_of_a_terminal_is_told_at_the_end_of_the_turn(self) -> None:
        live = LiveToV1()
        terminal = {"type": "terminal", "terminalId": "x"}
        to_v1(live, call("tool_call_update", content=[terminal]))
        chunk = {"sessionUpdate": "terminal_output_chunk", "terminalId": "x"}
        to_v1(live, {**chunk, "data": encoded("one ")})
        assert to_v1(live, {**chunk, "data": encoded("two")}) == []
        (told,) = to_v1(live, {"sessionUpdate": "state_update", "state": "idle"})
        assert told["content"][0]["content"]["text"] == "one two"
        assert to_v1(live, {"sessionUpdate": "state_update", "state": "idle"}) == []
        # A change of the call brings it too.
        assert to_v1(live, {**chunk, "data": encoded("!")}) == []
        (told,) = to_v1(live, call("tool_call_update", status="completed"))
        assert told["content"][0]["content"]["text"] == "one two!"

    def test_of_long_output_that_passes_by_all_is_told_each_time_that_it_has_doubled(self) -> None:
        live = LiveToV1()
        to_v1(live, call("tool_call_update", content=[{"type": "terminal", "terminalId": "x"}]))
        told: list[str] = []
        said = ""

        def output(words: str) -> Json:
            data = {"terminalId": "x", "data": encoded(words)}
            return {"sessionUpdate": "terminal_output_chunk", **data}

        def take(update: Json) -> None:
            news = to_v1(live, update)
            told.extend(it["content"][0]["content"]["text"] for it in news)

        for number in range(500):
            words = f"{number}: {'x' * 1500}\n"
            said += words
            passed = json.dumps({"params": {"update": output(words)}}, separators=(",", ":"))
            if number == 0:
                take(output(words))
            elif live.note_passed(passed.encode()):
                take(output("!"))
                said += "!"
        take({"sessionUpdate": "state_update", "state": "idle"})
        assert told[-1] == said
        assert all(said.startswith(words) for words in told)
        assert all(len(more) >= 2 * len(some) for some, more in pairwise(told[:-1]))
        assert 5 < len(told) < 12

    def test_content_that_grows_is_told_when_it_has_doubled_and_at_the_end(self) -> None:
        live = LiveToV1()
        words = {"type": "content", "content": {"type": "text", "text": "x" * 4000}}
        told = [to_v1(live, call("tool_call_content_chunk", content=words)) for _ in range(9)]
        assert [len(it[0]["content"]) if it else 0 for it in told] == [1, 2, 0, 4, 0, 0, 0, 8, 0]
        (late,) = to_v1(live, {"sessionUpdate": "state_update", "state": "idle"})
        assert len(late["content"]) == 9

    def test_what_a_terminal_showed_is_kept_as_long_as_there_is_room(self) -> None:
        live = LiveToV1()

        def run(name: str, words: str) -> None:
            terminal = {"type": "terminal", "terminalId": name}
            to_v1(live, call("tool_call_update", name, content=[terminal]))
            done = {"output": {"data": encoded(words)}, "exitStatus": {"exitCode": 0}}
            to_v1(live, {"sessionUpdate": "terminal_update", "terminalId": name, **done})
            to_v1(live, {"sessionUpdate": "state_update", "state": "idle"})

        def shown(name: str) -> str:
            more = {"type": "content", "content": {"type": "text", "text": "more"}}
            (told,) = to_v1(live, call("tool_call_content_chunk", name, content=more))
            return str(told["content"][0]["content"]["text"])

        run("a", "the output of a")
        assert shown("a") == "the output of a"
        run("b", "x" * (8 << 20))
        assert shown("a").startswith("[what this showed is in the record")

    def test_a_terminal_that_shows_something_else_of_the_same_length(self) -> None:
        live = LiveToV1()
        to_v1(live, call("tool_call_update", content=[{"type": "terminal", "terminalId": "x"}]))
        for words in ("10%", "OK!"):
            snapshot = {"output": {"data": encoded(words)}}
            told = to_v1(live, {"sessionUpdate": "terminal_update", "terminalId": "x", **snapshot})
            assert [it["content"][0]["content"]["text"] for it in told] == [words]

    def test_only_the_last_messages_are_remembered(self) -> None:
        live = LiveToV1()
        for number in range(9):
            to_v1(live, chunk("agent_message_chunk", "x", messageId=f"m{number}"))
        whole = {"sessionUpdate": "agent_message", "content": [{"type": "text", "text": "xy"}]}
        (told,) = to_v1(live, {**whole, "messageId": "m8"})
        assert told["content"]["text"] == "y"
        (told,) = to_v1(live, {**whole, "messageId": "m0"})
        assert told["content"]["text"] == "xy"

    def test_options_tell_the_mode_too_when_it_changes(self) -> None:
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

    def test_the_rest(self) -> None:
        live = LiveToV1()
        for same in ({"sessionUpdate": "usage_update"}, {"sessionUpdate": "_own"}):
            assert to_v1(live, same) == [same]
        for lost in ("state_update", "notice", "compaction_update", "to_come", ""):
            assert to_v1(live, {"sessionUpdate": lost}) == []
        plan = {"type": "items", "planId": "p", "entries": [{"content": "x", "status": "pending"}]}
        (told,) = to_v1(live, {"sessionUpdate": "plan_update", "plan": plan})
        assert told == {"sessionUpdate": "plan", "entries": plan["entries"]}
        assert to_v1(live, {"sessionUpdate": "plan_update", "plan": {"type": "odd"}}) == []
        commands = {"sessionUpdate": "available_commands_update", "availableCommands": []}
        assert to_v1(live, commands) == [commands]
