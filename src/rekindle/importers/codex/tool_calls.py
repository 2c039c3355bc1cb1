"""Codex's tools, as a client is shown them: titles, kinds, changes of files, results.

As its own agent for this protocol, codex-acp, tells them, so that an imported session looks like
one that was recorded. Long texts are put where they belong without being read.
"""

import re
import shlex
from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from rekindle.importers.codex.patches import BEGIN, edits_of_changes, edits_of_patch
from rekindle.importers.codex.records import (
    NOTHING,
    Action,
    Event,
    Invocation,
    Item,
    Part,
    TurnItem,
)
from rekindle.importers.entry_builder import Json, shown, step, text
from rekindle.importers.lenient_reader import Reader, has_words, is_text
from rekindle.jsonvalue import decode_object

PLAN = "update_plan"
"""The tool that keeps a list of what is to be done: it is told as a plan, and not as a call."""
SPAWN = "spawn_agent"

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
    SPAWN: "think", "send_input": "think", "send_message": "think", "wait": "think",
    "wait_agent": "think", "close_agent": "think", "resume_agent": "think",
}  # fmt: skip
_STATUSES = {
    "completed": "completed", "failed": "failed", "declined": "failed", "error": "failed",
    "incomplete": "failed",
    "in_progress": "in_progress", "inProgress": "in_progress",
}  # fmt: skip
_LOOKED_AT = 512
_FAILED = (
    b'"aborted', b'"execution error', b'"apply_patch verification failed', b'"patch rejected',
)  # fmt: skip
_OUTPUT = b"Output:\\n"
_CODE = re.compile(rb"(?:^\"Exit code: |exited with code )(-?\d+)")
_TICKS = re.compile(rb"```+")
_UUID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHELL_FLAGS = frozenset({"-c", "-lc", "-ic", "-Command"})
_LONGEST_TITLE = 2_000


class Given(Struct, gc=False):
    """What tools are given, of what is shown of it."""

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


class PlanStep(Struct, gc=False):
    """Something to be done."""

    step: str = ""
    status: str = ""


class Plan(Struct, gc=False):
    """All that is to be done."""

    plan: list[PlanStep] = []


class _Printed(Struct, gc=False):
    """What a command has printed, as it was written down until 2025."""

    output: Raw = NOTHING
    content: Raw = NOTHING
    metadata: "_Metadata | None" = None
    success: bool | None = None


class _Metadata(Struct, gc=False):
    exit_code: int | None = None


class _Parts(Struct, gc=False):
    content: list[Part] = []


class _Answer(Struct, gc=False):
    """What a tool of a server has brought."""

    content: list["_Block"] = []
    is_error: bool | None = msgspec.field(default=None, name="isError")


class _Block(Struct, gc=False):
    type: str = ""
    text: Raw = NOTHING
    data: Raw = NOTHING
    mime: str | None = msgspec.field(default=None, name="mimeType")


class _Outcome(Struct, gc=False):
    ok: _Answer | None = msgspec.field(default=None, name="Ok")
    err: str | None = msgspec.field(default=None, name="Err")


_decode_given = msgspec.json.Decoder(Given).decode
_read_given = Reader(Given)
_read_plan = Reader(Plan)
_read_printed = Reader(_Printed)
_read_parts = Reader(_Parts)
_read_answer = Reader(_Answer)
_read_outcome = Reader(_Outcome)


def status_of(told: str | None) -> str:
    """Return how a call stands, in the words of the protocol."""
    return _STATUSES.get(told or "", "completed")


def decoded(words: Raw) -> str:
    """Return a text that was passed on unread."""
    return str(msgspec.json.decode(words)) if is_text(words) else ""


# -- calls ------------------------------------------------------------------------------------


def given_to(item: Item) -> tuple[Given, Raw | Json | None]:
    """Return what a function was given, and what is told of that: it is a text that is JSON."""
    given = item.arguments
    words = decoded(given).encode("utf-8", "replace") if is_text(given) else bytes(given)
    if not words.strip():
        return Given(), {"input": item.input} if is_text(item.input) else None
    try:
        return _decode_given(words), Raw(words)
    except (msgspec.MsgspecError, RecursionError):
        about = _read_given(words)
    if decode_object(words) is None:
        return Given(), {"arguments": words.decode()}
    return about or Given(), Raw(words)


def call_fields(item: Item, about: Given, raw: Raw | Json | None, cwd: str | None) -> Json:
    """Return what is told of a call when it begins."""
    patch = _patch_in(item, about)
    kind = "edit" if patch else _kind(item)
    fields: Json = {
        "title": _title(item, about)[:_LONGEST_TITLE],
        "kind": kind,
        "status": "pending",
    }
    if patch:
        edits = edits_of_patch(patch, cwd)
        fields |= {"title": _edit_title(edits.locations)} | edits.fields()
    elif kind in {"read", "search"} and (path := about.path or about.file_path or about.dir_path):
        fields["locations"] = [{"path": path}]
    # What is shown as changes need not be told in words once more.
    if raw is not None and not (patch and item.name == "apply_patch"):
        fields["rawInput"] = raw
    return fields | {"_meta": {"codex": {"toolName": _whole_name(item)}}} if item.name else fields


def _patch_in(item: Item, given: Given) -> str:
    """Return the patch that a call applies: as its input, or given to a shell."""
    if item.name == "apply_patch":
        return decoded(item.input) or given.input or ""
    command = given.command or given.cmd
    if isinstance(command, list) and command[:1] == ["apply_patch"]:
        return command[1] if len(command) > 1 else ""
    script = command[-1] if isinstance(command, list) and command else command
    if isinstance(script, str) and script.lstrip().startswith("apply_patch") and BEGIN in script:
        return script[script.index(BEGIN) :]
    return ""


def _whole_name(item: Item) -> str:
    return f"{item.namespace}.{item.name}" if item.namespace else item.name


def _kind(item: Item) -> str:
    is_servers = (item.namespace or item.name).startswith("mcp__")
    return "execute" if is_servers else _KINDS.get(item.name, "other")


def _title(item: Item, given: Given) -> str:
    name, place = item.name, given.path or given.file_path or given.dir_path or ""
    command = given.command or given.cmd
    if name == "write_stdin":
        return f"Send input: {given.chars!r}" if given.chars else "Wait for the command"
    if command:
        return command_line(command)
    if (item.namespace or name).startswith("mcp__"):
        return ".".join(part for part in (item.namespace, name) if part).replace("__", ".")
    titles = {
        "view_image": f"View Image {place}",
        "read_file": f"Read file '{place}'",
        "list_dir": f"List files in '{place}'",
        "grep_files": search_title(given.pattern, place),
        "web_search": search_title(given.query, None),
        SPAWN: given.message or "Start a sub-agent",
    }
    return titles.get(name) or _whole_name(item) or "a tool"


def command_line(command: str | Sequence[str]) -> str:
    """Return a command as it would be typed, without the shell that runs it."""
    if isinstance(command, str):
        return command
    if len(command) > 2 and command[-2] in _SHELL_FLAGS:  # noqa: PLR2004 - a shell, how, and what
        return command[-1]
    return shlex.join(command)


def search_title(query: str | None, path: str | None) -> str:
    """Return what was looked for, and where."""
    what = f" for '{query}'" if query else ""
    where = f" in '{path}'" if path else ""
    return f"Search{what}{where}"


def _edit_title(locations: Sequence[Json]) -> str:
    names = dict.fromkeys(str(it["path"]).replace("\\", "/").rpartition("/")[2] for it in locations)
    return f"Edit {', '.join(names)}" if names else "Editing files"


def plan_steps(raw: Raw | Json | None) -> list[Json]:
    """Return the steps of a plan that was written anew."""
    found = (_read_plan(bytes(raw)) if isinstance(raw, Raw) else None) or Plan()
    return [step(it.step, it.status) for it in found.plan]


def searched_fields(query: str | None, action: Action | None) -> Json:
    """Return what is told of a search, or of a page that was opened."""
    kind = action.type if action is not None else ""
    url = action.url if action is not None else None
    raw: Json = {}
    if action is not None:
        raw = {
            name: value
            for name in ("type", "query", "queries", "url", "pattern")
            if (value := getattr(action, name))
        }
        query = query or action.query or ", ".join(action.queries or [])
    if kind == "open_page":
        title = f"Open {url}" if url else "Open a page"
    elif kind == "find_in_page":
        title = search_title(action.pattern if action is not None else None, url)
    else:
        title = search_title(query, None) if query else "Web search"
    told_kind = "fetch" if kind == "open_page" else "search"
    return {"title": title, "kind": told_kind, "status": "completed", "rawInput": raw}


# -- results ----------------------------------------------------------------------------------


def result_fields(name: str, output: Raw) -> Json:
    """Return what is told of a call when its result is there."""
    told = _read_printed(bytes(output)) if _begins(output, b"{") else None
    if told is None and _head(output).startswith((b'"{\\"output\\":', b'"{\\"content\\":')):
        told = _read_printed(decoded(output).encode("utf-8", "replace"))
    is_failed = False
    if told is not None:
        code = told.metadata.exit_code if told.metadata is not None else None
        is_failed = code not in {None, 0} or told.success is False
        output = told.output if is_text(told.output) else told.content
    if name in _SHELLS and is_text(output):
        output, code_told = _without_header(output)
        is_failed = is_failed or code_told not in {None, 0}
    is_failed = is_failed or _head(output).startswith(_FAILED)
    fields: Json = {"status": "failed" if is_failed else "completed"}
    if name == "apply_patch" and not is_failed:
        # What was changed is shown already; the words only say that it was.
        return fields
    if name == SPAWN and (agent := _UUID.search(bytes(output))):
        fields["_meta"] = child_meta(agent[0].decode())
    content = _shown(output, b"console" if name in _SHELLS else None)
    return fields | ({"content": content} if content else {})


def child_meta(thread_id: str) -> Json:
    """Return what leads from a call to the session of the sub-agent."""
    return {"rekindle": {"childSessionId": thread_id}}


def _begins(value: Raw, sign: bytes) -> bool:
    return memoryview(value)[:1].tobytes() == sign


def _head(value: Raw) -> bytes:
    return memoryview(value)[:64].tobytes()


def _without_header(output: Raw) -> tuple[Raw, int | None]:
    """Take away what Codex tells the model about a command before what it has printed."""
    words = memoryview(output)
    head, found, _ = words[:_LOOKED_AT].tobytes().partition(_OUTPUT)
    is_header = head.startswith((b'"Exit code: ', b'"Chunk ID: ', b'"Wall time: ', b'"Process '))
    if not found or not is_header:
        return output, None
    code = _CODE.search(head)
    printed = Raw(b'"%b' % words[len(head) + len(_OUTPUT) :])
    return printed, int(code[1][:9]) if code else None


def _shown(output: Raw, fence: bytes | None) -> list[Json]:
    if is_text(output):
        return [shown(text(_fenced(output, fence)))] if has_words(output) else []
    if not _begins(output, b"["):
        return []
    found = _read_parts(b'{"content":%b}' % bytes(output))
    return shown_parts(found.content if found is not None else [], fence)


def shown_parts(parts: Sequence[Part], fence: bytes | None = None) -> list[Json]:
    """Return parts of what was said as what a call shows."""
    told: list[Json] = []
    for part in parts:
        if is_text(part.text):
            told.append(shown(text(_fenced(part.text, fence))))
        elif (picture := picture_of(part)) is not None:
            told.append(shown(picture))
    return told


def _fenced(words: Raw, fence: bytes | None) -> Raw:
    """Put a text into a code block, unless it is said how to read it."""
    if fence is None:
        return words
    inside = memoryview(words)[1:-1]
    ticks = b"`" * (max(map(len, _TICKS.findall(inside)), default=2) + 1)
    tail = inside[-3:].tobytes()
    end = b"" if tail.endswith(b"\\n") and tail != b"\\\\n" else b"\\n"
    return Raw(b'"%b%b\\n%b%b%b"' % (ticks, fence, inside, end, ticks))


def picture_of(part: Part) -> Json | None:
    """Return a picture: itself, or where it is."""
    for url in (part.image_url, part.image_link):
        if is_text(url):
            return picture(url)
    if part.path and part.type in {"local_image", "local_audio"}:
        return link(part.path, part.path)
    return None


def link(path: str, name: str) -> Json:
    """Return a link to a file, or to what else a name was given for."""
    uri = path if "://" in path else f"file://{path}"
    return {"type": "resource_link", "uri": uri, "name": name}


def picture(url: Raw) -> Json:
    """Return a picture that is written into its own address, or a link to it."""
    words = bytes(url)
    head, _, data = words.partition(b";base64,")
    mime = head[len('"data:') :].decode("utf-8", "replace")
    if head.startswith(b'"data:image/') and data:
        return {"type": "image", "data": Raw(b'"' + data), "mimeType": mime.partition(";")[0]}
    return {"type": "resource_link", "uri": url, "name": "image"}


# -- what was shown when it happened ----------------------------------------------------------


def command_fields(item: TurnItem) -> Json:
    """Return what is told of a command that was run."""
    parsed = item.parsed_cmd[0] if len(item.parsed_cmd) == 1 else None
    kind = parsed.type if parsed is not None else ""
    path = parsed.path if parsed is not None else None
    fields: Json = {"status": status_of(item.status), "kind": "execute"}
    if item.status is None and item.exit_code not in {None, 0}:
        fields["status"] = "failed"
    if parsed is not None and kind == "read" and path:
        fields |= {"kind": "read", "title": f"Read file '{path}'", "locations": [{"path": path}]}
    elif parsed is not None and kind == "list_files":
        fields |= {"kind": "read", "title": f"List files in '{path}'" if path else "List files"}
    elif parsed is not None and kind == "search":
        fields |= {"kind": "search", "title": search_title(parsed.query, path)}
    else:
        fields["title"] = command_line(item.command)[:_LONGEST_TITLE] or "Terminal"
    printed = item.aggregated_output if is_text(item.aggregated_output) else item.stdout
    content = _shown(printed, b"console" if fields["kind"] == "execute" else b"")
    return fields | ({"content": content} if content else {})


def change_fields(told: TurnItem | Event, cwd: str | None) -> Json:
    """Return what is told of files that were changed."""
    edits = edits_of_changes(told.changes, cwd)
    is_failed = status_of(told.status) == "failed"
    if isinstance(told, Event) and told.success is False:
        is_failed = True
    fields: Json = {"status": "failed" if is_failed else "completed", "kind": "edit"}
    fields |= {"title": _edit_title(edits.locations)} | edits.fields()
    if isinstance(told, Event) and is_failed:
        fields["content"] = [*edits.content, *_shown(told.stderr, b"console")]
    return fields


def server_fields(called: Invocation, result: Raw, status: str | None, error: str | None) -> Json:
    """Return what is told of a call of a server's tool."""
    title = f"mcp.{called.server}.{called.tool}"
    fields: Json = {"title": title, "kind": "execute", "status": status_of(status)}
    if bytes(called.arguments):
        fields["rawInput"] = called
    outcome = _read_outcome(bytes(result)) if _begins(result, b"{") else None
    answer = outcome.ok if outcome is not None and outcome.ok is not None else None
    if answer is None and _begins(result, b"{"):
        answer = _read_answer(bytes(result))
    error = error or (outcome.err if outcome is not None else None)
    if error or (answer is not None and answer.is_error):
        fields["status"] = "failed"
    content = [shown(_block(it)) for it in answer.content] if answer is not None else []
    content += [shown(text(error))] if error else []
    return fields | ({"content": content} if content else {})


def _block(block: _Block) -> Json:
    if block.type == "text" and is_text(block.text):
        return text(block.text)
    if block.type in {"image", "audio"} and is_text(block.data):
        return {"type": block.type, "data": block.data, "mimeType": block.mime or "image/png"}
    return text(f"[{block.type or 'something'}]")
