"""Live translation of tool calls and terminals for a version 1 client."""

import base64
import json
from itertools import pairwise
from typing import Any

from rekindle.acp.translate.live_v1 import LiveToV1
from rekindle.acp.update_kinds import update_to_v1 as to_v1

Json = dict[str, Any]


def call(kind: str, call_id: str = "t", **more: object) -> Json:
    return {"sessionUpdate": kind, "toolCallId": call_id, **more}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_content_chunks_of_a_tool_call_add_up() -> None:
    live = LiveToV1()
    (first,) = to_v1(live, call("tool_call_update", status="pending"))
    assert first == call("tool_call", title="", status="pending")
    text = {"type": "content", "content": {"type": "text", "text": "a"}}
    (sent,) = to_v1(live, call("tool_call_content_chunk", content=text))
    assert sent == call("tool_call_update", content=[text])
    (sent,) = to_v1(live, call("tool_call_content_chunk", content=text))
    assert sent["content"] == [text, text]
    (sent,) = to_v1(live, call("tool_call_content_chunk", "u", content=text))
    assert sent["sessionUpdate"] == "tool_call"
    (sent,) = to_v1(live, call("tool_call_update", content=None, status="cancelled"))
    assert (sent["content"], sent["status"]) == ([], "failed")


def test_terminals_are_shown_as_text_in_their_tool_call() -> None:
    live = LiveToV1()
    terminal = {"type": "terminal", "terminalId": "x"}
    (sent,) = to_v1(live, call("tool_call_update", content=[terminal]))
    assert sent["content"][0]["content"]["text"] == "[no output]"
    data = {"sessionUpdate": "terminal_output_chunk", "terminalId": "x"}

    def put(text: str) -> list[str]:
        sent = to_v1(live, {**data, "data": encoded(text)})
        return [it["content"][0]["content"]["text"] for it in sent]

    assert put("\x1b[31mone\x1b[0m\r\n") == ["one\n"]
    assert put("t") == []
    end = {"sessionUpdate": "terminal_update", "terminalId": "x", "exitStatus": {"exitCode": 0}}
    (sent,) = to_v1(live, end)
    assert sent["content"][0]["content"]["text"] == "one\nt"
    assert to_v1(live, end) == []
    snapshot = {**end, "output": {"data": encoded("all of it, and more than that")}}
    (sent,) = to_v1(live, snapshot)
    assert sent["content"][0]["content"]["text"] == "all of it, and more than that"
    assert to_v1(live, {**data, "terminalId": "y", "data": "not base64!"}) == []


def test_late_output_of_a_terminal_is_sent_at_the_end_of_the_turn() -> None:
    live = LiveToV1()
    terminal = {"type": "terminal", "terminalId": "x"}
    to_v1(live, call("tool_call_update", content=[terminal]))
    chunk = {"sessionUpdate": "terminal_output_chunk", "terminalId": "x"}
    to_v1(live, {**chunk, "data": encoded("one ")})
    assert to_v1(live, {**chunk, "data": encoded("two")}) == []
    (sent,) = to_v1(live, {"sessionUpdate": "state_update", "state": "idle"})
    assert sent["content"][0]["content"]["text"] == "one two"
    assert to_v1(live, {"sessionUpdate": "state_update", "state": "idle"}) == []
    # A change of the call brings it too.
    assert to_v1(live, {**chunk, "data": encoded("!")}) == []
    (sent,) = to_v1(live, call("tool_call_update", status="completed"))
    assert sent["content"][0]["content"]["text"] == "one two!"


def test_long_output_is_sent_each_time_that_it_has_doubled() -> None:
    live = LiveToV1()
    to_v1(live, call("tool_call_update", content=[{"type": "terminal", "terminalId": "x"}]))
    sent: list[str] = []
    expected = ""

    def output(text: str) -> Json:
        data = {"terminalId": "x", "data": encoded(text)}
        return {"sessionUpdate": "terminal_output_chunk", **data}

    def take(update: Json) -> None:
        news = to_v1(live, update)
        sent.extend(it["content"][0]["content"]["text"] for it in news)

    for number in range(500):
        text = f"{number}: {'x' * 1500}\n"
        expected += text
        passed = json.dumps({"params": {"update": output(text)}}, separators=(",", ":"))
        if number == 0:
            take(output(text))
        elif live.note_passed(passed.encode()):
            take(output("!"))
            expected += "!"
    take({"sessionUpdate": "state_update", "state": "idle"})
    assert sent[-1] == expected
    assert all(expected.startswith(text) for text in sent)
    assert all(len(more) >= 2 * len(some) for some, more in pairwise(sent[:-1]))
    assert 5 < len(sent) < 12


def test_growing_content_is_sent_when_it_has_doubled_and_at_the_end() -> None:
    live = LiveToV1()
    text = {"type": "content", "content": {"type": "text", "text": "x" * 4000}}
    sent = [to_v1(live, call("tool_call_content_chunk", content=text)) for _ in range(9)]
    assert [len(it[0]["content"]) if it else 0 for it in sent] == [1, 2, 0, 4, 0, 0, 0, 8, 0]
    (late,) = to_v1(live, {"sessionUpdate": "state_update", "state": "idle"})
    assert len(late["content"]) == 9


def test_the_text_of_ended_terminals_is_kept_within_a_limit() -> None:
    live = LiveToV1()

    def run(name: str, text: str) -> None:
        terminal = {"type": "terminal", "terminalId": name}
        to_v1(live, call("tool_call_update", name, content=[terminal]))
        done = {"output": {"data": encoded(text)}, "exitStatus": {"exitCode": 0}}
        to_v1(live, {"sessionUpdate": "terminal_update", "terminalId": name, **done})
        to_v1(live, {"sessionUpdate": "state_update", "state": "idle"})

    def shown(name: str) -> str:
        more = {"type": "content", "content": {"type": "text", "text": "more"}}
        (sent,) = to_v1(live, call("tool_call_content_chunk", name, content=more))
        return str(sent["content"][0]["content"]["text"])

    run("a", "the output of a")
    assert shown("a") == "the output of a"
    run("b", "x" * (8 << 20))
    assert shown("a").startswith("[not shown here")


def test_replaced_output_of_the_same_length_is_sent() -> None:
    live = LiveToV1()
    to_v1(live, call("tool_call_update", content=[{"type": "terminal", "terminalId": "x"}]))
    for text in ("10%", "OK!"):
        snapshot = {"output": {"data": encoded(text)}}
        sent = to_v1(live, {"sessionUpdate": "terminal_update", "terminalId": "x", **snapshot})
        assert [it["content"][0]["content"]["text"] for it in sent] == [text]
