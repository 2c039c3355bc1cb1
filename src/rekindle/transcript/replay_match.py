"""Compare the history that an agent replays with the record.

An agent may answer `session/load` with success although it has saved only some of the turns. Its
replay shows which turns it knows. A recorded turn is known if the agent replays its prompt, or its
answer. Agents change what they replay: they add context to a prompt, join its blocks, or drop
attachments. So texts are compared without their white space, and a long prompt may be a part of a
longer text.

A turn that the agent does not replay is *missing* if no later turn is known, or if the session was
opened again right after it: the agent ended before it saved the turn. Other turns that are not
replayed were summarised or removed by the agent, and stay as the agent has them.

A replayed turn that the record does not have is *foreign*: it was made without Rekindle.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import takewhile

from msgspec import Struct

from rekindle.acp.text_chunk import read_text_chunk
from rekindle.acp.update_kinds import is_agent_message, is_user_message
from rekindle.jsonvalue import as_array, as_object, as_str, decode_object
from rekindle.transcript.handover import carries_history
from rekindle.transcript.model import (
    HandoverItem,
    ReminderItem,
    Role,
    TranscriptMessage,
    TranscriptTurn,
)
from rekindle.transcript.preface import user_words

_MIN_PARTIAL = 24
"""A shorter text has to be equal, because it may be a part of any other text."""
_HEAD = 160
_WINDOW = 100
"""The number of recorded turns in which a prompt is searched for that the agent has changed."""
_SAVE_US = 10_000_000
"""The time after the end of a turn in which an agent that is killed may not have saved it."""


class RecordedTurn(Struct, frozen=True, kw_only=True):
    """The parts of a recorded turn by which it is recognised in a replay."""

    number: int
    prompt: str
    """The text of the prompt, with single spaces."""
    answer: str = ""
    """The beginning of the agent's first message, with single spaces."""
    text: str = ""
    """All messages of the agent, with single spaces."""
    is_completed: bool = True
    """Whether the agent ended the turn by itself."""
    carries_history: bool = False
    """Whether the prompt carried a handover or a reminder."""
    precedes_opening: bool = False
    """Whether the session was opened again right after it."""

    @property
    def may_be_unsaved(self) -> bool:
        """Whether the agent may have nothing to save: a slash command that it did not answer."""
        return self.prompt.startswith("/") and not self.answer


class ReplayedTurn(Struct):
    """A turn as the agent replays it."""

    prompt: list[str] = []
    """The text chunks of its user message."""
    has_prompt: bool = True
    answers: list[str] = []
    """The beginnings of the agent's messages, with single spaces."""
    has_output: bool = False
    """Whether anything but a user message is a part of it."""
    lines: list[bytes] = []
    """All its updates, unless a recorded turn has the same prompt."""


class MemoryReport(Struct, frozen=True, kw_only=True):
    """The result of a comparison."""

    known: frozenset[int] = frozenset()
    """The numbers of the recorded turns that the agent knows."""
    missing: tuple[int, ...] = ()
    """The numbers of the recorded turns that the agent has lost; none if it knows none at all."""
    foreign: tuple[tuple[int, ReplayedTurn], ...] = ()
    """Each foreign turn, after the number of the recorded turn that it follows, or 0."""


def recorded_turns(turns: Iterable[TranscriptTurn]) -> list[RecordedTurn]:
    """Return the turns of a transcript that have a prompt, in the form that is compared."""
    return [
        RecordedTurn(
            number=turn.number,
            prompt=prompt,
            answer=_head(next(_texts_of(turn, Role.AGENT), "")),
            text=" ".join(_texts_of(turn, Role.AGENT)),
            is_completed=not turn.was_cut_off and turn.stop_reason != "cancelled",
            carries_history=any(isinstance(it, HandoverItem | ReminderItem) for it in turn.items),
            precedes_opening=turn.precedes_opening,
        )
        for turn in turns
        for prompt in list(_texts_of(turn, Role.USER))[:1]
    ]


def _texts_of(turn: TranscriptTurn, role: Role) -> Iterator[str]:
    for item in turn.items:
        if isinstance(item, TranscriptMessage) and item.role is role:
            yield _collapse("\n".join(as_str(block.get("text")) or "" for block in item.blocks))


# -- reading a replay -----------------------------------------------------------------------


class ReplayReader:
    """Collects the turns of a replay, update by update.

    The lines of a turn are dropped as soon as its prompt is one of the recorded prompts, because
    only foreign turns need them.
    """

    def __init__(self, recorded_prompts: Collection[str] = ()) -> None:
        self.turns: list[ReplayedTurn] = []
        self._recorded_prompts = recorded_prompts
        self._last_kind = ""
        self._answer: list[str] = []
        self._is_held = False
        """Whether the lines of the present turn are kept."""

    def add(self, kind: str, line: bytes) -> None:
        """Add one update of the agent's history."""
        base = kind.removesuffix("_chunk")
        if base != self._last_kind:
            self._end_message()
            self._last_kind = base
            if is_user_message(kind):
                self.turns.append(ReplayedTurn())
                self._is_held = True
        if not self.turns:
            self.turns.append(ReplayedTurn(has_prompt=False))
        if is_user_message(kind):
            self.turns[-1].prompt += _texts(line)
        else:
            self.turns[-1].has_output = True
        if is_agent_message(kind):
            self._answer += _texts(line)
        if self._is_held:
            self.turns[-1].lines.append(line)

    def finish(self) -> list[ReplayedTurn]:
        """Return the turns that the agent has replayed so far."""
        self._end_message()
        self._last_kind = ""
        return self.turns

    def _end_message(self) -> None:
        answer, self._answer = _head(_collapse("".join(self._answer))), []
        if answer:
            self.turns[-1].answers.append(answer)
        if self._last_kind == "user_message":
            turn = self.turns[-1]
            if _collapse("".join(turn.prompt)) in self._recorded_prompts:
                turn.lines, self._is_held = [], False


def _texts(line: bytes) -> list[str]:
    """Return the texts in the content of an update."""
    chunk = read_text_chunk(line)
    if chunk is not None:
        return [chunk.content.text]
    params = as_object((decode_object(line) or {}).get("params"))
    content = as_object(params.get("update")).get("content")
    blocks = as_array(content) or [content]
    return [text for block in blocks if (text := as_str(as_object(block).get("text")))]


# -- comparing ------------------------------------------------------------------------------


def compare(recorded: Sequence[RecordedTurn], replayed: Iterable[ReplayedTurn]) -> MemoryReport:
    """Compare a replay with the recorded turns. Both are in order."""
    index = _RecordedIndex(recorded)
    known: set[int] = set()
    unanswered: set[int] = set()
    foreign: list[tuple[int, ReplayedTurn]] = []
    position = 0
    for turn in replayed:
        found = index.by_prompt(turn, position) or index.by_answer(turn, position)
        before = recorded[position - 1] if position else None
        if found:
            known |= {recorded[i].number for i in found}
            last = recorded[found[-1]]
            if last.is_completed and last.answer and not turn.has_output:
                unanswered.add(last.number)
            position = found[-1] + 1
        elif before is not None and _continues(before, turn):
            # Some agents replay the results of tools as messages of the user.
            unanswered.discard(before.number)
        elif _may_be_foreign(turn):
            foreign.append((before.number if before else 0, turn))
    if not known.issuperset(turn.number for turn in recorded) or known != unanswered:
        # A prompt alone does not show that the agent knows the answer. An agent that replays all
        # prompts and no answer replays in this way.
        known -= unanswered
    known |= _handed_over(recorded, known)
    return MemoryReport(
        known=frozenset(known),
        missing=_missing(recorded, known) if known else (),
        foreign=tuple(foreign) if known else (),
    )


def is_caught_up(recorded: Sequence[RecordedTurn], report: MemoryReport) -> bool:
    """Return whether the agent has replayed the last turn that it completed.

    If it completed none, any turn is enough.
    """
    completed = [turn.number for turn in recorded if turn.is_completed]
    return completed[-1] in report.known if completed else bool(report.known)


def unsaved_turns(
    turns: Sequence[TranscriptTurn], *, saved: int, exit_us: int | None
) -> list[TranscriptTurn]:
    """Return the last turns that an agent may not have saved.

    They were cut off, or ended shortly before the agent did. `saved` is the number of turns that
    the agent is known to have saved. If `exit_us` is None, no process saw the agent exit; then it
    may have exited right after its last turn.
    """
    last_us = exit_us
    if last_us is None and turns:
        last_us = turns[-1].ended_us or turns[-1].at_us

    def may_be_unsaved(turn: TranscriptTurn) -> bool:
        is_recent = (last_us or 0) - (turn.ended_us or 0) < _SAVE_US
        return turn.number > saved and (turn.was_cut_off or is_recent)

    prompted = [turn for turn in turns if any(_texts_of(turn, Role.USER))]
    return list(takewhile(may_be_unsaved, reversed(prompted)))[::-1]


class _RecordedIndex:
    """Finds recorded turns by their texts, from a position on.

    The time must not grow with the square of the turns, so a text that is not equal is searched for
    in the next turns only.
    """

    def __init__(self, recorded: Sequence[RecordedTurn]) -> None:
        self._recorded = recorded
        self._prompts = _positions(turn.prompt for turn in recorded)
        self._answers = _positions(turn.answer for turn in recorded)

    def by_prompt(self, turn: ReplayedTurn, position: int) -> list[int]:
        """Return the indexes of the recorded turns whose prompts a replayed turn has.

        They are several if no answer stood between the prompts, and the agent joins them.
        """
        if not turn.has_prompt:
            return []
        text = _PromptText(turn.prompt)
        first = self._first_prompt(text, position)
        if first is None:
            return []
        found = [first]
        for index in range(first + 1, len(self._recorded)):
            prompt = self._recorded[index].prompt
            is_another = all(prompt != self._recorded[i].prompt for i in found)
            is_joined = not text.is_equal(self._recorded[first].prompt) and is_another
            if not is_joined or not text.contains(prompt):
                break
            found.append(index)
        return found

    def _first_prompt(self, text: "_PromptText", position: int) -> int | None:
        equal = [
            index
            for part in text.parts
            if (index := _next_position(self._prompts, part, position)) is not None
        ]
        end = min(position + _WINDOW, len(self._recorded), *equal)
        near = range(position, end)
        partial = next((i for i in near if text.contains(self._recorded[i].prompt)), None)
        return partial if partial is not None else min(equal, default=None)

    def by_answer(self, turn: ReplayedTurn, position: int) -> list[int]:
        """Return the indexes of the recorded turns whose answers a replayed turn has."""
        found: list[int] = []
        for answer in turn.answers:
            if turn.has_prompt and len(answer) < _MIN_PARTIAL:
                continue
            index = _next_position(self._answers, answer, position)
            if index is not None:
                found.append(index)
                position = index + 1
        return found


def _positions(texts: Iterable[str]) -> dict[str, list[int]]:
    positions: dict[str, list[int]] = {}
    for index, text in enumerate(texts):
        positions.setdefault(text, []).append(index)
    return positions


def _next_position(positions: dict[str, list[int]], text: str, start: int) -> int | None:
    found = positions.get(text, [])
    at = bisect_left(found, start)
    return found[at] if at < len(found) else None


def _continues(before: RecordedTurn, turn: ReplayedTurn) -> bool:
    """Return whether a replayed turn is a further part of the recorded turn before it."""
    return any(answer and answer in before.text for answer in turn.answers)


def _may_be_foreign(turn: ReplayedTurn) -> bool:
    """Return whether a replayed turn that no recorded one matches is a turn of its own.

    Agents also replay hidden context and remarks as user messages. Those have no answer.
    """
    is_ours = carries_history("".join(turn.prompt))
    return turn.has_prompt and bool(turn.answers) and any(turn.prompt) and not is_ours


def _handed_over(recorded: Sequence[RecordedTurn], known: Collection[int]) -> set[int]:
    """Return the turns before the last known prompt that carried a handover or a reminder.

    After it the agent knew all of them: by itself, or because it received them.
    """
    carriers = (turn.number for turn in recorded if turn.carries_history and turn.number in known)
    last = max(carriers, default=0)
    return {turn.number for turn in recorded if turn.number < last}


def _missing(recorded: Sequence[RecordedTurn], known: Collection[int]) -> tuple[int, ...]:
    missing: list[int] = []
    gap: list[int] = []
    for turn in recorded:
        if turn.number in known:
            gap = []
            continue
        if not turn.may_be_unsaved:
            gap.append(turn.number)
        if turn.precedes_opening and turn.number > min(known):
            missing += gap
            gap = []
    return (*missing, *gap)


class _PromptText:
    """The text of a replayed prompt."""

    def __init__(self, chunks: list[str]) -> None:
        lines = [line for chunk in chunks for line in chunk.splitlines()]
        joined = "".join(chunks)
        self._variants = tuple(map(_collapse, (joined, "\n".join(chunks), user_words(joined))))
        parts = {*map(_collapse, chunks), *map(_collapse, lines), *self._variants}
        self.parts = parts - {""} or {""}
        """The texts that may be a whole prompt. A prompt without text has only the empty one."""

    def is_equal(self, prompt: str) -> bool:
        """Return whether a recorded prompt is the whole text."""
        return prompt in self._variants

    def contains(self, prompt: str) -> bool:
        """Return whether a recorded prompt is the whole text, or a part that is recognisable."""
        if prompt in self.parts:
            return True
        if len(prompt) >= _MIN_PARTIAL:
            return any(prompt in variant for variant in self._variants)
        joined = self._variants[0]
        return bool(prompt) and carries_history(joined) and joined.endswith(prompt)


def _collapse(text: str) -> str:
    return " ".join(text.split())


def _head(text: str) -> str:
    return text[:_HEAD].rstrip()
