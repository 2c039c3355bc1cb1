"""The ids of messages and tool calls: each means one thing in the whole session."""

from collections.abc import Collection
from itertools import islice

from msgspec import Struct


class IdRegistry(Struct):
    """The ids that are in use, each in the scope of its kind of item."""

    used: dict[tuple[str, str], str] = {}
    retired: int = 0
    """The number of ids from before the last handover. The agent may use them again."""
    suffix: str = ""
    """The suffix that an id receives when the agent uses it again."""

    def claim(self, scope: str, given: str, seq: int) -> str:
        """Return the id under which a new thing is known: the agent's, unless it is in use."""
        own = given if (scope, given) not in self.used else f"{given}~{seq}"
        return self.used.setdefault((scope, own), own)

    def retire(self, suffix: str) -> None:
        """Let the agent use all ids again."""
        self.retired, self.suffix = len(self.used), suffix

    @property
    def retired_ids(self) -> frozenset[str]:
        """The ids from before the last handover."""
        return frozenset(islice(self.used.values(), self.retired))

    def release(self, freed: Collection[tuple[str, str]]) -> None:
        """Free the ids of items that a rewind has removed. Each has a scope and an id."""
        self.retired -= sum(key in freed for key in islice(self.used, self.retired))
        self.used = {key: own for key, own in self.used.items() if key not in freed}
