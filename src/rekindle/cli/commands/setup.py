"""Print what tells an editor to start an agent behind Rekindle, or write it into its file.

Nothing is written without --write. Then comments and everything else in the file stay, and a
backup is kept beside it.

example:
  rekindle setup zed -- opencode acp
  rekindle setup neovim --write -- npx -y @agentclientprotocol/claude-agent-acp
"""

import argparse
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.cli.arguments import add_command_after_dashes
from rekindle.cli.editors.registry import EDITORS
from rekindle.cli.formatting import one_line
from rekindle.errors import FileUnclear, UsageError

if TYPE_CHECKING:
    from rekindle.cli.editors.agents import EditorAgent
    from rekindle.cli.editors.registry import Editor

_EXAMPLE = ("opencode", "acp")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "rekindle setup EDITOR [--write] [--file FILE] [--name NAME] [-- COMMAND ARGS…]"
    parser.add_argument(
        "editor", choices=list(EDITORS), metavar="EDITOR", help=f"one of {', '.join(EDITORS)}"
    )
    parser.add_argument("--write", action="store_true", help="write it into the editor's file")
    parser.add_argument(
        "--file", type=Path, metavar="FILE", help="which file, instead of the editor's usual one"
    )
    parser.add_argument("--name", help="what the editor calls the agent")
    add_command_after_dashes(parser)


def main(arguments: argparse.Namespace) -> int:
    """Print the configuration snippet, or write it into the editor's file."""
    from rekindle.cli.editors.agents import editor_agent, proxied_command

    editor = EDITORS[arguments.editor]
    if arguments.write and not arguments.command:
        raise UsageError(f"no agent given: rekindle setup {arguments.editor} --write -- COMMAND")
    command = arguments.command or _EXAMPLE
    _check_printable([*command, arguments.name or "name"])
    agent = editor_agent(command, arguments.name or None)
    path = (arguments.file or editor.path).expanduser().absolute()
    proxied = proxied_command(command)
    if proxied is not None:
        notice = "the command has `rekindle run` already, and gets no second one"
        print(f"rekindle: {notice}", file=sys.stderr)
    program = (proxied or command)[0]
    if arguments.command and shutil.which(program) is None:
        print(
            f"rekindle: {program} was not found here: install it, or give its full path",
            file=sys.stderr,
        )
    if arguments.write:
        return _write(editor, agent, path)
    print(f"{editor.title}, in {path}:", file=sys.stderr)
    print(editor.snippet(agent), end="")
    return 0


def _check_printable(words: list[str]) -> None:
    for word in words:
        if one_line(word) != word or not word.isprintable():
            raise UsageError(f"{word!r} cannot stand in an editor's file: give plain words")
    if not words[0]:
        raise UsageError("the agent's command is empty")


def _write(editor: "Editor", agent: "EditorAgent", path: Path) -> int:
    from rekindle.cli.editors.save import read, save

    try:
        before = read(path)
        after = editor.insert(before, agent)
        if after == before:
            print(f"{path} has it already")
            return 0
        replaced = editor.command(before, agent.name)
        backup = save(path, after, before)
    except FileUnclear as error:
        raise FileUnclear(
            f"{error}: nothing was written; put this into {path} by hand:\n\n"
            f"{editor.snippet(agent)}"
        ) from error
    print(f"wrote {agent.name} to {path}")
    if replaced not in {(), agent.command}:
        print(f"it takes the place of: {one_line(shlex.join(replaced))}")
        print("to have both, give this one another name: --name NAME")
    if backup is not None:
        print(f"what it was before is in {backup}")
    return 0
