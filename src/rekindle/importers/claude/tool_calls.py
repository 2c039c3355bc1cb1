"""Convert Claude Code's tools to the protocol's tool calls: titles, kinds, diffs, results, plans.

The output follows claude-agent-acp, Claude Code's own agent for this protocol, so that an imported
session looks like a recorded one. Long texts are copied without being decoded.
"""

import re
from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from rekindle.importers.claude.records import ClaudeBlock
from rekindle.importers.entry_builder import (
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
    string_or_empty,
)
from rekindle.jsonvalue import Json

PLAN_TOOLS = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet"})
"""Tools that keep a to-do list. They are converted to plans, not to tool calls."""

_KINDS = {
    "Agent": "think", "Task": "think",
    "Bash": "execute", "BashOutput": "execute", "KillShell": "execute", "PowerShell": "execute",
    "Read": "read", "NotebookRead": "read", "LS": "search",
    "Edit": "edit", "MultiEdit": "edit", "Write": "edit", "NotebookEdit": "edit",
    "Glob": "search", "Grep": "search",
    "WebFetch": "fetch", "WebSearch": "fetch", "web_search": "fetch", "web_fetch": "fetch",
    "EnterPlanMode": "switch_mode", "ExitPlanMode": "switch_mode",
}  # fmt: skip
_EDIT_TOOLS = frozenset({"Edit", "MultiEdit", "Write"})
STRUCTURED_TOOLS = _EDIT_TOOLS | {"Agent", "Task"}
"""Tools whose structured result shows more than the text that the model received."""
_SEARCHED_BYTES = 300
_FENCES = {"Read": b"", "Bash": b"console", "PowerShell": b"console"}
_LINE_NUMBER_ENDS = (b'\\t"', '→"'.encode())
# After the final newline of a file there is no line, but Claude Code adds a number for one.
_NUMBER_WITHOUT_LINE = re.compile(rb'\\n *\d+(?:\\t|\xe2\x86\x92)"\Z')
_MAX_NUMBER_BYTES = 30
_BACKTICKS = re.compile(rb"`{3,}")
_REMINDER = re.compile(r"\n*<system-reminder>.*?</system-reminder>\s*", re.DOTALL)

FetchOutput = Callable[[str], str | None]
"""Returns the whole output, given the text that names its file; None if the file is gone."""


class ClaudeToolInput(Struct, frozen=True, gc=False):
    """The displayed fields of the input of any tool."""

    file_path: str | None = None
    notebook_path: str | None = None
    path: str | None = None
    command: str | None = None
    description: str | None = None
    prompt: Raw = MISSING
    pattern: str | None = None
    url: str | None = None
    query: str | None = None
    skill: str | None = None
    plan: Raw = MISSING
    limit: int | None = None
    offset: int | None = None
    content: Raw = MISSING
    old_string: Raw = MISSING
    new_string: Raw = MISSING
    edits: list["ClaudeEdit"] = []


class ClaudeEdit(Struct, frozen=True, gc=False):
    """One replacement in a file."""

    old_string: Raw = MISSING
    new_string: Raw = MISSING


class ClaudeHunk(Struct, frozen=True, rename="camel", gc=False):
    """A changed section of a file, as the lines of a patch."""

    new_start: int = 0
    lines: list[str] = []


class ClaudeToolResult(Struct, frozen=True, rename="camel", gc=False):
    """The structured result of a tool, which the model does not receive."""

    file_path: str | None = None
    structured_patch: list[ClaudeHunk] = []
    status: str | None = None
    agent_id: str | None = None
    content: Raw = MISSING
    persisted_output_path: str | None = None


class ClaudeTodo(Struct, frozen=True, rename="camel", gc=False):
    """An item of a to-do list."""

    content: str = ""
    status: str = ""
    active_form: str | None = None


class ClaudeTodoInput(Struct, frozen=True, gc=False):
    """The input of TodoWrite."""

    todos: list[ClaudeTodo] = []


class _ResultContent(Struct, frozen=True, gc=False):
    content: list[ClaudeBlock] = []


_read_input = LenientReader(ClaudeToolInput)
read_tool_result = LenientReader(ClaudeToolResult)
_read_todos = LenientReader(ClaudeTodoInput)
_read_content = LenientReader(_ResultContent)


# -- calls ------------------------------------------------------------------------------------


def call_fields(block: ClaudeBlock, cwd: str | None) -> Json:
    """Return the fields of a new tool call."""
    given = _read_input(bytes(block.input)) or ClaudeToolInput()
    path = given.file_path or given.notebook_path
    fields: Json = {
        "title": _title(block.name, given, cwd),
        "kind": _KINDS.get(block.name, "other"),
        "status": "pending",
    }
    fields = with_content(fields, _input_content(block.name, given))
    if path:
        line = {"line": max(given.offset or 1, 1)} if block.name == "Read" else {}
        fields["locations"] = [{"path": path, **line}]
    if bytes(block.input):
        fields["rawInput"] = block.input
    return fields | {"_meta": {"claudeCode": {"toolName": block.name}}}


def _title(name: str, given: ClaudeToolInput, cwd: str | None) -> str:
    path = given.file_path or given.notebook_path
    shown_path = _relative(path, cwd) if path else ""
    if name in _TITLES:
        return _TITLES[name](given, shown_path)
    return f"{name} {shown_path}" if shown_path and name in _KINDS else name or "a tool"


def _glob_title(given: ClaudeToolInput, _: str) -> str:
    return " ".join(["Find", *(f"`{part}`" for part in (given.path, given.pattern) if part)])


def _grep_title(given: ClaudeToolInput, _: str) -> str:
    quoted = f'"{given.pattern}"' if given.pattern else None
    return " ".join(filter(None, ("grep", quoted, given.path)))


def _search_title(given: ClaudeToolInput, _: str) -> str:
    return f'Search "{given.query}"' if given.query else "Web search"


_TITLES: dict[str, Callable[[ClaudeToolInput, str], str]] = {
    "Agent": lambda given, _: given.description or "Task",
    "Task": lambda given, _: given.description or "Task",
    "Bash": lambda given, _: given.command or "Terminal",
    "PowerShell": lambda given, _: given.command or "Terminal",
    "Read": lambda given, path: f"Read {path or 'File'}{_line_range(given)}",
    "Glob": _glob_title,
    "Grep": _grep_title,
    "WebFetch": lambda given, _: f"Fetch {given.url}" if given.url else "Fetch",
    "WebSearch": _search_title,
    "web_search": _search_title,
    "Skill": lambda given, _: f"Load skill: {given.skill}" if given.skill else "Load skill",
    "ExitPlanMode": lambda _, __: "Approve Plan",
}


def _line_range(given: ClaudeToolInput) -> str:
    first = given.offset or 1
    if given.limit and given.limit > 0:
        return f" ({first} - {first + given.limit - 1})"
    return f" (from line {given.offset})" if given.offset else ""


def _relative(path: str, cwd: str | None) -> str:
    """Return a path relative to the project's folder, if it is inside."""
    return path.removeprefix(f"{cwd}/") if cwd else path


def _input_content(name: str, given: ClaudeToolInput) -> list[Json]:
    """Return the content that shows the input of a call."""
    path = given.file_path
    if path and name == "Write" and is_json_string(given.content):
        return [diff_content(path, None, given.content)]
    if path and name in {"Edit", "MultiEdit"}:
        edits = given.edits or [ClaudeEdit(given.old_string, given.new_string)]
        return [
            diff_content(path, _string_or_none(edit.old_string), string_or_empty(edit.new_string))
            for edit in edits
            if is_json_string(edit.old_string) or is_json_string(edit.new_string)
        ]
    if name in {"Agent", "Task", "WebFetch"} and is_json_string(given.prompt):
        return [tool_content(text_block(given.prompt))]
    if name == "ExitPlanMode" and is_json_string(given.plan):
        return [tool_content(text_block(given.plan))]
    if name == "Bash" and given.description:
        return [tool_content(text_block(given.description))]
    return []


def _string_or_none(value: Raw) -> Raw | None:
    return value if is_json_string(value) else None


# -- results ----------------------------------------------------------------------------------


def plain_result(
    name: str, content: bytes, fetch_output: FetchOutput, *, is_error: bool
) -> Raw | None:
    """Return a result that consists of one text, as JSON; None if it needs `result_fields`."""
    is_structured = name in STRUCTURED_TOOLS and not is_error
    if not content.startswith(b'"') or content == b'""' or is_structured:
        return None
    if name == "Read" and content.endswith(_LINE_NUMBER_ENDS):
        end = _NUMBER_WITHOUT_LINE.sub(b'"', content[-_MAX_NUMBER_BYTES:])
        content = content[:-_MAX_NUMBER_BYTES] + end
    return _fenced(_visible_text(content, fetch_output), b"" if is_error else _FENCES.get(name))


def result_fields(
    name: str,
    content: bytes,
    result: ClaudeToolResult,
    fetch_output: FetchOutput,
    *,
    is_error: bool,
) -> Json:
    """Return the fields that complete a tool call. `content` is JSON."""
    fields: Json = {"status": "failed" if is_error else "completed"}
    if name in _EDIT_TOOLS and not is_error:
        # The diff is shown already, and the text only confirms it.
        return fields | _edit_fields(result)
    if name in {"Agent", "Task"} and result.status == "completed":
        report = bytes(result.content)
        content = report if report.startswith(b"[") else content
    fence = b"" if is_error else _FENCES.get(name)
    return with_content(fields, _result_content(content, fence, fetch_output))


def _edit_fields(result: ClaudeToolResult) -> Json:
    """Return the diff as it was applied, with its context lines."""
    path = result.file_path
    hunks = [hunk for hunk in result.structured_patch if hunk.lines]
    if not path or not hunks:
        return {}
    return {
        "content": [diff_content(path, *_old_and_new(hunk)) for hunk in hunks],
        "locations": [{"path": path, "line": max(hunk.new_start, 1)} for hunk in hunks],
    }


def _old_and_new(hunk: ClaudeHunk) -> tuple[str, str]:
    old = [line[1:] for line in hunk.lines if line[:1] in {" ", "-"}]
    new = [line[1:] for line in hunk.lines if line[:1] in {" ", "+"}]
    return "\n".join(old), "\n".join(new)


def _result_content(content: bytes, fence: bytes | None, fetch_output: FetchOutput) -> list[Json]:
    if content.startswith(b'"'):
        content = _visible_text(content, fetch_output)
        return [tool_content(text_block(_fenced(content, fence)))] if content != b'""' else []
    blocks = _read_blocks(content)
    return [tool_content(_result_block(block, fence, fetch_output)) for block in blocks]


def result_text(content: bytes) -> str:
    """Return the text of a result, given its JSON."""
    if content.startswith(b'"'):
        return str(msgspec.json.decode(content))
    texts = [block.text for block in _read_blocks(content) if is_json_string(block.text)]
    return "\n".join(map(decode_string, texts))


def _read_blocks(content: bytes) -> list[ClaudeBlock]:
    found = _read_content(b'{"content":%b}' % content) if content.startswith(b"[") else None
    return found.content if found is not None else []


def is_persisted(content: bytes) -> bool:
    """Return whether the whole result is in a file of its own, which its first bytes name."""
    return b"persisted-output" in content[:_SEARCHED_BYTES]


def _visible_text(content: bytes, fetch_output: FetchOutput) -> bytes:
    """Return the text of a result without reminders; from its own file, if it is in one."""
    # Only the ends are searched: a search of every result would take most of the time.
    if not is_persisted(content) and b"</system-reminder>" not in content[-_SEARCHED_BYTES:]:
        return content
    text = str(msgspec.json.decode(content))
    whole = fetch_output(text) if is_persisted(content) else None
    return msgspec.json.encode(whole or _REMINDER.sub("", text))


def _fenced(text: bytes, fence: bytes | None) -> Raw:
    """Put a JSON string into a code block. `fence` is its language; None means no code block."""
    if fence is None:
        return Raw(text)
    # The search for a single character is much faster than the regular expression.
    longest = max(map(len, _BACKTICKS.findall(text)), default=2) if b"`" in text else 2
    ticks = b"`" * (longest + 1)
    inside = text[1:-1]
    end = b"" if _ends_with_newline(inside) else b"\\n"
    return Raw(b'"%b%b\\n%b%b%b"' % (ticks, fence, inside, end, ticks))


def _ends_with_newline(inside: bytes) -> bool:
    """Return whether JSON text ends with an escaped newline, not with a backslash and an n."""
    if not inside.endswith(b"\\n"):
        return False
    before = inside[:-1]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1


def _result_block(block: ClaudeBlock, fence: bytes | None, fetch_output: FetchOutput) -> Json:
    if block.type == "text" and is_json_string(block.text):
        return text_block(_fenced(_visible_text(bytes(block.text), fetch_output), fence))
    return media_block(block)


def media_block(block: ClaudeBlock) -> Json:
    """Return a block that is not text: an image, or a text that names the block."""
    source = block.source
    if block.type == "image" and source is not None and is_json_string(source.data):
        return {"type": "image", "data": source.data, "mimeType": source.media_type or "image/png"}
    if block.type == "web_search_result":
        return text_block(f"{block.title or ''} ({block.url or ''})")
    about = block.title or block.name or (source.url or source.media_type if source else "")
    return text_block(f"[{block.type or 'something'}{f': {about}' if about else ''}]")


# -- plans ------------------------------------------------------------------------------------


def todo_entries(given: Raw) -> list[Json]:
    """Return the entries of the plan that a TodoWrite call writes."""
    found = _read_todos(bytes(given)) or ClaudeTodoInput()
    return [
        plan_entry(_label(todo.status, todo.content, todo.active_form), todo.status)
        for todo in found.todos
    ]


class ClaudeTask(Struct, frozen=True, rename="camel", gc=False):
    """An item of a list that is changed item by item."""

    task_id: str | None = None
    subject: str | None = None
    status: str | None = None
    active_form: str | None = None


_read_task = LenientReader(ClaudeTask)
_CREATED_ID = re.compile(r'#(\S+) created|"id"\s*:\s*"([^"]+)"')
_MAX_TASKS = 1_000


class ClaudeTaskList:
    """The list that TaskCreate and TaskUpdate change."""

    def __init__(self) -> None:
        self._tasks: dict[str, ClaudeTask] = {}

    def apply(self, name: str, given: bytes, result: str) -> list[Json] | None:
        """Apply a completed call; return the plan's entries, or None if it changes nothing."""
        task = _read_task(given)
        if task is None or name not in {"TaskCreate", "TaskUpdate"}:
            return None
        if name == "TaskCreate":
            created = _CREATED_ID.search(result)
            task_id = (created[1] or created[2]) if created else str(len(self._tasks) + 1)
            self._tasks[task_id] = task
        elif task.status == "deleted":
            self._tasks.pop(task.task_id or "", None)
        elif task.task_id is not None and (known := self._tasks.get(task.task_id)) is not None:
            self._tasks[task.task_id] = replace(
                known,
                subject=task.subject or known.subject,
                status=task.status or known.status,
                active_form=task.active_form or known.active_form,
            )
        if len(self._tasks) > _MAX_TASKS:
            del self._tasks[next(iter(self._tasks))]
        return [
            plan_entry(_label(item.status, item.subject or "", item.active_form), item.status or "")
            for item in self._tasks.values()
        ]


def _label(status: str | None, content: str, active_form: str | None) -> str:
    return active_form if status == "in_progress" and active_form else content
