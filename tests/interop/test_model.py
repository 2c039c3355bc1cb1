import json
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from interop.model import mind
from interop.model.conversation import Call, Said, Shown, Tool, Words
from interop.model.dialect import halves
from interop.model.server import serving

READ = Tool("read", {"properties": {"path": {"type": "string"}}, "required": ["path"]})
SCHEMA = READ.schema
FILE = "/p/note.txt"


def shown(*said: Said, tools: tuple[Tool, ...] = (READ,)) -> Shown:
    return Shown(said=said, tools=tools, is_streamed=False, model="fake")


def test_a_task_that_wants_a_file_to_be_read_leads_to_a_tool_call() -> None:
    reply = mind.reply_to(shown(Said("user", mind.task("alpha", FILE))))
    assert reply == Call("read", {"path": FILE})


def test_a_tool_gets_a_command_in_the_form_it_wants() -> None:
    schema = {"properties": {"command": {"type": "array"}, "why": {"type": "string"}}}
    shell = Tool("shell", {**schema, "required": ["command", "why"]})
    reply = mind.reply_to(shown(Said("user", mind.task("alpha", FILE)), tools=(shell,)))
    assert reply == Call("shell", {"command": ["cat", FILE], "why": "as the user wants it"})


EDIT = Tool(
    "Edit",
    {
        "properties": {"file_path": {}, "old_string": {}, "new_string": {}, "replace_all": {}},
        "required": ["file_path", "old_string", "new_string"],
    },
)


def test_a_task_that_wants_a_change_is_thought_over_and_leads_to_one() -> None:
    asked = Said("user", mind.change_task("alpha", FILE, "heron", "osprey"))
    arguments = {"file_path": FILE, "old_string": "heron", "new_string": "osprey"}
    reply = mind.reply_to(shown(asked, tools=(READ, EDIT)))
    assert reply == Call("Edit", arguments, thought=mind.THOUGHT)
    reply = mind.reply_to(shown(asked, Said("tool", "Done."), tools=(READ, EDIT)))
    assert isinstance(reply, Words)
    assert reply.thought == mind.THOUGHT


def test_where_there_is_but_a_shell_a_change_is_a_patch() -> None:
    shell = Tool("exec_command", {"properties": {"cmd": {"type": "string"}}, "required": ["cmd"]})
    asked = Said("user", mind.change_task("alpha", FILE, "heron", "osprey"))
    reply = mind.reply_to(shown(asked, tools=(shell,)))
    assert isinstance(reply, Call)
    patch = reply.arguments["cmd"]
    assert f"*** Update File: {FILE}\n@@\n-The word of the note is heron." in patch
    assert "\n+The word of the note is osprey.\n" in patch


def test_the_report_tells_of_messages_tasks_and_the_note() -> None:
    reply = mind.reply_to(
        shown(
            Said("user", mind.task("alpha", FILE)),
            Said("model", ""),
            Said("tool", mind.note("heron")),
            Said("model", "Done."),
            Said("user", mind.task("bravo")),
        )
    )
    assert isinstance(reply, Words)
    report = mind.read_report(f"As I said: {reply.text}")
    assert report == mind.Report(earlier=1, tasks=("alpha",), word="heron")


def test_what_is_told_within_a_prompt_is_no_earlier_message() -> None:
    told = f"User: {mind.task('alpha', FILE)}\nYou: the word of the note is heron"
    reply = mind.reply_to(shown(Said("user", f"{told}\n{mind.task('bravo')}")))
    assert isinstance(reply, Words)
    assert mind.read_report(reply.text) == mind.Report(earlier=0, tasks=("alpha",), word="heron")


def test_a_request_without_tools_wants_a_title() -> None:
    reply = mind.reply_to(shown(Said("user", mind.task("alpha", FILE)), tools=()))
    assert isinstance(reply, Words)
    assert mind.read_report(reply.text) is None


CHAT = {
    "messages": [
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": [{"type": "text", "text": mind.task("alpha", FILE)}]},
        {"role": "assistant", "content": None, "tool_calls": [{}]},
        {"role": "tool", "tool_call_id": "call_1", "content": mind.note("heron")},
        {"role": "user", "content": mind.task("bravo")},
    ],
    "tools": [{"type": "function", "function": {"name": "read", "parameters": SCHEMA}}],
}
RESPONSES = {
    "input": [
        {"type": "message", "role": "developer", "content": []},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": mind.task("alpha", FILE)}],
        },
        {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": mind.note("heron")},
        {"role": "user", "content": mind.task("bravo")},
    ],
    "tools": [{"type": "function", "name": "read", "parameters": SCHEMA}, {"type": "web_search"}],
}
MESSAGES = {
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": mind.task("alpha", FILE)}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "read"}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "content": [{"type": "text", "text": mind.note("heron")}]}
            ],
        },
        {"role": "user", "content": mind.task("bravo")},
    ],
    "tools": [{"name": "read", "input_schema": SCHEMA}],
}
GEMINI = {
    "contents": [
        {"role": "user", "parts": [{"text": mind.task("alpha", FILE)}]},
        {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "read", "response": {"output": mind.note("heron")}}}
            ],
        },
        {"role": "user", "parts": [{"text": mind.task("bravo")}]},
    ],
    "tools": [{"functionDeclarations": [{"name": "read", "parametersJsonSchema": SCHEMA}]}],
}
DIALECTS = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": RESPONSES,
    "/v1/messages": MESSAGES,
    "/v1beta/models/x:generateContent": GEMINI,
}
STREAMS = {**DIALECTS, "/v1beta/models/x:streamGenerateContent?alt=sse": GEMINI}
del STREAMS["/v1beta/models/x:generateContent"]


def post(url: str, path: str, body: dict[str, Any]) -> str:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("POST", path, json.dumps(body))
    answer = connection.getresponse().read().decode()
    connection.close()
    return answer


@pytest.mark.parametrize("path", DIALECTS)
def test_every_dialect_shows_the_model_the_same(path: str) -> None:
    with serving(lambda _: None) as url:
        said = post(url, path, DIALECTS[path])
    assert mind.read_report(said) == mind.Report(earlier=1, tasks=("alpha",), word="heron")


@pytest.mark.parametrize("path", STREAMS)
def test_every_dialect_streams_what_it_says_in_pieces(path: str) -> None:
    with serving(lambda _: None) as url:
        said = post(url, path, {**STREAMS[path], "stream": True})
    lines = [line.removeprefix("data: ") for line in said.splitlines() if line.startswith("data")]
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    assert len(events) > 1
    assert "I was shown 1 earlier user message" in said
    assert not any("heron" in line and "I was shown" in line for line in lines[:2])


def thinking(body: dict[str, Any]) -> dict[str, Any]:
    """Return a request whose last task is to be thought over, and has been seen to."""
    words = json.dumps(mind.task("bravo"))
    task = json.dumps(f"{mind.task('bravo')} Think it over.")
    return json.loads(json.dumps(body).replace(words, task))


@pytest.mark.parametrize("path", {**DIALECTS, **STREAMS})
def test_every_dialect_tells_thoughts(path: str) -> None:
    body = {**DIALECTS, **STREAMS}[path]
    with serving(lambda _: None) as url:
        plain = post(url, path, {**body, "stream": path in STREAMS})
        thoughtful = post(url, path, {**thinking(body), "stream": path in STREAMS})
    for half in halves(mind.THOUGHT):
        assert json.dumps(half)[1:-1] not in plain
        assert json.dumps(half)[1:-1] in thoughtful


def test_what_the_model_does_not_know_is_not_found() -> None:
    with serving(lambda _: None) as url:
        assert "the fake has no /v2/else" in post(url, "/v2/else", {})
