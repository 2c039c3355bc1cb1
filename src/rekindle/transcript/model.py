"""What a transcript is made of: turns, and the messages, tool calls and plans in them."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from msgspec import Struct

from rekindle.jsonvalue import as_object, as_str, decode_object
from rekindle.model import Entry

_WORDS_A_PASSAGE = 128
PLAIN_TEXT = frozenset({"type", "text"})


class Role(StrEnum):
    """Who speaks, or thinks."""

    USER = "user"
    AGENT = "agent"
    THOUGHT = "thought"


class TranscriptMessage(Struct, kw_only=True):
    """What was said in one go. Chunks of plain text are joined, all else is kept as it came."""

    role: Role
    seq: int
    at_us: int
    protocol: int = 1
    """The version that it was told in."""
    last_seq: int = 0
    """The last entry that had to do with it."""
    id: str | None = None
    name: str | None = None
    """The id that it was given on the way, where the agent gave none."""
    meta: dict[str, Any] = {}
    """What was said beside the words, as it was last said."""
    _done: list[dict[str, Any]] = []
    _passages: list[str] = []
    _words: list[str] = []

    def add(self, block: dict[str, Any]) -> None:
        """Append a content block."""
        if is_plain(block):
            self.add_text(block["text"])
        else:
            self._end_text()
            self._done.append(block)

    def add_text(self, words: str) -> None:
        """Append plain text."""
        self._words.append(words)
        if len(self._words) >= _WORDS_A_PASSAGE:
            # A long answer may come as a million chunks, each an object of its own.
            self._passages.append("".join(self._words))
            self._words.clear()

    def replace(self, blocks: list[Any]) -> None:
        """Let these blocks stand for all there were."""
        self._done.clear()
        self._passages.clear()
        self._words.clear()
        for block in blocks:
            self.add(as_object(block))

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The content blocks."""
        self._end_text()
        return self._done

    def pieces(self, longest: int) -> Iterator[dict[str, Any]]:
        """Yield the content blocks, with plain text cut into pieces of at most `longest`.

        A long text is not put together for it.
        """
        for block in self._done:
            if is_plain(block):
                yield from map(_plain, _cut([block["text"]], longest))
            else:
                yield block
        yield from map(_plain, _cut([*self._passages, *self._words], longest))

    @property
    def text(self) -> str:
        """The words, without what is not text."""
        return "".join(as_str(block.get("text")) or "" for block in self.blocks)

    def _end_text(self) -> None:
        words = _mended("".join([*self._passages, *self._words]))
        self._passages.clear()
        self._words.clear()
        last = self._done[-1] if self._done else None
        if words and last is not None and is_plain(last):
            self._done[-1] = {"type": "text", "text": last["text"] + words}
        elif words:
            self._done.append({"type": "text", "text": words})


def is_plain(block: dict[str, Any]) -> bool:
    """Tell whether a content block is text, and nothing else."""
    is_text = block.get("type") == "text" and isinstance(block.get("text"), str)
    return is_text and block.keys() == PLAIN_TEXT


def _plain(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _cut(parts: list[str], longest: int) -> Iterator[str]:
    """Join parts as far as they fit, and cut those that do not."""
    held: list[str] = []
    size = 0
    if any(part and "\ud800" <= part[-1] <= "\udfff" for part in parts):
        parts = [_mended("".join(parts))]
    for part in parts:
        if held and size + len(part) > longest:
            yield "".join(held)
            held, size = [], 0
        starts = range(0, max(len(part) - longest, 0), longest)
        yield from (part[start : start + longest] for start in starts)
        rest = part[len(starts) * longest :]
        if rest:
            held.append(rest)
            size += len(rest)
    if held:
        yield "".join(held)


def _mended(words: str) -> str:
    """Put characters together that were cut in two: streams are cut anywhere."""
    try:
        words.encode()
    except UnicodeEncodeError:
        return words.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return words


class ToolCallItem(Struct, kw_only=True):
    """A tool call in its latest state; `fields` as ACP has them."""

    id: str
    seq: int
    at_us: int
    last_seq: int = 0
    """The last entry that had to do with it."""
    fields: dict[str, Any]
    outcome: str | None = None
    """What the user answered when asked for permission."""
    is_made_up: bool = False
    """Whether it only stands for a question that was about no tool call."""


class PlanItem(Struct, kw_only=True):
    """The plan as it was last told in its turn; `rest` is what was told beside its entries."""

    seq: int
    at_us: int
    last_seq: int = 0
    """The last entry that had to do with it."""
    entries: list[Any]
    id: str | None = None
    rest: dict[str, Any] = {}


class Gap(Struct, kw_only=True):
    """Entries that the store could not take, or has lost."""

    seq: int
    at_us: int
    last_seq: int = 0
    """The last entry that had to do with it."""
    lost: int
    is_damage: bool = False
    """Whether they were there, and could not be read any more."""

    def __str__(self) -> str:
        entries = "1 entry is" if self.lost == 1 else f"{self.lost} entries are"
        why = "the store was damaged" if self.is_damage else "the store could not be written"
        return f"{entries} missing: {why}"


def gap_in(entry: Entry) -> Gap:
    """Return the gap that an entry marks."""
    told = decode_object(entry.line) or {}
    lost, is_damage = told.get("lostEntries"), told.get("isDamage") is True
    count = lost if isinstance(lost, int) else 0
    return Gap(seq=entry.seq, at_us=entry.at_us, lost=count, is_damage=is_damage)


class HandoverItem(Struct, kw_only=True):
    """The agent was told what had been said before."""

    seq: int
    at_us: int
    last_seq: int = 0
    """The last entry that had to do with it."""


class ReminderItem(Struct, kw_only=True):
    """The agent was told of turns that were cut off, and which it may not have known."""

    seq: int
    at_us: int
    last_seq: int = 0
    """The last entry that had to do with it."""


class OtherItem(Struct, kw_only=True):
    """An update of a kind that is not folded; kept as it came."""

    seq: int
    at_us: int
    last_seq: int = 0
    """The last entry that had to do with it."""
    update: dict[str, Any]
    protocol: int
    """The version that it belongs to."""


Item = TranscriptMessage | ToolCallItem | PlanItem | Gap | HandoverItem | ReminderItem | OtherItem


class TranscriptTurn(Struct, kw_only=True):
    """A prompt and all that answers it."""

    number: int
    at_us: int
    items: list[Item] = []
    ended_us: int | None = None
    ended_seq: int = 0
    """The entry that ended it."""
    stop_reason: str | None = None
    error: dict[str, Any] | None = None
    precedes_opening: bool = False
    """Whether the session was opened again after it, before the next turn."""

    @property
    def unnamed_prompt(self) -> TranscriptMessage | None:
        """The prompt that began it, as long as that has no id."""
        first = self.items[0] if self.items else None
        if (
            not isinstance(first, TranscriptMessage)
            or first.role is not Role.USER
            or first.id is not None
        ):
            return None
        return first

    @property
    def was_cut_off(self) -> bool:
        """Whether the agent was not there to end it."""
        return self.ended_us is None or is_turn_end(self.error)


def is_turn_end(error: object) -> bool:
    """Tell whether an error says that the agent has ended, and nothing of what was asked."""
    return "agentEnded" in as_object(as_object(error).get("data"))


def outcome_label(outcome: dict[str, Any], options: list[Any]) -> str:
    """Return what was answered to a question for permission, as the options call it."""
    chosen = as_str(outcome.get("optionId"))
    for option in map(as_object, options):
        if chosen is not None and option.get("optionId") == chosen:
            return as_str(option.get("name")) or chosen
    return chosen or as_str(outcome.get("outcome")) or "not answered"
