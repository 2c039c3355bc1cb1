"""The replies of the fake model: a tool call, or a report of the messages that it was shown.

Prompts name tasks as `[task alpha]`. The report has the number of earlier messages of the user,
the tasks in them, and the word of a note that a tool has read. So tests read from the report
whether an agent remembers, and do not depend on its claims. A task may also require a thought and
a change of the note. The answer to a task ends with a mark, so that the answers of earlier turns
can be counted in later requests.
"""

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct, structs

from interop.model.dialect import ModelMessage, ModelRequest, Reply, TextReply, Tool, ToolReply
from rekindle.jsonvalue import as_array, as_object, as_str

Json = dict[str, Any]
Values = dict[tuple[str, ...], str]
"""Arguments of a tool call, by the names that different tools use for them."""

_TASK = re.compile(r"\[task (\w+)\]")
_WORD = re.compile(r"the word of the note is (\w+)", re.IGNORECASE)
_SLOW = "Take your time, please."
_PAUSE = "Pause in the middle, please."
_FILE = re.compile(r"read the file (\S+?\.txt)")
_CHANGE = re.compile(r"put (\w+) in the place of (\w+) in the file (\S+?\.txt)")
_THINKING = "Think it over."
THOUGHT = "**A note**\n\nOne word of it matters."
_REPORT = re.compile(
    r"I was shown (\d+) earlier user messages?, know of the tasks \(([\w, ]*)\), "
    r"and (?:the word of the note is (\w+)|have seen no note)"
)
_TITLE = "Reading a note"
NO_TOOL = "No tool that I know of does that"
"""The beginning of the answer to a task for which the agent has no known tool."""

# Tools that read a file, best first. Shells come last, because agents ask before using them.
_READING = (
    "read", "Read", "read_file", "read_files", "read_text_file",
    "exec_command", "shell_command", "shell", "execute", "bash", "Bash",
)  # fmt: skip
_CHANGING = ("edit", "Edit", "replace", "exec_command", "shell_command", "shell")
_PATHS = ("path", "filePath", "file_path", "absolute_path")
_FILES = ("files",)
_COMMANDS = ("command", "cmd")
_OLD, _NEW = ("oldString", "old_string"), ("newString", "new_string")
_PATCH = """\
apply_patch <<'EOF'
*** Begin Patch
*** Update File: {path}
@@
-{old}
+{new}
*** End Patch
EOF
"""


class Report(Struct, frozen=True, kw_only=True):
    """The model's report of the messages that it was shown."""

    earlier: int
    """The number of messages of the user with a task, before the last one."""
    tasks: tuple[str, ...]
    """The other tasks in messages of the user."""
    word: str | None
    """The word of the note, if the model was shown it."""


def note(word: str) -> str:
    """Return the text of a note that the model recognises."""
    return f"The word of the note is {word}.\n"


def task(name: str, reading: str | None = None) -> str:
    """Return a prompt with a task, optionally to read a file first."""
    return f"{prompt_mark(name)} " + (
        f"Please read the file {reading}" if reading else "Go on, please."
    )


def change_task(name: str, path: str, old: str, new: str) -> str:
    """Return a prompt to change a word of a note, after a thought."""
    return (
        f"{prompt_mark(name)} {_THINKING} Then put {new} in the place of {old} in the file {path}"
    )


def slow_task(name: str) -> str:
    """Return a prompt whose answer starts but never ends."""
    return f"{prompt_mark(name)} {_SLOW}"


def pausing_task(name: str) -> str:
    """Return a prompt whose answer is complete some seconds after its first half."""
    return f"{prompt_mark(name)} {_PAUSE}"


def tasks_in(text: str) -> list[str]:
    """Return the tasks that a text of the user names."""
    return _TASK.findall(text)


def prompt_mark(name: str) -> str:
    """Return the part of a prompt that names its task."""
    return f"[task {name}]"


def answer_mark(name: str) -> str:
    """Return the part of an answer that names its task."""
    return f"[answer {name}]"


def current_task(shown: ModelRequest) -> str | None:
    """Return the task that a request asks for; None for titles and summaries."""
    turn = _last_turn(shown.messages)
    if turn is None or not shown.tools:
        return None
    *_, last = _TASK.finditer(shown.messages[turn].text)
    return last[1]


def reply_to(shown: ModelRequest) -> Reply:
    """Return a tool call if the last task needs one that is still missing, otherwise a report."""
    turn = _last_turn(shown.messages)
    if turn is None or not shown.tools:
        # Requests for titles and summaries have no tools.
        return TextReply(_TITLE)
    *_, last = _TASK.finditer(shown.messages[turn].text)
    asked = shown.messages[turn].text[last.start() :]
    has_called = any(item.role == "tool" for item in shown.messages[turn:])
    call = None if has_called else _call(asked, shown.tools)
    report = _report(shown.messages, turn, last[1])
    reply = call or TextReply(report, hangs=_SLOW in asked, pauses=_PAUSE in asked)
    return structs.replace(reply, thought=THOUGHT) if _THINKING in asked else reply


def read_report(text: str) -> Report | None:
    """Return the last report in a text of the agent, if any."""
    reports = list(_REPORT.finditer(text))
    if not reports:
        return None
    found = reports[-1]
    tasks = tuple(name for name in found[2].split(", ") if name)
    return Report(earlier=int(found[1]), tasks=tasks, word=found[3])


def _last_turn(messages: tuple[ModelMessage, ...]) -> int | None:
    """Return the index of the last message with a task. Agents add messages of their own."""
    turns = [index for index, message in enumerate(messages) if _is_task(message)]
    return turns[-1] if turns else None


def _is_task(message: ModelMessage) -> bool:
    return message.role == "user" and _TASK.search(message.text) is not None


def _report(messages: tuple[ModelMessage, ...], turn: int, current: str) -> str:
    by_user = [message.text for message in messages[: turn + 1] if _is_task(message)]
    known = dict.fromkeys(found[1] for text in by_user for found in _TASK.finditer(text))
    known.pop(current, None)
    words = (found[1] for message in messages for found in _WORD.finditer(message.text))
    word = next(words, None)
    noun = "message" if len(by_user) == 2 else "messages"  # noqa: PLR2004 - with this one
    of_note = f"the word of the note is {word}" if word else "have seen no note"
    return (
        f"I was shown {len(by_user) - 1} earlier user {noun}, "
        f"know of the tasks ({', '.join(known)}), and {of_note}. {answer_mark(current)}"
    )


def _call(asked: str, tools: Iterable[Tool]) -> Reply | None:
    """Return the tool call that a task needs, if any."""
    if found := _FILE.search(asked):
        path = found[1]
        values: Values = {_PATHS: path, _FILES: path, _COMMANDS: f"cat {path}"}
        return _tool_reply(tools, _READING, values)
    if found := _CHANGE.search(asked):
        new, old, path = found.groups()
        patch = _PATCH.format(path=path, old=note(old).strip(), new=note(new).strip())
        return _tool_reply(tools, _CHANGING, {_PATHS: path, _COMMANDS: patch, _OLD: old, _NEW: new})
    return None


def _tool_reply(tools: Iterable[Tool], best_first: Iterable[str], values: Values) -> Reply:
    offered = {tool.name: tool for tool in tools}
    tool = next((offered[name] for name in best_first if name in offered), None)
    if tool is None:
        return TextReply(f"{NO_TOOL}: there are {', '.join(offered)}.")
    return ToolReply(tool.name, _arguments(tool.schema, values))


def _arguments(schema: Json, values: Values) -> Json:
    """Return the required arguments of a tool, and those with known names."""
    known = {name: value for names, value in values.items() for name in names}
    properties = as_object(schema.get("properties"))
    required = set(map(str, as_array(schema.get("required"))))
    return {
        name: _argument(known.get(name), name, as_str(as_object(kind).get("type")))
        for name, kind in properties.items()
        if name in required | known.keys()
    }


def _argument(known: str | None, name: str, kind: str | None) -> object:
    if known is not None and name in _FILES and kind == "array":
        return [{"path": known}]
    if known is not None:
        return known.split(" ") if name in _COMMANDS and kind == "array" else known
    defaults: dict[str | None, object] = {"boolean": False, "integer": 1, "number": 1, "array": []}
    return defaults.get(kind, "as the user wants it")
