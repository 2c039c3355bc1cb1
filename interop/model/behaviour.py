"""What the fake model says: nothing but what it can prove it was shown.

Tasks are named in prompts as `[task alpha]`. The report says how many earlier messages of the
user there were, which tasks it has heard of, and the word that stands in the note that a tool
was to read. So whether an agent remembers is read from here, and not from what it claims. A task
may also want the note to be changed, and to be thought over.
"""

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct, structs

from interop.model.dialect import ModelMessage, ModelRequest, Reply, TextReply, Tool, ToolReply
from rekindle.jsonvalue import as_array, as_object, as_str

Json = dict[str, Any]
Values = dict[tuple[str, ...], str]
"""What a tool is to be told, by the names that tools have for it."""

_TASK = re.compile(r"\[task (\w+)\]")
_WORD = re.compile(r"the word of the note is (\w+)", re.IGNORECASE)
_SLOWLY = "Take your time, please."
_FILE = re.compile(r"read the file (\S+?\.txt)")
_CHANGE = re.compile(r"put (\w+) in the place of (\w+) in the file (\S+?\.txt)")
_THINKING = "Think it over."
THOUGHT = "**A note**\n\nOne word of it matters."
_REPORT = re.compile(
    r"I was shown (\d+) earlier user messages?, know of the tasks \(([\w, ]*)\), "
    r"and (?:the word of the note is (\w+)|have seen no note)"
)
_TITLE = "Reading a note"

# Tools by which a file can be read, best first; shells come last, as agents ask before using them.
_READING = (
    "read", "Read", "read_file", "read_text_file",
    "exec_command", "shell_command", "shell", "execute", "bash", "Bash",
)  # fmt: skip
_CHANGING = ("edit", "Edit", "replace", "exec_command", "shell_command", "shell")
_PATHS = ("path", "filePath", "file_path", "absolute_path")
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
    """What the model said that it was shown."""

    earlier: int
    """How many messages of the user came before the last one, each with a task."""
    tasks: tuple[str, ...]
    """Which other tasks it was told of, in any message of the user."""
    word: str | None
    """What it knows of the note."""


def note(word: str) -> str:
    """Return the text of a note that the model will know again."""
    return f"The word of the note is {word}.\n"


def task(name: str, reading: str | None = None) -> str:
    """Return a prompt that the model takes for a task, perhaps to read a file first."""
    return f"[task {name}] " + (f"Please read the file {reading}" if reading else "Go on, please.")


def change_task(name: str, path: str, old: str, new: str) -> str:
    """Return a prompt to have a word of a note changed, after some thinking."""
    return f"[task {name}] {_THINKING} Then put {new} in the place of {old} in the file {path}"


def slow_task(name: str) -> str:
    """Return a prompt to which the answer begins, but never ends."""
    return f"[task {name}] {_SLOWLY}"


def reply_to(shown: ModelRequest) -> Reply:
    """Call a tool if the last task wants one to be called and none was; else report."""
    turn = _last_turn(shown.said)
    if turn is None or not shown.tools:
        # Agents ask for titles and summaries, and offer no tools for that.
        return TextReply(_TITLE)
    *_, last = _TASK.finditer(shown.said[turn].text)
    asked = shown.said[turn].text[last.start() :]
    has_called = any(item.role == "tool" for item in shown.said[turn:])
    call = None if has_called else _call(asked, shown.tools)
    reply = call or TextReply(_report(shown.said, turn, last[1]), hangs=_SLOWLY in asked)
    return structs.replace(reply, thought=THOUGHT) if _THINKING in asked else reply


def read_report(words: str) -> Report | None:
    """Return the last report that is in an agent's words."""
    reports = list(_REPORT.finditer(words))
    if not reports:
        return None
    found = reports[-1]
    tasks = tuple(name for name in found[2].split(", ") if name)
    return Report(earlier=int(found[1]), tasks=tasks, word=found[3])


def _last_turn(said: tuple[ModelMessage, ...]) -> int | None:
    """Return where the last message with a task is: agents add messages of their own."""
    turns = [place for place, it in enumerate(said) if it.role == "user" and _TASK.search(it.text)]
    return turns[-1] if turns else None


def _report(said: tuple[ModelMessage, ...], turn: int, current: str) -> str:
    by_user = [
        item.text for item in said[: turn + 1] if item.role == "user" and _TASK.search(item.text)
    ]
    known = dict.fromkeys(found[1] for words in by_user for found in _TASK.finditer(words))
    known.pop(current, None)
    word = next((found[1] for item in said for found in _WORD.finditer(item.text)), None)
    messages = "message" if len(by_user) == 2 else "messages"  # noqa: PLR2004 - with this one
    of_note = f"the word of the note is {word}" if word else "have seen no note"
    return (
        f"I was shown {len(by_user) - 1} earlier user {messages}, "
        f"know of the tasks ({', '.join(known)}), and {of_note}."
    )


def _call(asked: str, tools: Iterable[Tool]) -> Reply | None:
    """Return the call that a task wants, if it wants one."""
    if found := _FILE.search(asked):
        path = found[1]
        return _calling(tools, _READING, {_PATHS: path, _COMMANDS: f"cat {path}"})
    if found := _CHANGE.search(asked):
        new, old, path = found.groups()
        patch = _PATCH.format(path=path, old=note(old).strip(), new=note(new).strip())
        return _calling(tools, _CHANGING, {_PATHS: path, _COMMANDS: patch, _OLD: old, _NEW: new})
    return None


def _calling(tools: Iterable[Tool], best_first: Iterable[str], values: Values) -> Reply:
    offered = {tool.name: tool for tool in tools}
    tool = next((offered[name] for name in best_first if name in offered), None)
    if tool is None:
        return TextReply(f"No tool that I know of does that: there are {', '.join(offered)}.")
    return ToolReply(tool.name, _arguments(tool.schema, values))


def _arguments(schema: Json, values: Values) -> Json:
    """Fill in what the tool must be given, and whatever is known by its name."""
    known = {name: value for names, value in values.items() for name in names}
    properties = as_object(schema.get("properties"))
    required = set(map(str, as_array(schema.get("required"))))
    return {
        name: _argument(known.get(name), name, as_str(as_object(kind).get("type")))
        for name, kind in properties.items()
        if name in required | known.keys()
    }


def _argument(known: str | None, name: str, kind: str | None) -> object:
    if known is not None:
        return known.split(" ") if name in _COMMANDS and kind == "array" else known
    usual: dict[str | None, object] = {"boolean": False, "integer": 1, "number": 1, "array": []}
    return usual.get(kind, "as the user wants it")
