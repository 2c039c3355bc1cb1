"""Gemini CLI's tools, as a client is shown them: titles, kinds, changes of files, results.

As Gemini CLI itself tells them over the protocol, so that an imported session looks like one that
was recorded; but where it would show nothing, what the model was told is shown.
"""

import sys

import msgspec
from msgspec import Raw, Struct

from rekindle.importers.entry_builder import Json, change, shown, step, text
from rekindle.importers.gemini.records import NOTHING, Call, FunctionResponse, Part, parts_of
from rekindle.importers.gemini.user_text import block_of, decoded
from rekindle.importers.lenient_reader import Reader, is_text

PLAN = "write_todos"
"""The tool that keeps a list of what is to be done: it is told as a plan, and not as a call."""

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
_WITH_FILES = frozenset({"read", "edit"})
_SHELL = "run_shell_command"
_MUCH_MORE = 2


class Given(Struct, gc=False):
    """What tools are given, of what is shown of it."""

    file_path: str | None = None
    absolute_path: str | None = None
    path: str | None = None
    command: str | None = None


class Display(Struct, rename="camel", gc=False):
    """What was shown of a result, if it was more than a text."""

    file_name: str | None = None
    file_path: str | None = None
    file_diff: Raw = NOTHING
    original_content: Raw = NOTHING
    new_content: Raw = NOTHING
    summary: Raw = NOTHING


class _Response(Struct, gc=False):
    output: Raw = NOTHING
    error: Raw = NOTHING
    content: Raw = NOTHING


class _Todo(Struct, gc=False):
    description: str = ""
    status: str = ""


class _Todos(Struct, gc=False):
    todos: list[_Todo] = []


class _Cell(Struct, gc=False):
    text: str = ""


class _Screen(Struct, gc=False):
    lines: list[list[_Cell]] = []


_read_given = Reader(Given)
_read_display = Reader(Display)
_read_response = Reader(_Response)
_read_todos = Reader(_Todos)
_read_screen = Reader(_Screen)


def is_done(call: Call) -> bool:
    """Tell whether nothing more will come of a call."""
    return call.status in _STATUSES


def call_fields(call: Call, cwd: str | None) -> Json:
    """Return what is told of a call, as far as it went."""
    kind = _KINDS.get(call.name, "other")
    given = _read_given(bytes(call.args)) or Given()
    path = _absolute(given.file_path or given.absolute_path or given.path, cwd)
    fields: Json = {
        "title": _title(call, given),
        "kind": kind,
        "status": _STATUSES.get(call.status, "pending"),
        **_shown(call, path),
    }
    if path and kind in _WITH_FILES:
        fields["locations"] = [{"path": path}]
    if _begins(call.args, b"{"):
        fields["rawInput"] = call.args
    return fields | {"_meta": {"geminiCli": {"toolName": call.name}}}


def _title(call: Call, given: Given) -> str:
    name = call.display_name or call.name or "a tool"
    said = (call.description or "").strip()
    # Of a call that could not even begin, it has what the tool is for.
    is_of_tool = call.status == "error" and said.endswith(".")
    return given.command or (said if said and not is_of_tool else name)


def _absolute(path: str | None, cwd: str | None) -> str | None:
    if path is None or cwd is None or path.startswith("/") or not cwd.startswith("/"):
        return path
    return f"{cwd}/{path}"


def _begins(value: Raw, sign: bytes) -> bool:
    return memoryview(value)[:1].tobytes() == sign


def _shown(call: Call, path: str | None) -> Json:
    """Return what was shown of a result, and what the model was told, if that is much more."""
    is_object = _begins(call.result_display, b"{")
    display = (_read_display(bytes(call.result_display)) if is_object else None) or Display()
    place = display.file_path or path or display.file_name
    if place and is_text(display.new_content):
        old = display.original_content
        return {"content": [change(place, old if is_text(old) else None, display.new_content)]}
    told = _told(call.result)
    words = _displayed(call, display)
    if words is not None:
        size = _MUCH_MORE * len(bytes(words)) if call.name != _SHELL else sys.maxsize
        more = [it for it in told if it["type"] != "text" or len(bytes(it["text"])) > size]
        told = [text(words), *more]
    return {"content": [shown(it) for it in told]} if told else {}


def _displayed(call: Call, display: Display) -> Raw | None:
    """Return the text that was shown of a result; None if there was none."""
    given = call.result_display
    if is_text(given):
        return given if bytes(given) != b'""' else None
    if _begins(given, b"["):
        return _printed(given)
    if is_text(display.file_diff):
        return Raw(b'"```diff\\n%b\\n```"' % bytes(display.file_diff)[1:-1])
    return display.summary if is_text(display.summary) else None


def _printed(given: Raw) -> Raw | None:
    """Return what stood on a terminal, which is as wide as it is."""
    screen = _read_screen(b'{"lines":%b}' % bytes(given)) or _Screen()
    lines = ["".join(cell.text for cell in line).rstrip() for line in screen.lines]
    words = "\n".join(lines).rstrip("\n")
    return Raw(msgspec.json.encode(words)) if words.strip() else None


def _told(result: Raw) -> list[Json]:
    """Return what the model was told of a result."""
    return [it for part in parts_of(result) for it in _told_by(part) if it is not None]


def _told_by(part: Part) -> list[Json | None]:
    response = part.function_response
    if response is None:
        return [text(part.text) if is_text(part.text) else block_of(part)]
    return [told_text(response.response), *(block_of(it) for it in response.parts or [])]


def told_text(response: Raw) -> Json | None:
    """Return what a tool has answered, as text."""
    found = _read_response(bytes(response)) if _begins(response, b"{") else None
    if found is None:
        return None
    said = next((it for it in (found.output, found.error, found.content) if is_text(it)), None)
    if said is not None:
        return text(said) if bytes(said) != b'""' else None
    whole = bytes(response)
    return text(Raw(msgspec.json.encode(whole.decode()))) if len(whole) > len(b"{}") else None


def result_fields(response: FunctionResponse, *, is_known: bool) -> Json:
    """Return what is told of a result that stands alone."""
    found = _read_response(bytes(response.response)) or _Response()
    told = [told_text(response.response), *(block_of(it) for it in response.parts or [])]
    fields: Json = {"status": "failed" if is_text(found.error) else "completed"}
    if not is_known:
        fields |= {"title": response.name or "a tool", "kind": _KINDS.get(response.name, "other")}
    content = [shown(it) for it in told if it is not None]
    return fields | ({"content": content} if content else {})


def todo_steps(call: Call) -> list[Json]:
    """Return the steps of a list that was written anew."""
    found = _read_todos(bytes(call.args)) or _Todos()
    return [step(it.description, it.status) for it in found.todos if it.status != "cancelled"]


def words_of(parts: list[Part]) -> bytes:
    """Return what is said in parts, as one text that is not read."""
    texts = [it.text for it in parts if is_text(it.text) and not is_thought(it)]
    if len(texts) == 1:
        return bytes(texts[0])
    return b'"%b"' % b"".join(memoryview(it)[1:-1] for it in texts)


def is_thought(part: Part) -> bool:
    """Tell whether a part is what the model has thought."""
    return bytes(part.thought) not in {b"", b"false", b"null"}


def thoughts_of(parts: list[Part]) -> list[str]:
    """Return what the model has thought, as it stands among what it said."""
    return [decoded(it.text) for it in parts if is_thought(it) and is_text(it.text)]
