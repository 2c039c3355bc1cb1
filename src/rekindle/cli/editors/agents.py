"""Which agent an editor is to start, and what editors call it."""

import os
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path, PurePath

from msgspec import Struct

from rekindle.cli.editors.launchers import name_of_program, place_of_program
from rekindle.cli.main import parser_of
from rekindle.errors import UsageError


class Agent(Struct, frozen=True, kw_only=True):
    """An agent behind Rekindle, as an editor is told of it."""

    name: str
    command: tuple[str, ...]
    """The whole of it, `rekindle run --` included."""
    adapter: str | None = None
    """What CodeCompanion calls it, if it knows it."""
    variable: str | None = None
    """Where agent-shell keeps its command, if it knows it."""


# By program: the name, CodeCompanion's adapter, agent-shell's variable.
_KNOWN: dict[str, tuple[str, str | None, str | None]] = {
    "opencode": ("OpenCode", "opencode", "agent-shell-opencode-acp-command"),
    "claude-agent-acp": (
        "Claude Code",
        "claude_code",
        "agent-shell-anthropic-claude-acp-command",
    ),
    "claude-code-acp": ("Claude Code", "claude_code", "agent-shell-anthropic-claude-acp-command"),
    "codex-acp": ("Codex", "codex", "agent-shell-openai-codex-acp-command"),
    "gemini": ("Gemini CLI", "gemini_cli", "agent-shell-google-gemini-acp-command"),
    "goose": ("Goose", "goose", "agent-shell-goose-acp-command"),
    "copilot": ("Copilot", "copilot_acp", "agent-shell-github-acp-command"),
    "pi-acp": ("Pi", None, "agent-shell-pi-acp-command"),
    "kimi": ("Kimi CLI", "kimi_cli", None),
    "vibe-acp": ("Mistral Vibe", "mistral_vibe", None),
}


def agent_behind_rekindle(command: Sequence[str], name: str | None = None) -> Agent:
    """Return the agent that a command starts, with Rekindle before it, unless it is there."""
    behind = behind_rekindle(command)
    program = name_of_program(behind or command)
    usual, adapter, variable = _KNOWN.get(program, (program, None, None))
    return Agent(
        name=name or usual,
        command=(*rekindle_command(), "run", "--", *_resolved(command))
        if behind is None
        else _with_full_paths(command, behind),
        adapter=adapter,
        variable=variable,
    )


def behind_rekindle(command: Sequence[str]) -> Sequence[str] | None:
    """Return the agent's command if a command is `rekindle run` with it already."""
    program, *arguments = command[place_of_program(command) :]
    if PurePath(program).name != "rekindle" or arguments[:1] != ["run"]:
        return None
    _, parser = parser_of("run")
    agent = parser.parse_args(arguments[1:]).command
    agent = agent[1:] if agent[:1] == ["--"] else agent
    if not agent:
        raise UsageError("no agent given: the command ends with `rekindle run`")
    return agent


def _with_full_paths(command: Sequence[str], behind: Sequence[str]) -> tuple[str, ...]:
    before = command[: len(command) - len(behind)]
    is_first = place_of_program(command) == 0
    started = (*rekindle_command(), *before[1:]) if is_first else _resolved(before)
    return (*started, *_resolved(behind))


def rekindle_command() -> tuple[str, ...]:
    """Return how this Rekindle is started from anywhere."""
    script = Path(sysconfig.get_path("scripts")) / "rekindle"
    on_path = shutil.which("rekindle")
    # A link to it that is on the PATH outlives the next upgrade more likely than what it leads to.
    if on_path and (not script.exists() or os.path.realpath(on_path) == os.path.realpath(script)):
        return (os.path.abspath(on_path),)  # noqa: PTH100 - links are kept
    return (str(script),) if script.exists() else (sys.executable, "-m", "rekindle")


def _resolved(command: Sequence[str]) -> tuple[str, ...]:
    """Return the command as it can be given from any folder, and with a shorter PATH."""
    program, *arguments = command
    found = program if os.sep in program else shutil.which(program)
    return (os.path.abspath(found) if found else program, *arguments)  # noqa: PTH100
