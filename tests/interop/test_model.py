import json
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from interop.model import behaviour
from interop.model.dialect import ModelMessage, ModelRequest, TextReply, Tool, ToolReply, halves
from interop.model.server import serving

READ = Tool("read", {"properties": {"path": {"type": "string"}}, "required": ["path"]})
SCHEMA = READ.schema
FILE = "/p/note.txt"


def shown(*messages: ModelMessage, tools: tuple[Tool, ...] = (READ,)) -> ModelRequest:
    return ModelRequest(messages=messages, tools=tools, is_streamed=False, model="fake")


def test_read_task_leads_to_a_tool_call() -> None:
    reply = behaviour.reply_to(shown(ModelMessage("user", behaviour.task("alpha", FILE))))
    assert reply == ToolReply("read", {"path": FILE})


def test_command_has_the_form_of_the_tool() -> None:
    schema = {"properties": {"command": {"type": "array"}, "why": {"type": "string"}}}
    shell = Tool("shell", {**schema, "required": ["command", "why"]})
    reply = behaviour.reply_to(
        shown(ModelMessage("user", behaviour.task("alpha", FILE)), tools=(shell,))
    )
    assert reply == ToolReply("shell", {"command": ["cat", FILE], "why": "as the user wants it"})


def test_list_of_files_has_the_form_of_the_tool() -> None:
    schema = {"properties": {"files": {"type": "array"}}, "required": ["files"]}
    asked = ModelMessage("user", behaviour.task("alpha", FILE))
    reply = behaviour.reply_to(shown(asked, tools=(Tool("read_files", schema),)))
    assert reply == ToolReply("read_files", {"files": [{"path": FILE}]})


EDIT = Tool(
    "Edit",
    {
        "properties": {"file_path": {}, "old_string": {}, "new_string": {}, "replace_all": {}},
        "required": ["file_path", "old_string", "new_string"],
    },
)


def test_change_task_leads_to_a_thought_and_a_change() -> None:
    asked = ModelMessage("user", behaviour.change_task("alpha", FILE, "heron", "osprey"))
    arguments = {"file_path": FILE, "old_string": "heron", "new_string": "osprey"}
    reply = behaviour.reply_to(shown(asked, tools=(READ, EDIT)))
    assert reply == ToolReply("Edit", arguments, thought=behaviour.THOUGHT)
    reply = behaviour.reply_to(shown(asked, ModelMessage("tool", "Done."), tools=(READ, EDIT)))
    assert isinstance(reply, TextReply)
    assert reply.thought == behaviour.THOUGHT


def test_change_with_only_a_shell_is_a_patch() -> None:
    shell = Tool("exec_command", {"properties": {"cmd": {"type": "string"}}, "required": ["cmd"]})
    asked = ModelMessage("user", behaviour.change_task("alpha", FILE, "heron", "osprey"))
    reply = behaviour.reply_to(shown(asked, tools=(shell,)))
    assert isinstance(reply, ToolReply)
    patch = reply.arguments["cmd"]
    assert f"*** Update File: {FILE}\n@@\n-The word of the note is heron." in patch
    assert "\n+The word of the note is osprey.\n" in patch


def test_report_counts_messages_and_tasks_and_repeats_the_note() -> None:
    reply = behaviour.reply_to(
        shown(
            ModelMessage("user", behaviour.task("alpha", FILE)),
            ModelMessage("model", ""),
            ModelMessage("tool", behaviour.note("heron")),
            ModelMessage("model", "Done."),
            ModelMessage("user", behaviour.task("bravo")),
        )
    )
    assert isinstance(reply, TextReply)
    report = behaviour.read_report(f"As I said: {reply.text}")
    assert report == behaviour.Report(earlier=1, tasks=("alpha",), word="heron")


def test_history_within_a_prompt_is_not_counted_as_messages() -> None:
    history = f"User: {behaviour.task('alpha', FILE)}\nYou: the word of the note is heron"
    reply = behaviour.reply_to(shown(ModelMessage("user", f"{history}\n{behaviour.task('bravo')}")))
    assert isinstance(reply, TextReply)
    assert behaviour.read_report(reply.text) == behaviour.Report(
        earlier=0, tasks=("alpha",), word="heron"
    )


def test_request_without_tools_gets_a_title() -> None:
    reply = behaviour.reply_to(shown(ModelMessage("user", behaviour.task("alpha", FILE)), tools=()))
    assert isinstance(reply, TextReply)
    assert behaviour.read_report(reply.text) is None


CHAT = {
    "messages": [
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": [{"type": "text", "text": behaviour.task("alpha", FILE)}]},
        {"role": "assistant", "content": None, "tool_calls": [{}]},
        {"role": "tool", "tool_call_id": "call_1", "content": behaviour.note("heron")},
        {"role": "user", "content": behaviour.task("bravo")},
    ],
    "tools": [{"type": "function", "function": {"name": "read", "parameters": SCHEMA}}],
}
RESPONSES = {
    "input": [
        {"type": "message", "role": "developer", "content": []},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": behaviour.task("alpha", FILE)}],
        },
        {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": behaviour.note("heron")},
        {"role": "user", "content": behaviour.task("bravo")},
    ],
    "tools": [{"type": "function", "name": "read", "parameters": SCHEMA}, {"type": "web_search"}],
}
MESSAGES = {
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": behaviour.task("alpha", FILE)}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "read"}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "content": [{"type": "text", "text": behaviour.note("heron")}],
                }
            ],
        },
        {"role": "user", "content": behaviour.task("bravo")},
    ],
    "tools": [{"name": "read", "input_schema": SCHEMA}],
}
GEMINI = {
    "contents": [
        {"role": "user", "parts": [{"text": behaviour.task("alpha", FILE)}]},
        {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]},
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "name": "read",
                        "response": {"output": behaviour.note("heron")},
                    }
                }
            ],
        },
        {"role": "user", "parts": [{"text": behaviour.task("bravo")}]},
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
def test_every_dialect_decodes_the_same_conversation(path: str) -> None:
    with serving(lambda _: None) as url:
        said = post(url, path, DIALECTS[path])
    assert behaviour.read_report(said) == behaviour.Report(
        earlier=1, tasks=("alpha",), word="heron"
    )


@pytest.mark.parametrize("path", STREAMS)
def test_every_dialect_streams_chunks(path: str) -> None:
    with serving(lambda _: None) as url:
        said = post(url, path, {**STREAMS[path], "stream": True})
    lines = [line.removeprefix("data: ") for line in said.splitlines() if line.startswith("data")]
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    assert len(events) > 1
    assert "I was shown 1 earlier user message" in said
    assert not any("heron" in line and "I was shown" in line for line in lines[:2])


def thinking(body: dict[str, Any]) -> dict[str, Any]:
    """Return a request whose last task is to be thought over, and has been seen to."""
    words = json.dumps(behaviour.task("bravo"))
    task = json.dumps(f"{behaviour.task('bravo')} Think it over.")
    return json.loads(json.dumps(body).replace(words, task))


@pytest.mark.parametrize("path", {**DIALECTS, **STREAMS})
def test_every_dialect_sends_thoughts(path: str) -> None:
    body = {**DIALECTS, **STREAMS}[path]
    with serving(lambda _: None) as url:
        plain = post(url, path, {**body, "stream": path in STREAMS})
        thoughtful = post(url, path, {**thinking(body), "stream": path in STREAMS})
    for half in halves(behaviour.THOUGHT):
        assert json.dumps(half)[1:-1] not in plain
        assert json.dumps(half)[1:-1] in thoughtful


def test_unknown_path_is_not_found() -> None:
    with serving(lambda _: None) as url:
        assert "the fake has no /v2/else" in post(url, "/v2/else", {})
