"""Convert OpenCode's tools to the protocol's tool calls: titles, kinds, diffs, results, plans.

The output follows OpenCode's own agent for this protocol, so that an imported session looks like a
recorded one.
"""

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from msgspec import Raw, Struct

from rekindle.importers.base import ImportNotes
from rekindle.importers.entry_builder import (
    child_session_meta,
    diff_content,
    plan_entry,
    text_block,
    tool_content,
    with_content,
)
from rekindle.importers.lenient_reader import (
    LenientReader,
    is_json_string,
    is_nonempty_string,
    string_or_empty,
)
from rekindle.importers.opencode.records import (
    NULL,
    OpenCodeAttachment,
    OpenCodePart,
    OpenCodeToolState,
)
from rekindle.importers.patches import parse_unified_diff
from rekindle.jsonvalue import Json

PLAN_TOOL = "todowrite"
"""The tool that keeps a to-do list. It is converted to a plan, not to a tool call."""

_KINDS = {
    "bash": "execute", "shell": "execute",
    "webfetch": "fetch", "websearch": "fetch",
    "edit": "edit", "multiedit": "edit", "write": "edit", "patch": "edit", "apply_patch": "edit",
    "grep": "search", "glob": "search", "list": "search", "codesearch": "search",
    "read": "read",
    "task": "think",
}  # fmt: skip
_SHELLS = frozenset({"bash", "shell"})
_MAX_FILE_BYTES = 16 * 1024 * 1024
_DATA_URL = re.compile(rb'"data:([^;,"]*)((?:;[^;,"]*)*),')
_UNFINISHED = "It was not finished."
_PRIORITIES = frozenset({"high", "medium", "low"})


class _ToolInput(Struct, frozen=True, rename="camel"):
    """The displayed fields of the input of any tool."""

    command: str | None = None
    workdir: str | None = None
    file_path: str | None = None
    path: str | None = None
    old_string: Raw = NULL
    new_string: Raw = NULL
    content: Raw = NULL


class _FileDiff(
    Struct, frozen=True, rename={"file_path": "filePath", "moved_to": "movePath"}, gc=False
):
    """A change of a file: its whole old and new text, or a patch."""

    file: str = ""
    file_path: str = ""
    before: str | None = None
    after: str | None = None
    patch: str = ""
    diff: str = ""


class _EditResult(Struct, frozen=True, gc=False):
    """The result of one edit of several."""

    filediff: _FileDiff | None = None


class _Display(Struct, frozen=True, gc=False):
    """A file that was read, as the user saw it."""

    text: Raw = NULL


class _ResultMetadata(Struct, frozen=True, rename={"session_id": "sessionId"}):
    """The metadata of a result, which the model does not receive."""

    exists: bool = False
    diff: str = ""
    filediff: _FileDiff | None = None
    files: list[_FileDiff] = []
    results: list[_EditResult] = []
    display: _Display | None = None
    output: Raw = NULL
    session_id: str | None = None


class OpenCodeTodo(Struct, frozen=True, gc=False):
    """An item of a to-do list."""

    content: str = ""
    status: str = ""
    priority: str = ""


class _TodoInput(Struct, frozen=True, gc=False):
    """The input of the plan tool."""

    todos: list[OpenCodeTodo] = []


class _ToolError(Struct, frozen=True, gc=False):
    """The error of a call, in the newest version."""

    message: str = ""


_read_input = LenientReader(_ToolInput)
_read_metadata = LenientReader(_ResultMetadata)
_read_todo_input = LenientReader(_TodoInput)
_read_error = LenientReader(_ToolError)


def call_fields(part: OpenCodePart, cwd: str | None) -> Json:
    """Return the fields of a new tool call."""
    state = part.state or OpenCodeToolState()
    given = _read_input(bytes(state.input)) or _ToolInput()
    name = part.tool.lower()
    fields: Json = {
        "title": _title(part, given),
        "kind": _KINDS.get(name, "other"),
        "status": "pending",
    }
    path = (given.workdir or cwd) if name in _SHELLS else given.file_path or given.path
    if path:
        fields["locations"] = [{"path": _absolute(path, cwd)}]
    if bytes(state.input) not in {b"null", b""}:
        fields["rawInput"] = state.input
    return fields | {"_meta": {"opencode": {"toolName": part.tool}}}


def _absolute(path: str, cwd: str | None) -> str:
    """Return an absolute path. Models use paths relative to the project's folder."""
    is_absolute = path.startswith(("/", "~")) or path[1:2] == ":"
    return path if is_absolute or not cwd else f"{cwd.rstrip('/')}/{path}"


def _title(part: OpenCodePart, given: _ToolInput) -> str:
    if part.tool.lower() in _SHELLS and given.command:
        return given.command
    return (part.state.title if part.state is not None else None) or part.tool or "a tool"


def result_fields(part: OpenCodePart, cwd: str | None, notes: ImportNotes) -> Json:
    """Return the fields that complete a tool call. An unfinished call counts as failed."""
    state = part.state or OpenCodeToolState()
    has_metadata = bytes(state.metadata) != b"null"
    metadata_json = state.metadata if has_metadata else state.structured
    metadata = _read_metadata(bytes(metadata_json)) or _ResultMetadata()
    is_done = state.status == "completed"
    if is_done:
        diffs = _diffs(part.tool.lower(), state, metadata)
        content = [{**diff, "path": _absolute(diff["path"], cwd)} for diff in diffs]
        content = content or list(_output_content(state, metadata, notes))
    else:
        content = [tool_content(text_block(_error_text(state)))]
        if is_nonempty_string(metadata.output):
            content.append(tool_content(text_block(metadata.output)))
    fields = with_content({"status": "completed" if is_done else "failed"}, content)
    if metadata.session_id:
        fields["_meta"] = child_session_meta(metadata.session_id)
    return fields


def _error_text(state: OpenCodeToolState) -> Raw | str:
    if is_nonempty_string(state.error):
        return state.error
    error = _read_error(bytes(state.error))
    return (error.message if error is not None else "") or _UNFINISHED


def _output_content(
    state: OpenCodeToolState, metadata: _ResultMetadata, notes: ImportNotes
) -> Iterator[Json]:
    displayed = metadata.display.text if metadata.display is not None else NULL
    text = displayed if is_nonempty_string(displayed) else state.output
    if is_nonempty_string(text):
        yield tool_content(text_block(text))
    for attachment in (*state.content, *state.attachments):
        if attachment.type == "text" and is_nonempty_string(attachment.text):
            yield tool_content(text_block(attachment.text))
        elif attachment.type != "text":
            yield tool_content(file_block(attachment, notes))


# -- diffs ------------------------------------------------------------------------------------


def _diffs(tool: str, state: OpenCodeToolState, metadata: _ResultMetadata) -> list[Json]:
    """Return the diffs of an edit, from the best source that is recorded."""
    if _KINDS.get(tool) != "edit":
        return []
    given = _read_input(bytes(state.input)) or _ToolInput()
    path = given.file_path or given.path or ""
    results = [result.filediff for result in metadata.results if result.filediff is not None]
    single = [metadata.filediff] if metadata.filediff is not None else []
    recorded = results or metadata.files or single
    diffs = [content for diff in recorded for content in _diff_contents(diff, path)]
    if diffs or not path:
        return diffs
    if tool == "write" and is_json_string(given.content):
        return [diff_content(path, None, given.content)]
    if is_json_string(given.old_string) or is_json_string(given.new_string):
        old, new = string_or_empty(given.old_string), string_or_empty(given.new_string)
        return [diff_content(path, old, new)]
    return list(_patch_contents(path, metadata.diff))


def _diff_contents(diff: _FileDiff, path: str) -> Iterator[Json]:
    path = diff.file_path or diff.file or path
    if not path:
        return
    if diff.after is not None:
        yield diff_content(path, diff.before, diff.after)
    else:
        yield from _patch_contents(path, diff.patch or diff.diff)


def _patch_contents(path: str, patch: str) -> Iterator[Json]:
    """Yield the hunks of a patch, with their context lines."""
    for hunk in parse_unified_diff(patch):
        yield diff_content(path, hunk.old or None, hunk.new)


# -- files ------------------------------------------------------------------------------------


def file_block(file: OpenCodePart | OpenCodeAttachment, notes: ImportNotes) -> Json:
    """Return a file as a content block: an image, its content, or a link to it."""
    url = file.url if isinstance(file, OpenCodePart) or is_json_string(file.url) else file.uri
    name = file.filename or file.name or "file"
    if not is_json_string(url):
        return text_block(f"[file: {name}]")
    encoded = bytes(url)
    if not encoded.startswith(b'"data:'):
        mime_type = {"mimeType": file.mime} if file.mime else {}
        return {"type": "resource_link", "uri": url, "name": name, **mime_type}
    head = _DATA_URL.match(encoded)
    if head is None or len(encoded) > _MAX_FILE_BYTES or not head[2].endswith(b";base64"):
        notes.skip("a file is too large, or has an unknown format")
        return text_block(f"[file: {name}]")
    mime = head[1].decode("utf-8", "replace") or file.mime
    data = encoded[head.end() : -1]
    if mime.startswith("image/"):
        return {"type": "image", "data": _quoted(data), "mimeType": mime}
    resource: Json = {"uri": f"file:///{quote(name.lstrip('/'))}", "mimeType": mime}
    is_text = mime.startswith("text/") or mime == "application/json"
    text = _decode_base64(data) if is_text else None
    resource |= {"blob": _quoted(data)} if text is None else {"text": text}
    return {"type": "resource", "resource": resource}


def _quoted(data: bytes) -> Raw:
    return Raw(b'"%b"' % data)


def _decode_base64(data: bytes) -> str | None:
    try:
        return b64decode(data, validate=True).decode()
    except ValueError:
        return None


# -- plans ------------------------------------------------------------------------------------


def todo_entries(state: OpenCodeToolState) -> list[Json]:
    """Return the entries of the plan that a call of the plan tool writes."""
    todos = (_read_todo_input(bytes(state.input)) or _TodoInput()).todos
    return plan_entries((todo.content, todo.status, todo.priority) for todo in todos)


def plan_entries(todos: Iterable[tuple[str, str, str]]) -> list[Json]:
    """Return a to-do list as the entries of a plan, without cancelled items."""
    return [
        {
            **plan_entry(content, status),
            **({"priority": priority} if priority in _PRIORITIES else {}),
        }
        for content, status, priority in todos
        if status != "cancelled"
    ]
