"""Check how the editors on this machine are configured to start Rekindle."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from rekindle.cli.editors.agents import program_index, program_name
from rekindle.cli.editors.blocks import BlockAgents
from rekindle.cli.editors.entries import AgentEntry
from rekindle.cli.editors.programs import missing_program
from rekindle.cli.editors.registry import EDITORS, Editor
from rekindle.cli.formatting import one_line
from rekindle.errors import FileUnclear
from rekindle.store.maintenance import Diagnosis, Severity

_MAX_BYTES = 2_000_000


def check_editors() -> Iterator[Diagnosis]:
    """Check each editor that has a configuration file here, and each agent in it."""
    for name, editor in EDITORS.items():
        files = [file for file in editor.files() if _is_small_file(file)]
        texts = {file: file.read_text(encoding="utf-8", errors="replace") for file in files}
        if isinstance(editor.agents, BlockAgents) or not editor.plugin:
            yield from _check_editor(name, editor, texts)
        else:
            # Most users of such an editor have settings, but not the extension.
            key = editor.agents.key
            with_agents = {file: text for file, text in texts.items() if f'"{key}"' in text}
            yield from _check_editor(name, editor, with_agents)


def _check_editor(name: str, editor: Editor, texts: dict[Path, str]) -> Iterator[Diagnosis]:
    may_use_rekindle, without = False, list[str]()
    for file, text in texts.items():
        try:
            entries = editor.agents.entries(text)
        except FileUnclear as error:
            may_use_rekindle = True
            yield Diagnosis(
                check="editor",
                severity=Severity.WARNING,
                text=f"{editor.title}: {file} cannot be checked: {one_line(str(error))}",
                remedy="correct the file",
                facts={"editor": name, "file": str(file)},
            )
            continue
        for entry in entries:
            if entry.is_wrapped or isinstance(editor.agents, BlockAgents):
                may_use_rekindle = True
                yield from _check_entry(name, editor, entry, file)
            elif not entry.problem:
                without.append(entry.name)
    if texts and (without or not may_use_rekindle):
        names = ", ".join(map(one_line, without))
        does = f"starts {names} without Rekindle" if without else "does not use Rekindle"
        yield Diagnosis(
            check="editor",
            text=f"{editor.title} {does}",
            remedy=f"`rekindle setup {name}{' --all' if without else ''}` shows the change",
            facts={"editor": name, "without": without},
        )


def _check_entry(name: str, editor: Editor, entry: AgentEntry, file: Path) -> Iterator[Diagnosis]:
    agent = entry.agent or ()
    label = one_line(entry.name or (program_name(agent) if agent else "an agent"))
    command = entry.command[program_index(entry.command)]
    facts = {"file": str(file), "command": command, "editor": name, "agent": label}
    problems = dict[str, str]()
    if problem := missing_program(entry.command):
        is_json = not isinstance(editor.agents, BlockAgents)
        option = "--all" if is_json else "-- COMMAND"
        problems[problem] = f"`rekindle setup {name} {option}` corrects the path of Rekindle"
    if entry.is_wrapped:
        problem = missing_program(agent) if agent else "`rekindle run` has no agent"
        if problem:
            problems[problem] = f"install the agent, or correct its command in {file}"
    for problem, remedy in problems.items():
        yield Diagnosis(
            check="editor",
            severity=Severity.PROBLEM,
            text=f"{editor.title} cannot start {label}: {one_line(problem)}",
            remedy=remedy,
            facts=facts,
        )
    if not problems:
        found = shutil.which(entry.command[0])
        is_path = os.sep in entry.command[0]
        advice = "" if is_path else f"; if it does not start, use the full path {found}"
        text = f"{editor.title} starts {label} behind Rekindle{advice}"
        yield Diagnosis(check="editor", text=text, facts=facts)


def _is_small_file(file: Path) -> bool:
    try:
        return file.is_file() and file.stat().st_size < _MAX_BYTES and os.access(file, os.R_OK)
    except OSError:
        return False
