"""The agents that a client can choose with an option of its sessions."""

from pathlib import PurePath

from rekindle.cli.agent_command import independent_of_folder
from rekindle.cli.agent_lookup import named_agents
from rekindle.proxy.connection_state import AgentChoice
from rekindle.text.redact.recorded_command import mask_command


def choices_for(words: tuple[str, ...], command: tuple[str, ...]) -> tuple[AgentChoice, ...]:
    """Return the agent that runs, and then the other installed ones; nothing if it is the only one.

    `words` are those of the command line, and `command` is the command that they stand for.
    """
    agents = named_agents()
    named = agents.get(words[0])
    name = words[0] if named is not None else PurePath(command[0]).name
    title = named.known.title if named is not None and named.known is not None else name
    present = _choice(name, title, command)
    others = tuple(
        _choice(it.name, it.known.title if it.known is not None else it.name, it.command)
        for it in agents.values()
        if it.name != name and it.command != command and it.path is not None
    )
    return (present, *others) if others else ()


def _choice(name: str, title: str, command: tuple[str, ...]) -> AgentChoice:
    recorded = mask_command(independent_of_folder(command))
    return AgentChoice(name=name, title=title, command=command, recorded_command=tuple(recorded))
