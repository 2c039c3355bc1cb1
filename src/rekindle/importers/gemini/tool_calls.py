"""Convert Gemini CLI's tools to the protocol's tool calls: titles, kinds, diffs, results, plans.

The output follows Gemini CLI's own agent for this protocol, so that an imported session looks like
a recorded one. Where that agent would show nothing, the text that the model received is shown.
"""

import sys

import msgspec
from msgspec import Raw, Struct

from rekindle.importers.entry_builder import (
    diff_content,
    plan_entry,
    text_block,
    tool_content,
    with_content,
)
from rekindle.importers.gemini.records import (
    GeminiFunctionResponse,
    GeminiPart,
    GeminiToolCall,
    read_parts,
)
from rekindle.importers.gemini.user_text import media_block
from rekindle.importers.lenient_reader import (
    MISSING,
    LenientReader,
    decode_string,
    is_json_string,
    is_nonempty_string,
    starts_with,
)
from rekindle.jsonvalue import Json

PLAN_TOOL = "write_todos"
"""The tool that keeps a to-do list. It is converted to a plan, not to a tool call."""

_KINDS = {
    "read_file": "read", "read_many_files": "read", "read_mcp_resource": "read",
    "write_file": "edit", "replace": "edit", "edit": "edit",
    "run_shell_command": "execute",
    "glob": "search", "grep_search": "search", "search_file_content": "search",
    "list_directory": "search", "google_web_search": "search", "list_mcp_resources": "search",
    "web_fetch": "fetch",
    "invoke_agent": "think", "get_internal_docs": "think", "update_topic": "think",
    "save_memory": "think",
}  # fmt: skip
_STATUSES = {"success": "completed", "error": "failed", "cancelled": "failed"}
_FILE_KINDS = frozenset({"read", "edit"})
_SHELL = "run_shell_command"
_MUCH_LONGER = 2


class GeminiToolInput(Struct, frozen=True, gc=False):
    """The displayed fields of the input of any tool."""

    file_path: str | None = None
    absolute_path: str | None = None
    path: str | None = None
    command: str | None = None


class GeminiResultDisplay(Struct, frozen=True, rename="camel", gc=False):
    """The structured result that the user saw, if it was more than a text."""

    file_name: str | None = None
    file_path: str | None = None
    file_diff: Raw = MISSING
    original_content: Raw = MISSING
    new_content: Raw = MISSING
    summary: Raw = MISSING


class _Response(Struct, frozen=True, gc=False):
    output: Raw = MISSING
    error: Raw = MISSING
    content: Raw = MISSING


class _Todo(Struct, frozen=True, gc=False):
    description: str = ""
    status: str = ""


class _TodoInput(Struct, frozen=True, gc=False):
    todos: list[_Todo] = []


class _Cell(Struct, frozen=True, gc=False):
    text: str = ""


class _Screen(Struct, frozen=True, gc=False):
    lines: list[list[_Cell]] = []


_read_input = LenientReader(GeminiToolInput)
_read_display = LenientReader(GeminiResultDisplay)
_read_response = LenientReader(_Response)
_read_todos = LenientReader(_TodoInput)
_read_screen = LenientReader(_Screen)


def is_done(call: GeminiToolCall) -> bool:
    """Return whether a call has its final status."""
    return call.status in _STATUSES


def call_fields(call: GeminiToolCall, cwd: str | None) -> Json:
    """Return the fields of a call in its current state."""
    kind = _KINDS.get(call.name, "other")
    given = _read_input(bytes(call.args)) or GeminiToolInput()
    path = _absolute(given.file_path or given.absolute_path or given.path, cwd)
    fields: Json = {
        "title": _title(call, given),
        "kind": kind,
        "status": _STATUSES.get(call.status, "pending"),
    }
    fields = with_content(fields, _result_content(call, path))
    if path and kind in _FILE_KINDS:
        fields["locations"] = [{"path": path}]
    if starts_with(call.args, b"{"):
        fields["rawInput"] = call.args
    return fields | {"_meta": {"geminiCli": {"toolName": call.name}}}


def _title(call: GeminiToolCall, given: GeminiToolInput) -> str:
    name = call.display_name or call.name or "a tool"
    description = (call.description or "").strip()
    # If a call could not even start, this is the description of the tool, not of the call.
    is_of_tool = call.status == "error" and description.endswith(".")
    return given.command or (description if description and not is_of_tool else name)


def _absolute(path: str | None, cwd: str | None) -> str | None:
    if path is None or cwd is None or path.startswith("/") or not cwd.startswith("/"):
        return path
    return f"{cwd}/{path}"


def _result_content(call: GeminiToolCall, path: str | None) -> list[Json]:
    """Return the result that the user saw, and the model's result if that is much longer."""
    is_object = starts_with(call.result_display, b"{")
    decoded = _read_display(bytes(call.result_display)) if is_object else None
    display = decoded or GeminiResultDisplay()
    diff_path = display.file_path or path or display.file_name
    if diff_path and is_json_string(display.new_content):
        old = display.original_content
        return [diff_content(diff_path, old if is_json_string(old) else None, display.new_content)]
    blocks = _model_result(call.result)
    shown = _displayed_text(call, display)
    if shown is not None:
        size = _MUCH_LONGER * len(bytes(shown)) if call.name != _SHELL else sys.maxsize
        longer = [
            block for block in blocks if block["type"] != "text" or len(bytes(block["text"])) > size
        ]
        blocks = [text_block(shown), *longer]
    return [tool_content(block) for block in blocks]


def _displayed_text(call: GeminiToolCall, display: GeminiResultDisplay) -> Raw | None:
    """Return the text of a result that the user saw; None if there was none."""
    result = call.result_display
    if is_json_string(result):
        return result if is_nonempty_string(result) else None
    if starts_with(result, b"["):
        return _screen_text(result)
    if is_json_string(display.file_diff):
        return Raw(b'"```diff\\n%b\\n```"' % bytes(display.file_diff)[1:-1])
    return display.summary if is_json_string(display.summary) else None


def _screen_text(result: Raw) -> Raw | None:
    """Return the text on a terminal, without the padding of its lines."""
    screen = _read_screen(b'{"lines":%b}' % bytes(result)) or _Screen()
    lines = ["".join(cell.text for cell in line).rstrip() for line in screen.lines]
    text = "\n".join(lines).rstrip("\n")
    return Raw(msgspec.json.encode(text)) if text.strip() else None


def _model_result(result: Raw) -> list[Json]:
    """Return the content blocks of a result, as the model received it."""
    blocks = [block for part in read_parts(result) for block in _part_blocks(part)]
    return [block for block in blocks if block is not None]


def _part_blocks(part: GeminiPart) -> list[Json | None]:
    response = part.function_response
    if response is None:
        return [text_block(part.text) if is_json_string(part.text) else media_block(part)]
    return _response_blocks(response)


def _response_blocks(response: GeminiFunctionResponse) -> list[Json | None]:
    return [
        _response_text(response.response),
        *(media_block(part) for part in response.parts or []),
    ]


def _response_text(response: Raw) -> Json | None:
    """Return the text of a tool's response; the whole JSON if it has none."""
    fields = _read_response(bytes(response)) if starts_with(response, b"{") else None
    if fields is None:
        return None
    candidates = (fields.output, fields.error, fields.content)
    text = next((value for value in candidates if is_json_string(value)), None)
    if text is not None:
        return text_block(text) if is_nonempty_string(text) else None
    whole = bytes(response)
    return text_block(Raw(msgspec.json.encode(whole.decode()))) if len(whole) > len(b"{}") else None


def result_fields(response: GeminiFunctionResponse, *, is_known: bool) -> Json:
    """Return the fields of a result that comes in a message of its own."""
    decoded = _read_response(bytes(response.response)) or _Response()
    fields: Json = {"status": "failed" if is_json_string(decoded.error) else "completed"}
    if not is_known:
        fields |= {"title": response.name or "a tool", "kind": _KINDS.get(response.name, "other")}
    blocks = _response_blocks(response)
    return with_content(fields, [tool_content(block) for block in blocks if block is not None])


def todo_entries(call: GeminiToolCall) -> list[Json]:
    """Return the entries of the plan that a call of the plan tool writes."""
    todos = (_read_todos(bytes(call.args)) or _TodoInput()).todos
    return [
        plan_entry(todo.description, todo.status) for todo in todos if todo.status != "cancelled"
    ]


def message_text(parts: list[GeminiPart]) -> bytes:
    """Return the text of a message, without thoughts, as one undecoded JSON string."""
    texts = [part.text for part in parts if is_json_string(part.text) and not _is_thought(part)]
    if len(texts) == 1:
        return bytes(texts[0])
    return b'"%b"' % b"".join(memoryview(text)[1:-1] for text in texts)


def _is_thought(part: GeminiPart) -> bool:
    return bytes(part.thought) not in {b"", b"false", b"null"}


def thoughts_in(parts: list[GeminiPart]) -> list[str]:
    """Return the thoughts among the parts of a message."""
    thoughts = [part for part in parts if _is_thought(part) and is_json_string(part.text)]
    return [decode_string(part.text) for part in thoughts]
