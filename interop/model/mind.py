"""What the fake model says: nothing but what it can prove it was shown.

Tasks are named in prompts as `[task alpha]`. The report says how many earlier messages of the
user there were, which tasks it has heard of, and the word that stands in the note that a tool
was to read. So whether an agent remembers is read from here, and not from what it claims.
"""

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from interop.model.conversation import Call, Reply, Said, Shown, Tool, Words
from rekindle.wire.envelope import rows, table, text

Json = dict[str, Any]

_TASK = re.compile(r"\[task (\w+)\]")
_WORD = re.compile(r"the word of the note is (\w+)", re.IGNORECASE)
_SLOWLY = "Take your time, please."
_FILE = re.compile(r"read the file (\S+?\.txt)")
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
_PATHS = frozenset({"path", "filePath", "file_path", "absolute_path"})
_COMMANDS = frozenset({"command", "cmd"})


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


def slow_task(name: str) -> str:
    """Return a prompt to which the answer begins, but never ends."""
    return f"[task {name}] {_SLOWLY}"


def reply_to(shown: Shown) -> Reply:
    """Call a tool if the last task wants a file to be read and none was; else report."""
    turn = _last_turn(shown.said)
    asked = shown.said[turn].text if turn is not None else ""
    if turn is None or not shown.tools:
        # Agents ask for titles and summaries, and offer no tools for that.
        return Words(_TITLE)
    tasks = list(_TASK.finditer(asked))
    wanted = _FILE.search(asked, tasks[-1].start())
    has_called = any(it.role == "tool" for it in shown.said[turn:])
    if wanted is not None and not has_called:
        return _reading(shown.tools, wanted[1])
    hangs = _SLOWLY in asked[tasks[-1].start() :]
    return Words(_report(shown.said, turn, tasks[-1][1]), hangs=hangs)


def read_report(words: str) -> Report | None:
    """Return the last report that is in an agent's words."""
    reports = list(_REPORT.finditer(words))
    if not reports:
        return None
    found = reports[-1]
    tasks = tuple(name for name in found[2].split(", ") if name)
    return Report(earlier=int(found[1]), tasks=tasks, word=found[3])


def _last_turn(said: tuple[Said, ...]) -> int | None:
    """Return where the last message with a task is: agents add messages of their own."""
    turns = [place for place, it in enumerate(said) if it.role == "user" and _TASK.search(it.text)]
    return turns[-1] if turns else None


def _report(said: tuple[Said, ...], turn: int, current: str) -> str:
    by_user = [it.text for it in said[: turn + 1] if it.role == "user" and _TASK.search(it.text)]
    known = dict.fromkeys(found[1] for words in by_user for found in _TASK.finditer(words))
    known.pop(current, None)
    word = next((found[1] for it in said for found in _WORD.finditer(it.text)), None)
    messages = "message" if len(by_user) == 2 else "messages"  # noqa: PLR2004 - with this one
    of_note = f"the word of the note is {word}" if word else "have seen no note"
    return (
        f"I was shown {len(by_user) - 1} earlier user {messages}, "
        f"know of the tasks ({', '.join(known)}), and {of_note}."
    )


def _reading(tools: Iterable[Tool], path: str) -> Reply:
    offered = {tool.name: tool for tool in tools}
    tool = next((offered[name] for name in _READING if name in offered), None)
    if tool is None:
        return Words(f"No tool that I know of reads files: there are {', '.join(offered)}.")
    return Call(tool.name, _arguments(tool.schema, path))


def _arguments(schema: Json, path: str) -> Json:
    """Fill in what the tool must be given, and whatever names the file."""
    properties = table(schema.get("properties"))
    required = set(map(str, rows(schema.get("required"))))
    return {
        name: _argument(name, table(kind), path)
        for name, kind in properties.items()
        if name in required | _PATHS | _COMMANDS
    }


def _argument(name: str, kind: Json, path: str) -> object:
    if name in _PATHS:
        return path
    if name in _COMMANDS:
        return ["cat", path] if text(kind.get("type")) == "array" else f"cat {path}"
    usual: dict[str | None, object] = {"boolean": False, "integer": 1, "number": 1, "array": []}
    return usual.get(text(kind.get("type")), "to read the note")
