"""The agents in an editor's JSON file: list them, add one, and wrap them. Pure, except for PATH.

An entry is an object with `command` and `args`. Wrapping changes these two, and `type` for Zed. All
other fields stay, such as `env`.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, cast

from msgspec import Struct

from rekindle.cli.editors.agents import EditorAgent, launcher_prefix, program_index
from rekindle.cli.editors.entries import Action, AgentEntry, Outcome
from rekindle.cli.editors.installation import rekindle_command
from rekindle.cli.editors.jsonc import find, prepend, set_value, update
from rekindle.cli.editors.programs import missing_program
from rekindle.errors import FileUnclear
from rekindle.jsonvalue import as_array, as_object

FIELDS = ("type", "command", "args")
"""The fields of an entry that wrapping changes."""

REGISTRY_TYPES = frozenset({"registry", "extension"})
"""The types of Zed's entries that name an agent of the ACP registry. The second one is older."""


class RegistryCommand(Struct, frozen=True, kw_only=True):
    """The command that starts an agent of the ACP registry without the editor."""

    command: tuple[str, ...] = ()
    problem: str = ""
    """Why there is no command."""


class JsonAgents(Struct, frozen=True, kw_only=True):
    """The place and form of the agents in a JSON file."""

    key: str
    """The key of the object that has the agents by name."""
    type: str | None = None
    """The type of an entry with a command, if the editor needs one."""
    registry: Callable[[str], RegistryCommand] | None = None
    """Finds the command of an agent that the editor has from the ACP registry."""

    def snippet(self, agent: EditorAgent) -> str:
        """Return a file with this agent only."""
        return self.insert("", agent)

    def insert(self, text: str, agent: EditorAgent) -> str:
        """Return the text with an agent: added, or with another command. Raises FileUnclear."""
        return update(text, (self.key, agent.name), self._fields(agent.command))

    def entries(self, text: str) -> list[AgentEntry]:
        """Return the agents in a text. Raises FileUnclear."""
        holder = find(text, (self.key,))
        if holder is None:
            return []
        if holder.members is None:
            raise FileUnclear(f"{self.key} is not an object")
        return [self._entry(name, value.data) for name, value in holder.members.items()]

    def _entry(self, name: str, data: object) -> AgentEntry:
        fields = as_object(data)
        command: object = fields.get("command")
        arguments: object = fields.get("args", [])
        if isinstance(command, str) and command and isinstance(arguments, list):
            words = (command, *map(str, as_array(cast("object", arguments))))
            return AgentEntry(name=name, command=words)
        is_from_registry = self.registry is not None and fields.get("type") in REGISTRY_TYPES
        problem = "" if is_from_registry else "it has no command"
        return AgentEntry(name=name, is_from_registry=is_from_registry, problem=problem)

    def wrap(self, text: str, names: Sequence[str] | None) -> tuple[str, list[Outcome]]:
        """Wrap the agents of these names, or all. Raises FileUnclear if the text is unclear.

        An entry that cannot be wrapped is skipped.
        """
        outcomes: list[Outcome] = []
        for entry in self.entries(text):
            if names is None or entry.name in names:
                try:
                    text, outcome = self._wrap(text, entry)
                except FileUnclear as error:
                    outcome = Outcome(name=entry.name, action=Action.SKIPPED, text=str(error))
                outcomes.append(outcome)
        return text, outcomes

    def _wrap(self, text: str, entry: AgentEntry) -> tuple[str, Outcome]:
        name, path = entry.name, (self.key, entry.name)
        if entry.is_wrapped:
            if not missing_program(entry.command):
                return text, Outcome(name=name, action=Action.UNCHANGED)
            # The arguments of `rekindle run` stay, and so does what the user wrote before it.
            rest = entry.command[program_index(entry.command) + 1 :]
            command = (*launcher_prefix(entry.command), *rekindle_command(), *rest)
            text = update(text, path, self._fields(command))
            return text, Outcome(name=name, action=Action.REPAIRED, text=command[0])
        if entry.is_from_registry and self.registry:
            found = self.registry(name)
            if found.problem:
                return text, Outcome(name=name, action=Action.SKIPPED, text=found.problem)
            text = update(text, path, self._fields((*_run(), *found.command)))
            return text, Outcome(name=name, action=Action.WRAPPED)
        if entry.problem:
            return text, Outcome(name=name, action=Action.SKIPPED, text=entry.problem)
        return self._with_prefix(text, entry), Outcome(name=name, action=Action.WRAPPED)

    def _with_prefix(self, text: str, entry: AgentEntry) -> str:
        """Put `rekindle run --` before a command. Comments between its arguments stay."""
        path = (self.key, entry.name)
        rekindle, *prefix = _run()
        # Editors expand a tilde in the program's path, but not in an argument.
        prefix.append(os.path.expanduser(entry.command[0]))  # noqa: PTH111 - any text
        if self.type:
            text = set_value(text, (*path, "type"), self.type)
        text = set_value(text, (*path, "command"), rekindle)
        if find(text, (*path, "args")) is None:
            return set_value(text, (*path, "args"), prefix)
        return prepend(text, (*path, "args"), prefix)

    def _fields(self, command: Sequence[str]) -> dict[str, Any]:
        fields: dict[str, Any] = {"command": command[0], "args": list(command[1:])}
        return {"type": self.type, **fields} if self.type else fields


def _run() -> tuple[str, ...]:
    return (*rekindle_command(), "run", "--")
