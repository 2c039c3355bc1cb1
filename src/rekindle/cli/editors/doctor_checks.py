"""Check how the editors on this machine are configured to start Rekindle."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from rekindle.cli.editors.jsonc import parse
from rekindle.cli.editors.registry import EDITORS, SERVERS, Editor
from rekindle.cli.formatting import one_line
from rekindle.errors import FileUnclear
from rekindle.jsonvalue import as_array, as_object
from rekindle.store.maintenance import Diagnosis, Severity

# A string in a JSON, Lua or Lisp file that is a path to our program. A key is not: an agent may
# have that name too.
_COMMAND = re.compile(r'"((?:[^"\\\n]*/)?rekindle)"(?!\s*:)')
_MAX_BYTES = 2_000_000


def check_editors() -> Iterator[Diagnosis]:
    """Check each editor that has a configuration file here."""
    for name, editor in EDITORS.items():
        files = [file for file in editor.files() if _is_small_file(file)]
        texts = {file: file.read_text(encoding="utf-8", errors="replace") for file in files}
        if texts:
            yield from _check_editor(name, editor, texts)


def _check_editor(name: str, editor: Editor, texts: dict[Path, str]) -> Iterator[Diagnosis]:
    commands = {command: file for file, text in texts.items() for command in _COMMAND.findall(text)}
    for command, file in commands.items():
        yield _check_command(editor, command, file)
    without = [agent for text in texts.values() for agent in _agents_without(text)]
    if not commands or without:
        which = f"starts {', '.join(map(one_line, without))} without Rekindle" if without else ""
        yield Diagnosis(
            check="editor",
            text=f"{editor.title} {which or 'is not told of Rekindle'}",
            remedy=f"rekindle setup {name} -- COMMAND shows what to write",
            facts={"editor": name, "without": without},
        )


def _check_command(editor: Editor, command: str, file: Path) -> Diagnosis:
    found = shutil.which(command)
    facts = {"file": str(file), "command": command}
    if found is None:
        return Diagnosis(
            check="editor",
            severity=Severity.PROBLEM,
            text=f"{editor.title} is told to start {one_line(command)}, which is not there: {file}",
            remedy="rekindle setup shows what to write",
            facts=facts,
        )
    advice = "" if os.sep in command else f"; if it does not start, give the full path: {found}"
    return Diagnosis(check="editor", text=f"{editor.title} starts {command}{advice}", facts=facts)


def _agents_without(text: str) -> list[str]:
    """Return the agents that a JSON file starts without Rekindle."""
    try:
        servers = as_object(as_object(parse(text).data).get(SERVERS))
    except FileUnclear:
        return []
    commands = {name: _command_names(as_object(server)) for name, server in servers.items()}
    return [name for name, words in commands.items() if words and "rekindle" not in words]


def _command_names(server: dict[str, Any]) -> list[str]:
    """Return the words of an agent's command, with paths shortened to their names."""
    command = server.get("command")
    words = [command, *as_array(server.get("args"))] if command else []
    return [PurePath(str(word)).name for word in words]


def _is_small_file(file: Path) -> bool:
    try:
        return file.is_file() and file.stat().st_size < _MAX_BYTES and os.access(file, os.R_OK)
    except OSError:
        return False
