"""Find the command of an agent that is given by its name, or by a command.

The configuration file and `known_agents` have the names, in this order. Rekindle never installs or
downloads an agent: its program must be on PATH.
"""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from rekindle.cli.known_agents import KNOWN_AGENTS, KnownAgent, agent_of_program
from rekindle.configuration.location import existing_configuration_path
from rekindle.errors import AgentNotStarted
from rekindle.process.group import NOT_FOUND

BUILT_IN = "built-in"
CONFIGURED = "configuration"
_LIST_HINT = "`rekindle agents` lists the known agents"
_ACP_ARGUMENTS = (["acp"], ["--acp"], ["--experimental-acp"])
_LIKENESS = 0.7
_MAX_OFFERS = 3
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


class NamedAgent(NamedTuple):
    """An agent that can be started by its name."""

    name: str
    command: tuple[str, ...]
    known: KnownAgent | None
    """The row of the table with this name, or with this program."""
    source: str
    """`BUILT_IN` or `CONFIGURED`."""
    variables: Mapping[str, str] = _NO_VARIABLES
    """The environment variables that the configuration file sets for it."""

    @property
    def path(self) -> str | None:
        """The path of its program; None if it is not installed."""
        return shutil.which(self.command[0])

    @property
    def remedy(self) -> str:
        """Instructions to install it, as the end of an error message."""
        return self.known.remedy if self.known else "install it, or correct the configuration file"


class ChosenAgent(NamedTuple):
    """The agent that words of a command line choose."""

    command: tuple[str, ...]
    name: str | None = None
    """Its name in `named_agents`, if the words have it."""


def named_agents() -> dict[str, NamedAgent]:
    """Return all agents that have a name: those of the table, then those of the file."""
    built_in = (NamedAgent(it.name, it.command, it, BUILT_IN) for it in KNOWN_AGENTS)
    agents = {agent.name: agent for agent in built_in}
    for name, fields in _configured().items():
        former = agents.get(name)
        command: tuple[str, ...] | None = fields.get("command")
        if command is None and former is None:
            # `rekindle config` reports it.
            continue
        agents[name] = NamedAgent(
            name=name,
            command=command or (former.command if former else ()),
            known=agent_of_program(command[0]) if command else former and former.known,
            source=CONFIGURED,
            variables=fields.get("env", _NO_VARIABLES),
        )
    return agents


def names_without_command() -> list[str]:
    """Return the names in the configuration file that need a command and have none."""
    return sorted(_configured().keys() - named_agents().keys())


def _configured() -> dict[str, dict[str, Any]]:
    """Return the fields of each agent in the configuration file."""
    if existing_configuration_path() is None:
        return {}
    from rekindle.configuration.file import load_configuration

    configuration = load_configuration()
    agents: dict[str, dict[str, Any]] = {}
    for key, value in (configuration.section("agents") if configuration else {}).items():
        name, _, field = key.partition(".")
        agents.setdefault(name, {})[field] = value
    return agents


def resolve_agent(words: Sequence[str], *, is_command: bool = False) -> ChosenAgent:
    """Return the agent that words of a command line choose.

    The first word may be a name; further words are then added to its command. Words that are the
    agent's whole command already, such as `opencode acp`, stay as they are.

    With `is_command`, the words stood after `--`, where a program that is installed is never
    replaced: they count as a name only if no such program is found. Nothing is checked: see
    `check_installed`.
    """
    name, *arguments = words
    agent = None if os.sep in name else named_agents().get(name)
    if agent is None or (is_command and shutil.which(name)):
        return ChosenAgent(tuple(words))
    if _is_complete(agent, words):
        return ChosenAgent(tuple(words), name)
    return ChosenAgent((*agent.command, *arguments), name)


def _is_complete(agent: NamedAgent, words: Sequence[str]) -> bool:
    """Return whether the words are the agent's own program with arguments that select ACP.

    They do if they have all arguments of the agent's command, or begin with a usual one.
    """
    program, *arguments = words
    is_whole = set(agent.command[1:]) <= set(arguments)
    return program == agent.command[0] and (is_whole or arguments[:1] in _ACP_ARGUMENTS)


def installed_agent(words: Sequence[str], *, is_command: bool = False) -> ChosenAgent:
    """Return the agent as `resolve_agent` does. Raises AgentNotStarted if it is not found."""
    agent = resolve_agent(words, is_command=is_command)
    check_installed(agent.command)
    return agent


def check_installed(command: Sequence[str]) -> None:
    """Raise AgentNotStarted with a remedy if no folder of PATH has the program of a command."""
    if os.sep not in command[0] and shutil.which(command[0]) is None:
        raise AgentNotStarted(explain_missing(command[0]), NOT_FOUND)


def explain_missing(program: str) -> str:
    """Return an error message for a program or name that is not found, with the remedy."""
    text = f"command not found: {program}"
    agents = named_agents()
    agent = agents.get(program)
    known = (agent and agent.known) or agent_of_program(program)
    if known is not None:
        return f"{text}: {known.remedy}"
    if os.sep in program:
        return text
    from difflib import get_close_matches

    near = get_close_matches(program.lower(), agents, 1, _LIKENESS)
    return f"{text}: did you mean {near[0]}? {_LIST_HINT}" if near else f"{text}: {_LIST_HINT}"


def offer_installed(name: str) -> str:
    """Return the agents other than `name` that are installed, as arguments; "" if none is."""
    found = [it.name for it in named_agents().values() if it.name != name and it.path is not None]
    return ", ".join(f"`-- {name}`" for name in found[:_MAX_OFFERS])


def variables_for(agent: ChosenAgent, warn: Callable[[str], None]) -> Mapping[str, str]:
    """Return the environment variables that the configuration file sets for an agent.

    They are those of its name. An agent that is chosen by its command, such as the agent of a
    recorded session, gets the variables of the agent whose command its words begin with. If
    several agents have that command, it gets none: they may be secrets of another account.
    """
    agents = named_agents()
    if agent.name is not None:
        return agents[agent.name].variables if agent.name in agents else _NO_VARIABLES
    begun = [it for it in agents.values() if agent.command[: len(it.command)] == it.command]
    longest = max((len(it.command) for it in begun), default=0)
    found = [it for it in begun if len(it.command) == longest]
    if not found or all(it.variables == found[0].variables for it in found):
        return found[0].variables if found else _NO_VARIABLES
    names = ", ".join(sorted(it.name for it in found))
    warn(
        f"these agents have the same command: {names}; no environment variables are set for it:"
        " give the agent's name instead of its command"
    )
    return _NO_VARIABLES
