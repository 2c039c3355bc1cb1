"""Configure an editor to start its agents behind Rekindle.

Without an option, list the agents in the editor's file. --all wraps each of
them, and --undo restores them. With AGENT, wrap or add that agent only: it is a
name from `rekindle agents`, or a command after `--`.
All comments and other settings are kept, and so is a backup of the file.

On a terminal, you see the change, and decide whether it is written. Without a
terminal, --write writes it.

  zed        Zed, with the agents of the ACP registry
  jetbrains  JetBrains IDEs
  vscode     VS Code with the extension ACP Client (formulahendry.acp-client)
  neovim     Neovim with CodeCompanion
  emacs      Emacs with agent-shell

example:
  rekindle setup zed --all
  rekindle setup zed --undo
  rekindle setup neovim claude
  rekindle setup emacs --write -- my-agent --acp
"""

import argparse
import difflib
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rekindle.cli.arguments import add_command_after_dashes
from rekindle.cli.editors.agents import (
    agent_command,
    editor_agent,
    program_name,
    proxied_command,
)
from rekindle.cli.editors.blocks import BlockAgents
from rekindle.cli.editors.entries import Action, AgentEntry, Outcome
from rekindle.cli.editors.json_agents import JsonAgents
from rekindle.cli.editors.registry import EDITORS, Editor
from rekindle.cli.editors.save import read, save
from rekindle.cli.formatting import one_line, printable
from rekindle.cli.messages import print_note, print_warning
from rekindle.errors import FileUnclear, UsageError
from rekindle.text.redact.recorded_command import mask_command

_EXAMPLE = ("opencode", "acp")
_CONTEXT_LINES = 2
_TEXTS = {
    Action.ADDED: "added {name}",
    Action.WRAPPED: "wrapped {name}",
    Action.REPAIRED: "corrected the path of Rekindle in {name}",
    Action.RESTORED: "restored {name}",
    Action.REMOVED: "removed {name}, which `rekindle setup` had added",
    Action.UNCHANGED: "{name} is wrapped already",
    Action.SKIPPED: "skipped {name}: {text}",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = (
        "rekindle setup EDITOR [--all | --undo] [OPTIONS]\n"
        "       rekindle setup EDITOR [OPTIONS] (AGENT | -- COMMAND ARGS…)"
    )
    parser.add_argument(
        "editor", choices=list(EDITORS), metavar="EDITOR", help=f"one of {', '.join(EDITORS)}"
    )
    parser.add_argument("agent", nargs="*", metavar="AGENT", help="a name from `rekindle agents`")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="wrap every agent in the file")
    which.add_argument("--undo", action="store_true", help="restore the agents as they were before")
    parser.add_argument("--name", help="the agent's name in the editor; the others stay")
    parser.add_argument("--write", action="store_true", help="write the change without asking")
    parser.add_argument(
        "--file", type=Path, metavar="FILE", help="the file, if it is not the editor's usual one"
    )
    add_command_after_dashes(parser)


def main(arguments: argparse.Namespace) -> int:
    """List the agents of an editor, or change its file."""
    path = (arguments.file or EDITORS[arguments.editor].path).expanduser().absolute()
    if arguments.agent and arguments.command:
        raise UsageError("two agents given; name one, either before or after --")
    arguments.command = arguments.agent or arguments.command
    try:
        return _run(arguments, path)
    except FileUnclear as error:
        if str(path) in str(error):
            raise
        raise FileUnclear(f"{path}: {error}; correct the file, then try again") from error


def _run(arguments: argparse.Namespace, path: Path) -> int:
    editor = EDITORS[arguments.editor]
    agents = editor.agents
    names = [arguments.name] if arguments.name else None
    setup = _Setup(arguments.editor, path, is_written=arguments.write)
    _check_printable([*arguments.command, *(names or [])])
    if arguments.command:
        if arguments.all or arguments.undo:
            raise UsageError("--all and --undo take no agent; leave the command out")
        return setup.add(arguments.command, arguments.name)
    if arguments.undo:
        return setup.undo(names)
    if isinstance(agents, BlockAgents):
        if arguments.all or arguments.write or names:
            raise UsageError(
                f"{editor.title} has its agents in code; name one:"
                f" rekindle setup {arguments.editor} claude"
            )
        return setup.show_example()
    if arguments.all or names:
        return setup.wrap(agents, names)
    if arguments.write:
        raise UsageError(
            "nothing to write; add --all, --undo, --name NAME, or an agent, as in"
            f" `rekindle setup {arguments.editor} claude --write`"
        )
    return setup.show_agents(agents)


class _Setup:
    """The setup of one editor's file."""

    def __init__(self, name: str, path: Path, *, is_written: bool) -> None:
        self._name = name
        self._editor: Editor = EDITORS[name]
        self._path = path
        self._is_written = is_written

    # -- reports ---------------------------------------------------------------------------

    def show_agents(self, agents: JsonAgents) -> int:
        """List the agents in the file."""
        entries = agents.entries(read(self._path))
        if not entries:
            print(f"{self._editor.title} has no agents in {self._path}")
            print_note(
                f"add one, as in `rekindle setup {self._name} claude`;"
                " `rekindle agents` lists the names"
            )
        else:
            print(f"{self._editor.title} starts these agents ({self._path}):")
            width = max(len(one_line(entry.name)) for entry in entries)
            for entry in entries:
                state = "behind Rekindle " if entry.is_wrapped else "without Rekindle"
                print(f"  {one_line(entry.name):{width}}  {state}  {_description(agents, entry)}")
        if self._editor.hint:
            print_note(self._editor.hint)
        if any(not entry.is_wrapped for entry in entries):
            print_note(f"to wrap them: rekindle setup {self._name} --all")
        elif entries:
            print_note(f"to restore them: rekindle setup {self._name} --undo")
        return 0

    def show_example(self) -> int:
        """Print what to add, with an agent as an example."""
        print_note(
            f"an example, with the agent {shlex.join(_EXAMPLE)}; name yours, as in"
            f" `rekindle setup {self._name} claude`"
        )
        return self._show(self._editor.agents.snippet(editor_agent(_EXAMPLE)))

    def _show(self, text: str) -> int:
        print(f"{self._editor.title}, in {self._path}:", file=sys.stderr)
        print(text, end="")
        return 0

    # -- changes ---------------------------------------------------------------------------

    def wrap(self, agents: JsonAgents, names: Sequence[str] | None) -> int:
        """Wrap the agents of these names, or all."""
        before = read(self._path)
        if names is None and not agents.entries(before):
            return self.show_agents(agents)
        registry = {it.name for it in agents.entries(before) if it.is_from_registry}
        after, outcomes = agents.wrap(before, names)
        self._check_names(outcomes, names)
        code = self._apply(before, after, outcomes)
        for name in (it.name for it in outcomes if it.action is Action.WRAPPED):
            if name in registry:
                _note_registry(self._editor, self._name, name)
        return code

    def undo(self, names: Sequence[str] | None) -> int:
        """Restore the agents of these names, or all."""
        from rekindle.cli.editors.undo import forget_changes, undo

        before, agents = read(self._path), self._editor.agents
        if isinstance(agents, BlockAgents):
            after, outcomes = agents.remove(before, names)
            return self._apply(before, after, outcomes)
        after, outcomes = undo(agents, self._path, before, names)
        done = [it.name for it in outcomes if it.action is not Action.SKIPPED]
        return self._apply(before, after, outcomes, lambda _: forget_changes(self._path, done))

    def add(self, words: Sequence[str], name: str | None) -> int:
        """Add an agent, or replace the command of the agent with its name."""
        command = agent_command(words)
        agent = editor_agent(command, name)
        proxied = proxied_command(command)
        if proxied is not None:
            print_note("the command starts Rekindle already, so `rekindle run` is not added again")
        program = (proxied or command)[0]
        if shutil.which(program) is None:
            print_warning(f"{program} was not found; install it, or give its full path")
        agents = self._editor.agents
        try:
            before = read(self._path)
            after = agents.insert(before, agent)
            old = {it.name: it for it in agents.entries(before)}
            replaced = old.get(agent.name)
            if after == before:
                print(f"{self._path} has this agent already")
                return 0
            if not before.strip() and not self._may_write():
                return self._show(agents.snippet(agent))
            action = Action.WRAPPED if replaced else Action.ADDED
            outcome = Outcome(name=agent.name, action=action)
            code = self._apply(before, after, [outcome])
        except FileUnclear as error:
            raise FileUnclear(
                f"{error}; nothing was written; add this to {self._path} by hand:\n\n"
                f"{agents.snippet(agent)}"
            ) from error
        if replaced is not None:
            self._note_replaced(replaced, agent.command)
        self._note_same_agent(list(old.values()), agent.name, proxied or command)
        return code

    def _note_replaced(self, replaced: AgentEntry, command: tuple[str, ...]) -> None:
        name = replaced.name
        if replaced.is_from_registry:
            _note_registry(self._editor, self._name, name)
        elif replaced.command not in {(), command}:
            former = one_line(shlex.join(mask_command(replaced.command)))
            print_note(
                f"this replaces the command of {name}: {former}; to have both, use --name NAME"
            )

    def _note_same_agent(
        self, entries: list[AgentEntry], name: str, command: Sequence[str]
    ) -> None:
        """Report an entry of the registry that starts the same agent without Rekindle."""
        agents = self._editor.agents
        if not isinstance(agents, JsonAgents) or not agents.registry:
            return
        for entry in entries:
            if entry.is_from_registry and entry.name != name:
                found = agents.registry(entry.name).command
                if found and program_name(found) == program_name(command):
                    print_note(
                        f"{self._editor.title} also has {entry.name} from the ACP registry, without"
                        f" Rekindle; `rekindle setup {self._name} --name {entry.name}` wraps it"
                    )

    def _check_names(self, outcomes: list[Outcome], names: Sequence[str] | None) -> None:
        missing = [name for name in names or () if name not in {it.name for it in outcomes}]
        if missing:
            raise UsageError(
                f"{self._path} has no agent {missing[0]!r};"
                f" `rekindle setup {self._name}` lists its agents"
            )

    # -- writing ---------------------------------------------------------------------------

    def _may_write(self) -> bool:
        return self._is_written or (sys.stdin.isatty() and sys.stdout.isatty())

    def _apply(
        self,
        before: str,
        after: str,
        outcomes: list[Outcome],
        when_written: Callable[[Path | None], None] | None = None,
    ) -> int:
        """Show or write a change; return 1 if an agent was skipped."""
        skipped = [it for it in outcomes if it.action is Action.SKIPPED]
        for outcome in skipped:
            print_warning(_sentence(outcome))
        if before == after:
            print(f"nothing to change in {self._path}")
            return 1 if skipped else 0
        if not self._is_written:
            _print_diff(self._path, before, after)
            if not self._may_write():
                print_note("nothing was written; add --write to write it")
                return 1 if skipped else 0
            from rekindle.cli.confirm import confirm

            if not confirm(f"write this to {self._path}?"):
                print_note("nothing was written")
                return 0
        self._write(before, after, outcomes, when_written)
        return 1 if skipped else 0

    def _write(
        self,
        before: str,
        after: str,
        outcomes: list[Outcome],
        when_written: Callable[[Path | None], None] | None,
    ) -> None:
        backup = save(self._path, after, before)
        for outcome in outcomes:
            if outcome.action is not Action.SKIPPED:
                print(_sentence(outcome))
        print(f"wrote {self._path}")
        if backup is not None:
            print(f"the previous text is in {backup}")
        try:
            if when_written is not None:
                when_written(backup)
            elif isinstance(self._editor.agents, JsonAgents):
                from rekindle.cli.editors.undo import record_change

                record_change(self._editor.agents, self._path, backup, before, after)
        except OSError as error:
            print_warning(f"`--undo` will not know the previous entries: {error}")


def _check_printable(words: Sequence[str]) -> None:
    for word in words:
        if one_line(word) != word or not word.isprintable():
            raise UsageError(f"{word!r} has characters that an editor's file cannot have")
    if words and not words[0]:
        raise UsageError("the agent's command is empty; name an agent after --")


def _description(agents: JsonAgents, entry: AgentEntry) -> str:
    if entry.is_from_registry and agents.registry:
        found = agents.registry(entry.name)
        command = one_line(shlex.join(found.command))
        return f"from the ACP registry; {found.problem or f'--all starts {command}'}"
    if entry.problem:
        return entry.problem
    return one_line(shlex.join(mask_command(entry.agent or entry.command)))


def _sentence(outcome: Outcome) -> str:
    text = _TEXTS[outcome.action]
    return text.format(name=one_line(outcome.name), text=one_line(outcome.text))


def _note_registry(editor: Editor, editor_name: str, name: str) -> None:
    print_note(
        f"{name} replaces its entry of the ACP registry, so {editor.title} does not update the"
        f" agent any more; `rekindle setup {editor_name} --undo --name {name}` restores it"
    )


def _print_diff(path: Path, before: str, after: str) -> None:
    lines = difflib.unified_diff(
        before.splitlines(),
        after.splitlines(),
        str(path),
        str(path),
        n=_CONTEXT_LINES,
        lineterm="",
    )
    if not sys.stdout.isatty():
        print("\n".join(map(printable, lines)))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines:
        console.print(Text(printable(line), style=styles.get(line[:1], "")))
