"""Claude Code's tools, as a client is shown them: titles, kinds, changes of files, results.

As its own agent for this protocol, claude-agent-acp, tells them, so that an imported session looks
like one that was recorded. Long texts are put where they belong without being read.
"""

import re
from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from rekindle.importers.claude.records import NOTHING, Block
from rekindle.importers.entry_builder import Json, change, shown, step, text
from rekindle.importers.lenient_reader import Reader, is_text

PLANS = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet"})
"""Tools that keep a list of what is to be done: they are told as a plan, and not as calls."""

_KINDS = {
    "Agent": "think", "Task": "think",
    "Bash": "execute", "BashOutput": "execute", "KillShell": "execute", "PowerShell": "execute",
    "Read": "read", "NotebookRead": "read", "LS": "search",
    "Edit": "edit", "MultiEdit": "edit", "Write": "edit", "NotebookEdit": "edit",
    "Glob": "search", "Grep": "search",
    "WebFetch": "fetch", "WebSearch": "fetch", "web_search": "fetch", "web_fetch": "fetch",
    "EnterPlanMode": "switch_mode", "ExitPlanMode": "switch_mode",
}  # fmt: skip
_CHANGES = frozenset({"Edit", "MultiEdit", "Write"})
WITH_OUTCOMES = _CHANGES | {"Agent", "Task"}
"""Tools of which more is shown than what the model was told."""
_LOOKED_AT = 300
_FENCED = {"Read": b"", "Bash": b"console", "PowerShell": b"console"}
_AFTER_LAST_LINE = (b'\\t"', '→"'.encode())
# A file that ends with a newline has no line after it, but such a number is put there.
_NUMBER_OF_NO_LINE = re.compile(rb'\\n *\d+(?:\\t|\xe2\x86\x92)"\Z')
_LONGEST_NUMBER = 30
_BACKTICKS = re.compile(rb"`{3,}")
_REMINDER = re.compile(r"\n*<system-reminder>.*?</system-reminder>\s*", re.DOTALL)


class Input(Struct, gc=False):
    """What tools are given, of what is shown of it."""

    file_path: str | None = None
    notebook_path: str | None = None
    path: str | None = None
    command: str | None = None
    description: str | None = None
    prompt: Raw = NOTHING
    pattern: str | None = None
    url: str | None = None
    query: str | None = None
    skill: str | None = None
    plan: Raw = NOTHING
    limit: int | None = None
    offset: int | None = None
    content: Raw = NOTHING
    old_string: Raw = NOTHING
    new_string: Raw = NOTHING
    edits: list["Edit"] = []


class Edit(Struct, gc=False):
    """One change of several."""

    old_string: Raw = NOTHING
    new_string: Raw = NOTHING


class Hunk(Struct, rename="camel", gc=False):
    """A part of a file that was changed, line by line."""

    new_start: int = 0
    lines: list[str] = []


class Outcome(Struct, rename="camel", gc=False):
    """What a tool has brought, besides what the model was told."""

    file_path: str | None = None
    structured_patch: list[Hunk] = []
    status: str | None = None
    agent_id: str | None = None
    content: Raw = NOTHING
    persisted_output_path: str | None = None


class Todo(Struct, rename="camel", gc=False):
    """Something to be done."""

    content: str = ""
    status: str = ""
    active_form: str | None = None


class Todos(Struct, gc=False):
    """All that is to be done."""

    todos: list[Todo] = []


read_input = Reader(Input)
read_outcome = Reader(Outcome)
_read_todos = Reader(Todos)


class _Content(Struct, gc=False):
    """What a result is made of."""

    content: list[Block] = []


_read_content = Reader(_Content)


def call_fields(block: Block, cwd: str | None) -> Json:
    """Return what is told of a call when it begins."""
    given = read_input(bytes(block.input)) or Input()
    path = given.file_path or given.notebook_path
    fields: Json = {
        "title": _title(block.name, given, cwd),
        "kind": _KINDS.get(block.name, "other"),
        "status": "pending",
    }
    content = _shown_of_input(block.name, given)
    if content:
        fields["content"] = content
    if path:
        line = {"line": max(given.offset or 1, 1)} if block.name == "Read" else {}
        fields["locations"] = [{"path": path, **line}]
    if bytes(block.input):
        fields["rawInput"] = block.input
    return fields | {"_meta": {"claudeCode": {"toolName": block.name}}}


def _title(name: str, given: Input, cwd: str | None) -> str:
    path = given.file_path or given.notebook_path
    place = _relative(path, cwd) if path else ""
    if name in _TITLES:
        return _TITLES[name](given, place)
    return f"{name} {place}" if place and name in _KINDS else name or "a tool"


def _find(given: Input, _: str) -> str:
    return " ".join(["Find", *(f"`{it}`" for it in (given.path, given.pattern) if it)])


def _grep(given: Input, _: str) -> str:
    quoted = f'"{given.pattern}"' if given.pattern else None
    return " ".join(filter(None, ("grep", quoted, given.path)))


def _search(given: Input, _: str) -> str:
    return f'Search "{given.query}"' if given.query else "Web search"


_TITLES: dict[str, Callable[[Input, str], str]] = {
    "Agent": lambda given, _: given.description or "Task",
    "Task": lambda given, _: given.description or "Task",
    "Bash": lambda given, _: given.command or "Terminal",
    "PowerShell": lambda given, _: given.command or "Terminal",
    "Read": lambda given, place: f"Read {place or 'File'}{_span(given)}",
    "Glob": _find,
    "Grep": _grep,
    "WebFetch": lambda given, _: f"Fetch {given.url}" if given.url else "Fetch",
    "WebSearch": _search,
    "web_search": _search,
    "Skill": lambda given, _: f"Load skill: {given.skill}" if given.skill else "Load skill",
    "ExitPlanMode": lambda _, __: "Approve Plan",
}


def _span(given: Input) -> str:
    first = given.offset or 1
    if given.limit and given.limit > 0:
        return f" ({first} - {first + given.limit - 1})"
    return f" (from line {given.offset})" if given.offset else ""


def _relative(path: str, cwd: str | None) -> str:
    """Name a file as seen from the project's folder, if it is in there."""
    return path.removeprefix(f"{cwd}/") if cwd else path


def _shown_of_input(name: str, given: Input) -> list[Json]:
    path = given.file_path
    if path and name == "Write" and is_text(given.content):
        return [change(path, None, given.content)]
    if path and name in {"Edit", "MultiEdit"}:
        edits = given.edits or [Edit(given.old_string, given.new_string)]
        made = [it for it in edits if is_text(it.old_string) or is_text(it.new_string)]
        return [change(path, _or_none(it.old_string), _or_empty(it.new_string)) for it in made]
    if name in {"Agent", "Task", "WebFetch"} and is_text(given.prompt):
        return [shown(text(given.prompt))]
    if name == "ExitPlanMode" and is_text(given.plan):
        return [shown(text(given.plan))]
    return [shown(text(given.description))] if name == "Bash" and given.description else []


def _or_none(value: Raw) -> Raw | None:
    return value if is_text(value) else None


def _or_empty(value: Raw) -> Raw:
    return value if is_text(value) else Raw(b'""')


# -- results --------------------------------------------------------------------------------


def printed(
    name: str, words: bytes, externalised: Callable[[str], str | None], *, is_error: bool
) -> Raw | None:
    """Return the text of a result that is nothing else, as JSON; None if there is more to it."""
    if not words.startswith(b'"') or words == b'""' or (name in WITH_OUTCOMES and not is_error):
        return None
    if name == "Read" and words.endswith(_AFTER_LAST_LINE):
        words = words[:-_LONGEST_NUMBER] + _NUMBER_OF_NO_LINE.sub(b'"', words[-_LONGEST_NUMBER:])
    return _fenced(_told(words, externalised), b"" if is_error else _FENCED.get(name))


def result_fields(
    name: str,
    words: bytes,
    outcome: Outcome,
    externalised: Callable[[str], str | None],
    *,
    is_error: bool,
) -> Json:
    """Return what is told of a call when its result is there; `words` is JSON."""
    fields: Json = {"status": "failed" if is_error else "completed"}
    if name in _CHANGES and not is_error:
        # What was changed is shown already; the words only say that it was.
        return fields | _changed(outcome)
    if name in {"Agent", "Task"} and outcome.status == "completed":
        report = bytes(outcome.content)
        words = report if report.startswith(b"[") else words
    fence = b"" if is_error else _FENCED.get(name)
    content = _shown_of_result(words, fence, externalised)
    if content:
        fields["content"] = content
    return fields


def _changed(outcome: Outcome) -> Json:
    """Return the change as it was made, with the lines around it."""
    path = outcome.file_path
    hunks = [it for it in outcome.structured_patch if it.lines]
    if not path or not hunks:
        return {}
    return {
        "content": [change(path, *_sides(hunk)) for hunk in hunks],
        "locations": [{"path": path, "line": max(hunk.new_start, 1)} for hunk in hunks],
    }


def _sides(hunk: Hunk) -> tuple[str, str]:
    old = [line[1:] for line in hunk.lines if line[:1] in {" ", "-"}]
    new = [line[1:] for line in hunk.lines if line[:1] in {" ", "+"}]
    return "\n".join(old), "\n".join(new)


def _shown_of_result(
    words: bytes, fence: bytes | None, externalised: Callable[[str], str | None]
) -> list[Json]:
    if words.startswith(b'"'):
        words = _told(words, externalised)
        return [shown(text(_fenced(words, fence)))] if words != b'""' else []
    return [shown(_result_block(it, fence, externalised)) for it in _blocks_of(words)]


def words_of(words: bytes) -> str:
    """Return what a result says, as text; it is JSON."""
    if words.startswith(b'"'):
        return str(msgspec.json.decode(words))
    texts = [it.text for it in _blocks_of(words) if is_text(it.text)]
    return "\n".join(str(msgspec.json.decode(it)) for it in texts)


def _blocks_of(words: bytes) -> list[Block]:
    found = _read_content(b'{"content":%b}' % words) if words.startswith(b"[") else None
    return found.content if found is not None else []


def is_persisted(words: bytes) -> bool:
    """Tell whether a result is in a file of its own: then that stands at its beginning."""
    return b"persisted-output" in words[:_LOOKED_AT]


def _told(words: bytes, externalised: Callable[[str], str | None]) -> bytes:
    """Return a text as people may see it; most are not even read for that."""
    # To look through all of them would take longer than all else.
    if not is_persisted(words) and b"</system-reminder>" not in words[-_LOOKED_AT:]:
        return words
    said = str(msgspec.json.decode(words))
    whole = externalised(said) if is_persisted(words) else None
    return msgspec.json.encode(whole or _REMINDER.sub("", said))


def _fenced(words: bytes, fence: bytes | None) -> Raw:
    """Put a text into a code block, unless it is said how to read it."""
    if fence is None:
        return Raw(words)
    # Single characters are found at once.
    longest = max(map(len, _BACKTICKS.findall(words)), default=2) if b"`" in words else 2
    ticks = b"`" * (longest + 1)
    inside = words[1:-1]
    end = b"" if _ends_with_newline(inside) else b"\\n"
    return Raw(b'"%b%b\\n%b%b%b"' % (ticks, fence, inside, end, ticks))


def _ends_with_newline(inside: bytes) -> bool:
    """Tell whether a text ends with an escaped newline, and not with a backslash and an n."""
    if not inside.endswith(b"\\n"):
        return False
    before = inside[:-1]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1


def _result_block(
    block: Block, fence: bytes | None, externalised: Callable[[str], str | None]
) -> Json:
    if block.type == "text" and is_text(block.text):
        return text(_fenced(_told(bytes(block.text), externalised), fence))
    return content_block(block)


def content_block(block: Block) -> Json:
    """Return a part of what was said that is no text: a picture, or words in its place."""
    source = block.source
    if block.type == "image" and source is not None and is_text(source.data):
        return {"type": "image", "data": source.data, "mimeType": source.media_type or "image/png"}
    if block.type == "web_search_result":
        return text(f"{block.title or ''} ({block.url or ''})")
    about = block.title or block.name or (source.url or source.media_type if source else "")
    return text(f"[{block.type or 'something'}{f': {about}' if about else ''}]")


# -- plans ----------------------------------------------------------------------------------


def todo_steps(given: Raw) -> list[Json]:
    """Return the steps of a list that was written anew."""
    found = _read_todos(bytes(given)) or Todos()
    return [step(_wording(it.status, it.content, it.active_form), it.status) for it in found.todos]


class Task(Struct, rename="camel", gc=False):
    """One thing of a list that is changed piece by piece."""

    task_id: str | None = None
    subject: str | None = None
    status: str | None = None
    active_form: str | None = None


_read_task = Reader(Task)
_CREATED = re.compile(r'#(\S+) created|"id"\s*:\s*"([^"]+)"')
_MOST_TASKS = 1_000


class Tasks:
    """The list that TaskCreate and TaskUpdate change."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def take(self, name: str, given: bytes, result: str) -> list[Json] | None:
        """Take in what became of a call; return the steps, if that changes them."""
        task = _read_task(given)
        if task is None or name not in {"TaskCreate", "TaskUpdate"}:
            return None
        if name == "TaskCreate":
            made = _CREATED.search(result)
            task_id = (made[1] or made[2]) if made else str(len(self._tasks) + 1)
            self._tasks[task_id] = task
        elif task.status == "deleted":
            self._tasks.pop(task.task_id or "", None)
        elif (known := self._tasks.get(task.task_id or "")) is not None:
            for field in ("subject", "status", "active_form"):
                setattr(known, field, getattr(task, field) or getattr(known, field))
        if len(self._tasks) > _MOST_TASKS:
            del self._tasks[next(iter(self._tasks))]
        return [
            step(_wording(it.status, it.subject or "", it.active_form), it.status or "")
            for it in self._tasks.values()
        ]


def _wording(status: str | None, content: str, active: str | None) -> str:
    return active if status == "in_progress" and active else content
