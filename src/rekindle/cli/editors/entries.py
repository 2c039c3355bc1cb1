"""An agent as an editor's file has it, and the result of a change to it."""

from enum import StrEnum

from msgspec import Struct

from rekindle.cli.editors.agents import agent_behind


class AgentEntry(Struct, frozen=True, kw_only=True):
    """An agent in an editor's file."""

    name: str
    """Empty if the file does not show it."""
    command: tuple[str, ...] = ()
    """The command that the editor starts, empty if the file does not have it."""
    is_from_registry: bool = False
    """Whether the editor installs the agent from the ACP registry."""
    problem: str = ""
    """Why the entry cannot be wrapped, if the file shows that."""

    @property
    def agent(self) -> tuple[str, ...] | None:
        """The agent's own command if Rekindle starts it, otherwise None."""
        return agent_behind(self.command) if self.command else None

    @property
    def is_wrapped(self) -> bool:
        """Whether the editor starts the agent behind Rekindle."""
        return self.agent is not None


class Action(StrEnum):
    """The effect of a change on an entry."""

    ADDED = "added"
    WRAPPED = "wrapped"
    REPAIRED = "repaired"
    """It was wrapped, but Rekindle is at another place now."""
    RESTORED = "restored"
    REMOVED = "removed"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"


class Outcome(Struct, frozen=True, kw_only=True):
    """The result of a change for one agent."""

    name: str
    action: Action
    text: str = ""
    """The command, or the reason why the entry was skipped."""
