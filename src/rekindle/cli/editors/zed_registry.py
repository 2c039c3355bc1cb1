"""Find the command of an agent that Zed has installed from the ACP registry.

Zed's settings have only the agent's id. Zed keeps a copy of the registry, which names a package of
npm or PyPI, or an archive with a program. Zed's own copy of the program is not used: its path has
the version in it.
"""

import platform
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from rekindle.cli.editors.agents import find_program, known_command
from rekindle.cli.editors.json_agents import RegistryCommand
from rekindle.cli.editors.paths import data_home
from rekindle.cli.known_agents import agent_of_program
from rekindle.jsonvalue import as_array, as_object, as_str, decode_object

_REGISTRY = "external_agents/registry/registry.json"
_VERSION = re.compile(r"(?<=.)@[^@/]*$")
_PYTHON_VERSION = re.compile(r"(?<=.)(?:@|==).*$")
_ARCHITECTURES = {"arm64": "aarch64", "amd64": "x86_64"}


def registry_command(agent_id: str) -> RegistryCommand:
    """Return a command for an agent of the registry, or the reason why it has none."""
    agents = (agent for file in _files() for agent in _agents(file))
    entry = next((agent for agent in agents if agent.get("id") == agent_id), None)
    commands = list(_commands(as_object(entry.get("distribution")))) if entry else []
    known = known_command(agent_id)
    if known:
        commands.append(([], known))
    for variables, command in commands:
        program = find_program(command[0])
        if program:
            env = [shutil.which("env") or "env", *variables] if variables else []
            return RegistryCommand(command=(*env, program, *command[1:]))
    if commands:
        programs = list(dict.fromkeys(command[0] for _, command in commands))
        found = next(filter(None, map(agent_of_program, programs)), None)
        how = f": {found.install}" if found else ""
        problem = f"Zed uses a copy of its own; install {' or '.join(programs)} first{how}"
        return RegistryCommand(problem=problem)
    by_hand = f"`rekindle setup zed --name {shlex.quote(agent_id)} -- COMMAND`"
    return RegistryCommand(problem=f"Zed uses a copy of its own; name its command: {by_hand}")


def _commands(distribution: dict[str, Any]) -> Iterator[tuple[list[str], tuple[str, ...]]]:
    """Yield variables and a command for each way to get an agent."""
    system = "darwin" if sys.platform == "darwin" else "linux"
    machine = platform.machine().lower()
    key = f"{system}-{_ARCHITECTURES.get(machine, machine)}"
    binary = as_object(as_object(distribution.get("binary")).get(key))
    program = PurePosixPath(as_str(binary.get("cmd")) or "").name
    if program:
        yield _variables(binary), (program, *_arguments(binary))
    # The version is left out, because Zed does not update the agent any more.
    for name, options, version in (("npx", ["-y"], _VERSION), ("uvx", [], _PYTHON_VERSION)):
        way = as_object(distribution.get(name))
        package = version.sub("", as_str(way.get("package")) or "")
        if package:
            yield _variables(way), (name, *options, package, *_arguments(way))


def _arguments(way: dict[str, Any]) -> list[str]:
    return list(map(str, as_array(way.get("args"))))


def _variables(way: dict[str, Any]) -> list[str]:
    return [f"{name}={value}" for name, value in as_object(way.get("env")).items()]


def _agents(file: Path) -> list[dict[str, Any]]:
    try:
        index = decode_object(file.read_bytes()) or {}
    except OSError:
        return []
    return [as_object(agent) for agent in as_array(index.get("agents"))]


def _files() -> list[Path]:
    home = Path.home()
    folders = [
        data_home() / "zed",
        home / ".var/app/dev.zed.Zed/data/zed",
        home / "Library/Application Support/Zed",
    ]
    return [folder / _REGISTRY for folder in folders]
