"""Convert Codex's tools to the protocol's tool calls: titles, kinds, diffs, results, plans.

The output follows codex-acp, Codex's own agent for this protocol, so that an imported session looks
like a recorded one. Long texts are copied without being decoded.
"""

import re
import shlex
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw, Struct

from rekindle.importers.codex.records import (
    CodexAction,
    CodexEvent,
    CodexFileChange,
    CodexInvocation,
    CodexItem,
    CodexPart,
    CodexTurnItem,
)
from rekindle.importers.entry_builder import (
    child_session_meta,
    diff_content,
    plan_entry,
    text_block,
    tool_content,
    with_content,
)
from rekindle.importers.lenient_reader import (
    MISSING,
    LenientReader,
    decode_string,
    is_json_string,
    is_nonempty_string,
    starts_with,
    string_or_empty,
)
from rekindle.importers.patches import added_text, parse_hunks, parse_unified_diff
from rekindle.jsonvalue import Json, decode_object

PLAN_TOOL = "update_plan"
"""The tool that keeps a to-do list. It is converted to a plan, not to a tool call."""
_SPAWN_TOOL = "spawn_agent"

_SHELLS = frozenset(
    {"shell", "shell_command", "exec_command", "container.exec", "local_shell", "unified_exec",
     "write_stdin"}
)  # fmt: skip
_KINDS = {
    **dict.fromkeys(_SHELLS, "execute"),
    "apply_patch": "edit",
    "view_image": "read", "read_file": "read", "list_dir": "read", "grep_files": "search",
    "read_mcp_resource": "read", "list_mcp_resources": "read",
    "list_mcp_resource_templates": "read", "tool_search": "search", "web_search": "search",
    _SPAWN_TOOL: "think", "send_input": "think", "send_message": "think", "wait": "think",
    "wait_agent": "think", "close_agent": "think", "resume_agent": "think",
}  # fmt: skip
_STATUSES = {
    "completed": "completed", "failed": "failed", "declined": "failed", "error": "failed",
    "incomplete": "failed",
    "in_progress": "in_progress", "inProgress": "in_progress",
}  # fmt: skip
_HEADER_BYTES = 512
_FAILURE_STARTS = (
    b'"aborted', b'"execution error', b'"apply_patch verification failed', b'"patch rejected',
)  # fmt: skip
_OUTPUT_HEADING = b"Output:\\n"
_HEADER_STARTS = (b'"Exit code: ', b'"Chunk ID: ', b'"Wall time: ', b'"Process ')
_EXIT_CODE = re.compile(rb"(?:^\"Exit code: |exited with code )(-?\d+)")
_BACKTICKS = re.compile(rb"```+")
_UUID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHELL_FLAGS = frozenset({"-c", "-lc", "-ic", "-Command"})
_MAX_TITLE_LENGTH = 2_000
_PATCH_START = "*** Begin Patch"
_PATCH_FILE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_PATCH_MOVE = "*** Move to: "
_ABSOLUTE_PATH = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")


class CodexToolInput(Struct, frozen=True, gc=False):
    """The displayed fields of the input of any tool."""

    cmd: str | list[str] | None = None
    command: str | list[str] | None = None
    input: str | None = None
    path: str | None = None
    file_path: str | None = None
    dir_path: str | None = None
    pattern: str | None = None
    query: str | None = None
    message: str | None = None
    chars: str | None = None


class CodexPlanStep(Struct, frozen=True, gc=False):
    """An item of a to-do list."""

    step: str = ""
    status: str = ""


class CodexPlanInput(Struct, frozen=True, gc=False):
    """The input of the plan tool."""

    plan: list[CodexPlanStep] = []


class _CommandOutput(Struct, frozen=True, gc=False):
    """The output of a command, as it was recorded until 2025."""

    output: Raw = MISSING
    content: Raw = MISSING
    metadata: "_CommandMetadata | None" = None
    success: bool | None = None


class _CommandMetadata(Struct, frozen=True, gc=False):
    exit_code: int | None = None


class _Parts(Struct, frozen=True, gc=False):
    content: list[CodexPart] = []


class _McpResult(Struct, frozen=True, gc=False):
    """The result of an MCP server's tool."""

    content: list["_McpBlock"] = []
    is_error: bool | None = msgspec.field(default=None, name="isError")


class _McpBlock(Struct, frozen=True, gc=False):
    type: str = ""
    text: Raw = MISSING
    data: Raw = MISSING
    mime: str | None = msgspec.field(default=None, name="mimeType")


class _McpOutcome(Struct, frozen=True, gc=False):
    ok: _McpResult | None = msgspec.field(default=None, name="Ok")
    err: str | None = msgspec.field(default=None, name="Err")


_decode_input = msgspec.json.Decoder(CodexToolInput).decode
_read_input = LenientReader(CodexToolInput)
_read_plan = LenientReader(CodexPlanInput)
_read_output = LenientReader(_CommandOutput)
_read_parts = LenientReader(_Parts)
_read_mcp_result = LenientReader(_McpResult)
_read_mcp_outcome = LenientReader(_McpOutcome)


def protocol_status(status: str | None) -> str:
    """Return the protocol's status of a call."""
    return _STATUSES.get(status or "", "completed")


# -- calls ------------------------------------------------------------------------------------


def read_call_input(item: CodexItem) -> tuple[CodexToolInput, Raw | Json | None]:
    """Return the decoded input of a call, and its `rawInput`. Arguments are JSON in a string."""
    given = item.arguments
    if is_json_string(given):
        arguments = decode_string(given).encode("utf-8", "replace")
    else:
        arguments = bytes(given)
    if not arguments.strip():
        return CodexToolInput(), {"input": item.input} if is_json_string(item.input) else None
    try:
        return _decode_input(arguments), Raw(arguments)
    except (msgspec.MsgspecError, RecursionError):
        decoded = _read_input(arguments)
    if decode_object(arguments) is None:
        return CodexToolInput(), {"arguments": arguments.decode()}
    return decoded or CodexToolInput(), Raw(arguments)


def call_fields(
    item: CodexItem, given: CodexToolInput, raw_input: Raw | Json | None, cwd: str | None
) -> Json:
    """Return the fields of a new tool call."""
    patch = _patch_of(item, given)
    kind = "edit" if patch else _kind(item)
    fields: Json = {
        "title": _title(item, given)[:_MAX_TITLE_LENGTH],
        "kind": kind,
        "status": "pending",
    }
    path = given.path or given.file_path or given.dir_path
    if patch:
        edits = patch_edits(patch, cwd)
        fields |= {"title": _edit_title(edits.locations)} | edits.fields()
    elif kind in {"read", "search"} and path:
        fields["locations"] = [{"path": path}]
    # The diffs show all of the input of apply_patch.
    if raw_input is not None and not (patch and item.name == "apply_patch"):
        fields["rawInput"] = raw_input
    return fields | {"_meta": {"codex": {"toolName": _full_name(item)}}} if item.name else fields


def _patch_of(item: CodexItem, given: CodexToolInput) -> str:
    """Return the patch that a call applies, directly or with a shell; otherwise an empty text."""
    if item.name == "apply_patch":
        return decode_string(item.input) or given.input or ""
    command = given.command or given.cmd
    if isinstance(command, list) and command[:1] == ["apply_patch"]:
        return command[1] if len(command) > 1 else ""
    script = command[-1] if isinstance(command, list) and command else command
    if not isinstance(script, str) or _PATCH_START not in script:
        return ""
    is_patch = script.lstrip().startswith("apply_patch")
    return script[script.index(_PATCH_START) :] if is_patch else ""


def _full_name(item: CodexItem) -> str:
    return f"{item.namespace}.{item.name}" if item.namespace else item.name


def _kind(item: CodexItem) -> str:
    is_mcp = (item.namespace or item.name).startswith("mcp__")
    return "execute" if is_mcp else _KINDS.get(item.name, "other")


def _title(item: CodexItem, given: CodexToolInput) -> str:
    name, path = item.name, given.path or given.file_path or given.dir_path or ""
    command = given.command or given.cmd
    if name == "write_stdin":
        return f"Send input: {given.chars!r}" if given.chars else "Wait for the command"
    if command:
        return command_line(command)
    if (item.namespace or name).startswith("mcp__"):
        return ".".join(part for part in (item.namespace, name) if part).replace("__", ".")
    titles = {
        "view_image": f"View Image {path}",
        "read_file": f"Read file '{path}'",
        "list_dir": f"List files in '{path}'",
        "grep_files": search_title(given.pattern, path),
        "web_search": search_title(given.query, None),
        _SPAWN_TOOL: given.message or "Start a sub-agent",
    }
    return titles.get(name) or _full_name(item) or "a tool"


def command_line(command: str | Sequence[str]) -> str:
    """Return a command as a user would type it, without the shell that runs it."""
    if isinstance(command, str):
        return command
    if len(command) > 2 and command[-2] in _SHELL_FLAGS:  # noqa: PLR2004 - shell, flag, script
        return command[-1]
    return shlex.join(command)


def search_title(query: str | None, path: str | None) -> str:
    """Return the title of a search."""
    what = f" for '{query}'" if query else ""
    where = f" in '{path}'" if path else ""
    return f"Search{what}{where}"


def _edit_title(locations: Sequence[Json]) -> str:
    paths = [str(location["path"]).replace("\\", "/") for location in locations]
    names = dict.fromkeys(path.rpartition("/")[2] for path in paths)
    return f"Edit {', '.join(names)}" if names else "Editing files"


def plan_entries(raw_input: Raw | Json | None) -> list[Json]:
    """Return the entries of the plan that a call of the plan tool writes."""
    plan = _read_plan(bytes(raw_input)) if isinstance(raw_input, Raw) else None
    return [plan_entry(step.step, step.status) for step in (plan or CodexPlanInput()).plan]


def search_fields(query: str | None, action: CodexAction | None) -> Json:
    """Return the fields of a web search, or of a page that was opened."""
    action_type = action.type if action is not None else ""
    url = action.url if action is not None else None
    raw_input: Json = {}
    if action is not None:
        raw_input = {
            name: value
            for name in ("type", "query", "queries", "url", "pattern")
            if (value := getattr(action, name))
        }
        query = query or action.query or ", ".join(action.queries or [])
    if action_type == "open_page":
        title = f"Open {url}" if url else "Open a page"
    elif action_type == "find_in_page":
        title = search_title(action.pattern if action is not None else None, url)
    else:
        title = search_title(query, None) if query else "Web search"
    kind = "fetch" if action_type == "open_page" else "search"
    return {"title": title, "kind": kind, "status": "completed", "rawInput": raw_input}


# -- results ----------------------------------------------------------------------------------


def result_fields(name: str, output: Raw) -> Json:
    """Return the fields that complete a tool call."""
    command = _read_output(bytes(output)) if starts_with(output, b"{") else None
    head = memoryview(output)[:64].tobytes()
    if command is None and head.startswith((b'"{\\"output\\":', b'"{\\"content\\":')):
        command = _read_output(decode_string(output).encode("utf-8", "replace"))
    is_failed = False
    if command is not None:
        code = command.metadata.exit_code if command.metadata is not None else None
        is_failed = code not in {None, 0} or command.success is False
        output = command.output if is_json_string(command.output) else command.content
    if name in _SHELLS and is_json_string(output):
        output, header_code = _without_header(output)
        is_failed = is_failed or header_code not in {None, 0}
    is_failed = is_failed or memoryview(output)[:64].tobytes().startswith(_FAILURE_STARTS)
    fields: Json = {"status": "failed" if is_failed else "completed"}
    if name == "apply_patch" and not is_failed:
        # The diff is shown already, and the text only confirms it.
        return fields
    if name == _SPAWN_TOOL and (agent := _UUID.search(bytes(output))):
        fields["_meta"] = child_session_meta(agent[0].decode())
    return with_content(fields, _output_content(output, b"console" if name in _SHELLS else None))


def _without_header(output: Raw) -> tuple[Raw, int | None]:
    """Return the output of a command without Codex's header, and the exit code in the header."""
    text = memoryview(output)
    header, heading, _ = text[:_HEADER_BYTES].tobytes().partition(_OUTPUT_HEADING)
    if not heading or not header.startswith(_HEADER_STARTS):
        return output, None
    code = _EXIT_CODE.search(header)
    body = Raw(b'"%b' % text[len(header) + len(_OUTPUT_HEADING) :])
    return body, int(code[1][:9]) if code else None


def _output_content(output: Raw, fence: bytes | None) -> list[Json]:
    if is_json_string(output):
        is_empty = not is_nonempty_string(output)
        return [] if is_empty else [tool_content(text_block(_fenced(output, fence)))]
    if not starts_with(output, b"["):
        return []
    found = _read_parts(b'{"content":%b}' % bytes(output))
    return parts_content(found.content if found is not None else [], fence)


def parts_content(parts: Sequence[CodexPart], fence: bytes | None = None) -> list[Json]:
    """Return the parts of a message as the content of a tool call."""
    content: list[Json] = []
    for part in parts:
        if is_json_string(part.text):
            content.append(tool_content(text_block(_fenced(part.text, fence))))
        elif (image := image_of(part)) is not None:
            content.append(tool_content(image))
    return content


def _fenced(text: Raw, fence: bytes | None) -> Raw:
    """Put a JSON string into a code block. `fence` is its language; None means no code block."""
    if fence is None:
        return text
    inside = memoryview(text)[1:-1]
    ticks = b"`" * (max(map(len, _BACKTICKS.findall(inside)), default=2) + 1)
    tail = inside[-3:].tobytes()
    end = b"" if tail.endswith(b"\\n") and tail != b"\\\\n" else b"\\n"
    return Raw(b'"%b%b\\n%b%b%b"' % (ticks, fence, inside, end, ticks))


def image_of(part: CodexPart) -> Json | None:
    """Return the image in a part, or a link to it; None if the part has none."""
    for url in (part.image_url, part.image_link):
        if is_json_string(url):
            return image_block(url)
    if part.path and part.type in {"local_image", "local_audio"}:
        return link_block(part.path, part.path)
    return None


def link_block(path: str, name: str) -> Json:
    """Return a link to a file or another resource."""
    uri = path if "://" in path else f"file://{path}"
    return {"type": "resource_link", "uri": uri, "name": name}


def image_block(url: Raw) -> Json:
    """Return the image in a data URL, or a link to the URL."""
    head, _, data = bytes(url).partition(b";base64,")
    mime = head[len('"data:') :].decode("utf-8", "replace")
    if head.startswith(b'"data:image/') and data:
        return {"type": "image", "data": Raw(b'"' + data), "mimeType": mime.partition(";")[0]}
    return {"type": "resource_link", "uri": url, "name": "image"}


# -- calls as the user saw them ---------------------------------------------------------------


def command_fields(item: CodexTurnItem) -> Json:
    """Return the fields of a completed command."""
    parsed = item.parsed_cmd[0] if len(item.parsed_cmd) == 1 else None
    parsed_type = parsed.type if parsed is not None else ""
    path = parsed.path if parsed is not None else None
    fields: Json = {"status": protocol_status(item.status), "kind": "execute"}
    if item.status is None and item.exit_code not in {None, 0}:
        fields["status"] = "failed"
    if parsed is not None and parsed_type == "read" and path:
        fields |= {"kind": "read", "title": f"Read file '{path}'", "locations": [{"path": path}]}
    elif parsed is not None and parsed_type == "list_files":
        fields |= {"kind": "read", "title": f"List files in '{path}'" if path else "List files"}
    elif parsed is not None and parsed_type == "search":
        fields |= {"kind": "search", "title": search_title(parsed.query, path)}
    else:
        fields["title"] = command_line(item.command)[:_MAX_TITLE_LENGTH] or "Terminal"
    output = item.aggregated_output if is_json_string(item.aggregated_output) else item.stdout
    fence = b"console" if fields["kind"] == "execute" else b""
    return with_content(fields, _output_content(output, fence))


def change_fields(change: CodexTurnItem | CodexEvent, cwd: str | None) -> Json:
    """Return the fields of a completed change of files."""
    edits = change_edits(change.changes, cwd)
    is_failed = protocol_status(change.status) == "failed"
    if isinstance(change, CodexEvent) and change.success is False:
        is_failed = True
    fields: Json = {"status": "failed" if is_failed else "completed", "kind": "edit"}
    fields |= {"title": _edit_title(edits.locations)} | edits.fields()
    if isinstance(change, CodexEvent) and is_failed:
        fields["content"] = [*edits.content, *_output_content(change.stderr, b"console")]
    return fields


def mcp_fields(
    invocation: CodexInvocation, result: Raw, status: str | None, error: str | None
) -> Json:
    """Return the fields of a completed call of an MCP server's tool."""
    title = f"mcp.{invocation.server}.{invocation.tool}"
    fields: Json = {"title": title, "kind": "execute", "status": protocol_status(status)}
    if bytes(invocation.arguments):
        fields["rawInput"] = invocation
    outcome = _read_mcp_outcome(bytes(result)) if starts_with(result, b"{") else None
    answer = outcome.ok if outcome is not None and outcome.ok is not None else None
    if answer is None and starts_with(result, b"{"):
        answer = _read_mcp_result(bytes(result))
    error = error or (outcome.err if outcome is not None else None)
    if error or (answer is not None and answer.is_error):
        fields["status"] = "failed"
    blocks = answer.content if answer is not None else []
    content = [tool_content(_mcp_block(block)) for block in blocks]
    content += [tool_content(text_block(error))] if error else []
    return with_content(fields, content)


def _mcp_block(block: _McpBlock) -> Json:
    if block.type == "text" and is_json_string(block.text):
        return text_block(block.text)
    if block.type in {"image", "audio"} and is_json_string(block.data):
        return {"type": block.type, "data": block.data, "mimeType": block.mime or "image/png"}
    return text_block(f"[{block.type or 'something'}]")


def dynamic_tool_fields(item: CodexTurnItem) -> Json:
    """Return the fields of a completed call of a tool that a client has provided."""
    name = f"{item.namespace}.{item.tool}" if item.namespace else item.tool
    status = protocol_status(item.status)
    fields: Json = {"title": name or "a tool", "kind": "other", "status": status}
    if bytes(item.arguments):
        fields["rawInput"] = item.arguments
    content = parts_content(item.content_items or [])
    if isinstance(item.error, str):
        content.append(tool_content(text_block(item.error)))
    return with_content(fields, content)


# -- changes of files -------------------------------------------------------------------------


class CodexEdits(Struct, frozen=True):
    """The diffs of some files, and their locations."""

    content: list[Json]
    locations: list[Json]

    def fields(self) -> Json:
        """Return them as fields of a tool call."""
        return {"content": self.content, "locations": self.locations} if self.locations else {}


def patch_edits(patch: str, cwd: str | None) -> CodexEdits:
    """Return the edits in a patch of Codex's own format."""
    edits = CodexEdits([], [])
    for action, given_path, lines in _patched_files(patch):
        moves = [line for line in lines if line.startswith(_PATCH_MOVE)]
        moved_to = moves[0][len(_PATCH_MOVE) :].strip() if moves else None
        path = _absolute(moved_to or given_path, cwd)
        edits.locations.append({"path": path})
        if action == "Update":
            hunks = parse_hunks([line for line in lines if not line.startswith("***")])
            edits.content.extend(diff_content(path, hunk.old, hunk.new) for hunk in hunks)
        else:
            old = None if action == "Add" else ""
            edits.content.append(diff_content(path, old, added_text(lines)))
    return edits


def change_edits(changes: dict[str, CodexFileChange], cwd: str | None) -> CodexEdits:
    """Return the edits in recorded changes, by file."""
    edits = CodexEdits([], [])
    for given_path, change in sorted(changes.items()):
        path = _absolute(change.move_path or given_path, cwd)
        if change.type == "update" or change.unified_diff is not None:
            hunks = list(parse_unified_diff(change.unified_diff or ""))
            edits.content.extend(diff_content(path, hunk.old, hunk.new) for hunk in hunks)
            locations: list[Json] = [
                {"path": path, "line": hunk.line} for hunk in hunks if hunk.line
            ]
            edits.locations.extend(locations or [{"path": path}])
            continue
        edits.locations.append({"path": path})
        text = string_or_empty(change.content)
        is_new = change.type == "add"
        edits.content.append(diff_content(path, None if is_new else text, text if is_new else ""))
    return edits


def _patched_files(patch: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the action, the path and the lines of each file in a patch."""
    action, path, lines = "", "", list[str]()
    for line in patch.split("\n"):
        header = _PATCH_FILE.match(line)
        if header or line.startswith("*** End Patch"):
            if path:
                yield action, path, lines
            action, path, lines = (header[1], header[2].strip(), []) if header else ("", "", [])
        else:
            lines.append(line)
    if path:
        yield action, path, lines


def _absolute(path: str, cwd: str | None) -> str:
    return path if cwd is None or _ABSOLUTE_PATH.match(path) else f"{cwd.rstrip('/')}/{path}"
