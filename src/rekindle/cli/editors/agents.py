"""The agent that an editor starts: its command behind Rekindle, and the editors' names for it."""

import io
import os
import re
import shutil
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path, PurePath

from msgspec import Struct

from rekindle.cli.agent_lookup import named_agents
from rekindle.cli.editors.installation import PROGRAMS, rekindle_command
from rekindle.cli.main import load_command
from rekindle.errors import UsageError

_LAUNCHER = re.compile(
    r"npx|npm|bunx|bun|pnpx|pnpm|yarn|node|nodejs|deno|tsx|uvx|uv|pipx|python[\d.]*|pypy[\d.]*"
    r"|env|nice|nohup"
)
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
PREFIX_PROGRAMS = frozenset({"env", "nice", "nohup"})
"""Programs that only start another one, so that it has to exist too."""
_LAUNCHER_VERBS = frozenset({"run", "exec", "dlx", "x", "tool"})
"""Subcommands of launchers that start another program."""
_WITH_VALUE = frozenset(
    {
        "-p",
        "--package",
        "--from",
        "--spec",
        "--with",
        "--python",
        "-r",
        "--require",
        "--import",
        "--loader",
    }
    | {"--env-file", "--directory", "--project", "-C", "--chdir", "--unset", "-W", "-X", "-n"}
)
_CODE_OPTIONS = frozenset({"-c", "-e", "--eval", "--call"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_VERSION = re.compile(r"(?<=.)(@|\[|[=<>~!]=).*")
_SCRIPT_SUFFIXES = frozenset({".js", ".mjs", ".cjs", ".ts", ".mts", ".py", ".pyz"})
_SHELL_FOLDER = "fnm_multishells"
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
    if not _is_rekindle_run(program, arguments):
        return None
    _, parser = load_command("run")
    agent = parser.parse_args(arguments[1:]).command
    agent = agent[1:] if agent[:1] == ["--"] else agent
    if not agent:
        raise UsageError("no agent given: the command ends with `rekindle run`")
    return agent


def _is_rekindle_run(program: str, arguments: Sequence[str]) -> bool:
    return _VERSION.sub("", PurePath(program).name) in PROGRAMS and arguments[:1] == ["run"]


def agent_behind(command: Sequence[str]) -> tuple[str, ...] | None:
    """Return the agent's own command if Rekindle starts it, otherwise None.

    Unlike `proxied_command`, accept every command: the result is empty if it has no agent.
    """
    program, *arguments = command[program_index(command) :]
    if not _is_rekindle_run(program, arguments):
        return None
    if "--" in arguments:
        words = tuple(arguments[arguments.index("--") + 1 :])
        # After the dashes, a word is a name only if no program is called like that.
        return agent_command(words) if words and shutil.which(words[0]) is None else words
    try:
        # A command of another release may have options that this one does not know.
        with redirect_stderr(io.StringIO()):
            return agent_command(proxied_command(command) or ())
    except (UsageError, SystemExit):
        return ()


def agent_command(words: Sequence[str]) -> tuple[str, ...]:
    """Return the command of an agent that is given by its name or by its command.

    All names of agents that `setup` and `doctor` meet come through here and `known_command`.
    """
    known = known_command(words[0]) if len(words) == 1 else None
    return known or tuple(words)


def known_command(name: str) -> tuple[str, ...] | None:
    """Return the command of an agent that Rekindle or the configuration file knows by this name.

    Zed's registry adds `-acp` to the name of some agents.
    """
    agents = named_agents()
    agent = agents.get(name) or agents.get(name.removesuffix("-acp"))
    return None if agent is None else agent.command


def _with_full_paths(command: Sequence[str], proxied: Sequence[str]) -> tuple[str, ...]:
    before = command[: len(command) - len(proxied)]
    is_first = program_index(command) == 0
    started = (*rekindle_command(), *before[1:]) if is_first else _resolved(before)
    return (*started, *_resolved(proxied))


def _resolved(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command that works from any folder and with a shorter PATH."""
    program, *arguments = command
    path = program if os.sep in program else find_program(program)
    return (os.path.abspath(path) if path else program, *arguments)  # noqa: PTH100


def find_program(name: str) -> str | None:
    """Return the path of a program on the PATH that other processes can use, if any."""
    path = shutil.which(name)
    folder, program = os.path.split(path or "")
    if _SHELL_FOLDER in PurePath(folder).parts:
        # The Node version manager fnm has a folder for each shell, which is removed with it.
        return str(Path(os.path.realpath(folder)) / program)
    return path


# -- launchers ------------------------------------------------------------------------------


def program_index(command: Sequence[str]) -> int:
    """Return the index of the program that a command starts, after launchers such as npx."""
    index = 0
    while _LAUNCHER.fullmatch(PurePath(command[index]).name):
        following = next_program(command, index + 1)
        if following is None:
            break
        index = following
    return index


def launcher_prefix(command: Sequence[str]) -> tuple[str, ...]:
    """Return the words of the user before Rekindle in a command, such as `env NAME=value`.

    Words of Rekindle's own command are left out, such as `uvx` or `env PYTHONPATH=… python -m`.
    """
    index = 0
    while PurePath(command[index]).name in PREFIX_PROGRAMS:
        following = next_program(command, index + 1)
        if following is None:
            break
        index = following
    prefix = list(command[:index])
    if _PYTHON.fullmatch(PurePath(command[index]).name):
        prefix = [word for word in prefix if not word.startswith("PYTHONPATH=")]
        if prefix and PurePath(prefix[-1]).name == "env":
            del prefix[-1]
    return tuple(prefix)


def program_name(command: Sequence[str]) -> str:
    """Return the name of the program that a command starts."""
    index = program_index(command)
    path = PurePath(command[index])
    if path.suffix in _SCRIPT_SUFFIXES:
        # The program of `agent-one/dist/index.js` is agent-one.
        parts = (*path.parts[:-1], path.stem)
        return next((part for part in reversed(parts) if part not in _GENERIC_NAMES), path.stem)
    return _VERSION.sub("", path.name) or command[index]


def next_program(command: Sequence[str], index: int) -> int | None:
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
