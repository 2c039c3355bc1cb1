"""The items of a transcript that later updates may name or continue, and the ids in use.

An id of a message or a tool call means one thing in the whole session.
"""

from collections.abc import Collection, Iterable
from itertools import islice

from msgspec import Struct, field

from rekindle.transcript.model import (
    PlanItem,
    Role,
    ToolCallItem,
    TranscriptItem,
    TranscriptMessage,
)
from rekindle.transcript.subagents import SessionLinks


class ItemIndex(Struct):
    """The items that later updates may belong to."""

    by_id: dict[tuple[Role, str], TranscriptMessage] = {}
    made_ids: dict[Role, str] = {}
    """The ids that Rekindle gave to the next message of a role."""
    last_with_made_id: TranscriptMessage | None = None
    """The last message with such an id. Chunks without an id continue it."""
    tool_calls: dict[str, ToolCallItem] = {}
    plans: dict[str, PlanItem] = {}
    links: SessionLinks = field(default_factory=SessionLinks)

    def forget(self, items: Iterable[TranscriptItem]) -> None:
        """Forget items that a rewind has removed. Updates with their ids begin new ones."""
        gone = {id(item) for item in items}
        self.by_id = {key: it for key, it in self.by_id.items() if id(it) not in gone}
        self.tool_calls = {key: it for key, it in self.tool_calls.items() if id(it) not in gone}
        self.plans = {key: it for key, it in self.plans.items() if id(it) not in gone}
        self.links.forget(gone)
        self.made_ids.clear()
        self.last_with_made_id = None


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
