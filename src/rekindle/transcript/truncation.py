"""Cut a transcript where a rewind has truncated the history.

`history_truncated` names the last message that stays. Everything that began after it is removed
from the transcript. The record keeps all entries, so nothing is lost.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rekindle.transcript.model import (
    HandoverItem,
    ToolCallItem,
    TranscriptItem,
    TranscriptMessage,
    TranscriptTurn,
)

TOOL_SCOPE = "tool"
"""The scope of the ids of tool calls. The scope of a message's id is its role."""


class Cut(Struct, frozen=True):
    """A place in a transcript, after an item."""

    turn: int = -1
    """The index of the last turn that stays; -1 if none does."""
    item: int = -1
    """The index of the last item that stays in that turn."""


class Truncations(Struct):
    """The rewinds that were folded into a transcript."""

    removed: list[TranscriptTurn] = []
    """The turns, or the ends of turns, that were removed, in the order of the rewinds."""
    last_seq: int = 0
    """The entry of the last rewind; 0 if there was none."""
    unresolved: int = 0
    """The number of rewinds to a message that the transcript does not have."""

    @property
    def is_empty(self) -> bool:
        """Whether the session was never rewound."""
        return not self.removed and not self.unresolved

    def is_after(self, turns: Sequence[TranscriptTurn]) -> bool:
        """Return whether no turn has begun since the last rewind."""
        begun = (turn.items[0].seq for turn in turns if turn.items)
        return self.last_seq > max(begun, default=0)


def message_id(item: TranscriptItem) -> str | None:
    """Return the id by which a client knows a message; None if the item is not one."""
    return item.replay_id if isinstance(item, TranscriptMessage | HandoverItem) else None


def find_message(turns: Sequence[TranscriptTurn], wanted: str) -> Cut | None:
    """Return the place after the message with an id. Of several, the last one counts."""
    for turn in reversed(range(len(turns))):
        items = turns[turn].items
        for item in reversed(range(len(items))):
            if message_id(items[item]) == wanted:
                return Cut(turn, item)
    return None


def previous_message(turns: Sequence[TranscriptTurn], place: Cut) -> str | None:
    """Return the id of the last message before the one at a place; None if that is the first."""
    earlier = [*items_of(turns[: place.turn]), *turns[place.turn].items[: place.item]]
    names = (message_id(item) for item in reversed(earlier))
    return next((name for name in names if name is not None), None)


def remove_after(turns: list[TranscriptTurn], cut: Cut) -> list[TranscriptTurn]:
    """Remove everything after a place; return the removed turns, and the end of a cut turn."""
    removed = turns[cut.turn + 1 :]
    del turns[cut.turn + 1 :]
    if turns and len(turns[-1].items) > cut.item + 1:
        last = turns[-1]
        removed.insert(0, replace(last, items=last.items[cut.item + 1 :]))
        del last.items[cut.item + 1 :]
    return removed


def items_of(turns: Sequence[TranscriptTurn]) -> Iterator[TranscriptItem]:
    """Yield the items of turns."""
    return (item for turn in turns for item in turn.items)


def used_ids(turns: Sequence[TranscriptTurn]) -> set[tuple[str, str]]:
    """Return the scopes and ids of the messages and tool calls in turns."""
    ids: set[tuple[str, str]] = set()
    for item in items_of(turns):
        if isinstance(item, ToolCallItem):
            ids.add((TOOL_SCOPE, item.id))
        elif isinstance(item, TranscriptMessage) and item.id is not None:
            ids.add((item.role, item.id))
    return ids


def terminals_of(turns: Sequence[TranscriptTurn]) -> set[str]:
    """Return the ids of the terminals that the tool calls in turns show."""
    calls = (item for item in items_of(turns) if isinstance(item, ToolCallItem))
    return {terminal for call in calls for terminal in call.terminal_ids}
