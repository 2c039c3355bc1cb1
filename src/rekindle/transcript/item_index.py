"""The items of a transcript that later updates may name, or continue."""

from collections.abc import Iterable

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
