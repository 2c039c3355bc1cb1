"""The agent that an editor starts: its command behind Rekindle, and the editors' names for it."""

import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path, PurePath

from msgspec import Struct

from rekindle.cli.main import load_command
from rekindle.errors import UsageError

_LAUNCHER = re.compile(
    r"npx|npm|bunx|bun|pnpx|pnpm|yarn|node|nodejs|deno|tsx|uvx|uv|pipx|python[\d.]*|pypy[\d.]*"
    r"|env|nice|nohup"
)
_LAUNCHER_VERBS = frozenset({"run", "exec", "dlx", "x", "tool"})
"""Subcommands of launchers that start another program."""
_WITH_VALUE = frozenset(
    {"-p", "--package", "--from", "--with", "--python", "-r", "--require", "--import", "--loader"}
    | {"--env-file", "--directory", "--project", "-C", "--chdir", "--unset", "-W", "-X", "-n"}
)
_CODE_OPTIONS = frozenset({"-c", "-e", "--eval", "--call"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_VERSION = re.compile(r"(?<=.)(@|\[|[=<>~!]=).*")
_SCRIPT_SUFFIXES = frozenset({".js", ".mjs", ".cjs", ".ts", ".mts", ".py", ".pyz"})
_GENERIC_NAMES = frozenset(
    {"index", "main", "__main__", "cli", "app", "server", "start", "acp", "agent"}
    | {"bin", "dist", "build", "out", "src", "lib", "..", ".", "/"}
)


class EditorAgent(Struct, frozen=True, kw_only=True):
    """An agent behind Rekindle, as an editor configures it."""

    name: str
    command: tuple[str, ...]
    """The whole command, with `rekindle run --`."""
    adapter: str | None = None
    """CodeCompanion's name for the agent, if it has one."""
    variable: str | None = None
    """The variable in which agent-shell has the agent's command, if any."""


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


def editor_agent(command: Sequence[str], name: str | None = None) -> EditorAgent:
    """Return the agent of a command. `rekindle run` is added unless the command has it."""
    proxied = proxied_command(command)
    program = program_name(proxied or command)
    default_name, adapter, variable = _KNOWN.get(program, (program, None, None))
    return EditorAgent(
        name=name or default_name,
        command=(*rekindle_command(), "run", "--", *_resolved(command))
        if proxied is None
        else _with_full_paths(command, proxied),
        adapter=adapter,
        variable=variable,
    )


def proxied_command(command: Sequence[str]) -> Sequence[str] | None:
    """Return the agent's command if a command is `rekindle run` with an agent, otherwise None.

    Raises UsageError if `rekindle run` has no agent.
    """
    program, *arguments = command[program_index(command) :]
    if PurePath(program).name != "rekindle" or arguments[:1] != ["run"]:
        return None
    _, parser = load_command("run")
    agent = parser.parse_args(arguments[1:]).command
    agent = agent[1:] if agent[:1] == ["--"] else agent
    if not agent:
        raise UsageError("no agent given: the command ends with `rekindle run`")
    return agent


def _with_full_paths(command: Sequence[str], proxied: Sequence[str]) -> tuple[str, ...]:
    before = command[: len(command) - len(proxied)]
    is_first = program_index(command) == 0
    started = (*rekindle_command(), *before[1:]) if is_first else _resolved(before)
    return (*started, *_resolved(proxied))


def rekindle_command() -> tuple[str, ...]:
    """Return the command that starts this Rekindle from any folder."""
    script = Path(sysconfig.get_path("scripts")) / "rekindle"
    on_path = shutil.which("rekindle")
    # A link on the PATH is more likely to survive an upgrade than its target.
    if on_path and (not script.exists() or os.path.realpath(on_path) == os.path.realpath(script)):
        return (os.path.abspath(on_path),)  # noqa: PTH100 - links are kept
    return (str(script),) if script.exists() else (sys.executable, "-m", "rekindle")


def _resolved(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command that works from any folder and with a shorter PATH."""
    program, *arguments = command
    path = program if os.sep in program else shutil.which(program)
    return (os.path.abspath(path) if path else program, *arguments)  # noqa: PTH100


# -- launchers ------------------------------------------------------------------------------


def program_index(command: Sequence[str]) -> int:
    """Return the index of the program that a command starts, after launchers such as npx."""
    index = 0
    while _LAUNCHER.fullmatch(PurePath(command[index]).name):
        following = _next_program(command, index + 1)
        if following is None:
            break
        index = following
    return index


def program_name(command: Sequence[str]) -> str:
    """Return the name of the program that a command starts."""
    index = program_index(command)
    path = PurePath(command[index])
    if path.suffix in _SCRIPT_SUFFIXES:
        # The program of `agent-one/dist/index.js` is agent-one.
        parts = (*path.parts[:-1], path.stem)
        return next((part for part in reversed(parts) if part not in _GENERIC_NAMES), path.stem)
    return _VERSION.sub("", path.name) or command[index]


def _next_program(command: Sequence[str], index: int) -> int | None:
    """Return the index of the first word from `index` on that is not a launcher's argument."""
    while index < len(command):
        word = command[index]
        if word in _CODE_OPTIONS:
            return None
        if word in _WITH_VALUE:
            index += 1
        elif not (word.startswith("-") or word in _LAUNCHER_VERBS or _ASSIGNMENT.fullmatch(word)):
            return index
        index += 1
    return None
