"""Compare the history that an agent replays with the record.

An agent may answer `session/load` with success although it has saved only some of the turns. Its
replay shows which turns it knows. The recorded and the replayed turns are aligned: each match has a
score, both sides stay in order, and the alignment with the highest total wins. So a prompt that
occurs several times ("go on") is matched where its answer and its neighbours fit.

Agents change the texts that they replay: they add context to a prompt, join its blocks, or drop
attachments. So white space is ignored, and a prompt may be a part of a longer text.

A recorded turn that is not matched is *missing* if no later turn is known, or if the session was
opened again right after it: the agent ended before it saved the turn. So is a completed turn whose
answer the agent does not replay. Other turns that are not replayed were summarised or removed by
the agent, and stay as the agent has them.

A replayed turn after the first match that the record does not have is *foreign*: it was made
without Rekindle. Before the first match, agents replay summaries and context.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice, takewhile

from msgspec import Struct
from msgspec.structs import replace

from rekindle.acp.text_chunk import read_text_chunk
from rekindle.acp.update_kinds import is_agent_message, is_user_message
from rekindle.jsonvalue import Json, as_array, as_object, as_str, decode_object
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
"""A shorter text may be a part of any other text by chance."""
_ANSWER_HEAD = 120
_MAX_PROMPT = 16_000
"""Longer prompts are compared by their beginning and their end."""
_MAX_ANSWER = 4_000
_MAX_PIECES = 4
"""An agent may divide a message. Its parts are recognised in the first pieces of the message."""
_MAX_HELD_BYTES = 32 * 1024 * 1024
"""The limit for the lines of replayed turns. Turns beyond it cannot be recorded."""
_MAX_PAIRS = 10_000
_WINDOW = 20
"""The number of turns around the expected place, in a long session."""
_SAVE_US = 10_000_000
"""The time after the end of a turn in which an agent that is killed may not have saved it."""
_COMMAND = re.compile(r"/[a-z][\w:-]*(\s|$)", re.IGNORECASE)


class RecordedTurn(Struct, frozen=True, kw_only=True):
    """The parts of a recorded turn by which it is recognised in a replay."""

    number: int
    prompt: str
    """The text of the prompt, with single spaces."""
    answer: str = ""
    """The beginnings of the agent's messages, without white space."""
    is_completed: bool = True
    """Whether the agent ended the turn by itself."""
    carries_history: bool = False
    """Whether the prompt carried a handover or a reminder."""
    precedes_opening: bool = False
    """Whether the session was opened again right after it."""

    @property
    def may_be_unsaved(self) -> bool:
        """Whether it is a slash command: agents do not save all of them."""
        return _COMMAND.match(self.prompt) is not None


class ReplayedTurn(Struct):
    """A turn as the agent replays it."""

    prompt: list[str] = []
    """The text chunks of its user message."""
    has_prompt: bool = True
    answers: list[str] = []
    """The beginnings of the agent's messages, without white space."""
    lines: list[bytes] = []
    """All its updates; empty if they are not needed, or were too many."""


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
            prompt=_collapse(_shortened(prompt)),
            answer=_squeeze("".join(_beginnings(turn))),
            is_completed=not turn.was_cut_off and turn.stop_reason != "cancelled",
            carries_history=any(isinstance(it, HandoverItem | ReminderItem) for it in turn.items),
            precedes_opening=turn.precedes_opening,
        )
        for turn in turns
        for prompt in list(_prompts(turn))[:1]
    ]


def _prompts(turn: TranscriptTurn) -> Iterator[str]:
    for item in turn.items:
        if isinstance(item, TranscriptMessage) and item.role is Role.USER:
            yield "\n".join(as_str(block.get("text")) or "" for block in item.blocks)


def _beginnings(turn: TranscriptTurn) -> Iterator[str]:
    """Yield the beginning of each message of the agent. A long one is not joined for that."""
    for item in turn.items:
        if isinstance(item, TranscriptMessage) and item.role is Role.AGENT:
            pieces = islice(item.pieces(_MAX_ANSWER), _MAX_PIECES)
            yield "".join(as_str(piece.get("text")) or "" for piece in pieces)


# -- reading a replay -----------------------------------------------------------------------


class ReplayStats(Struct):
    """Counts of the history that an agent has replayed."""

    lines: int = 0
    user_messages: int = 0
    has_answers: bool = False
    last_kind: str = ""

    def add(self, kind: str, *, is_user: bool) -> None:
        """Count one update."""
        self.lines += 1
        self.user_messages += is_user and self.last_kind != kind
        self.has_answers = self.has_answers or not is_user
        self.last_kind = kind

    def covers(self, turns: int) -> bool:
        """Return whether the agent replayed an answer and at least as many prompts as `turns`."""
        return self.has_answers and self.user_messages >= max(turns, 1)


class ReplayReader:
    """Collects the turns of a replay, update by update.

    The lines of a turn are dropped when it ends if the record has the same prompt and answer,
    because only foreign turns need them.
    """

    def __init__(self, recorded: Sequence[RecordedTurn] = ()) -> None:
        self._recorded: dict[str, list[str]] = {}
        for turn in recorded:
            self._recorded.setdefault(turn.prompt, []).append(turn.answer)
        self._turns: list[ReplayedTurn] = []
        self._last_kind = ""
        self._prompt_id: str | None = None
        self._answer: list[str] = []
        self._held_bytes = 0

    def add(self, kind: str, line: bytes) -> None:
        """Add one update of the agent's history."""
        base = kind.removesuffix("_chunk")
        is_user = is_user_message(kind)
        message_id = _message_id(line) if is_user else None
        is_next = is_user and message_id != (self._prompt_id or message_id)
        if base != self._last_kind or is_next:
            self._end_message()
            self._last_kind = base
            if is_user:
                self._end_turn()
                self._turns.append(ReplayedTurn())
                self._prompt_id = message_id
        if not self._turns:
            self._turns.append(ReplayedTurn(has_prompt=False))
        turn = self._turns[-1]
        if is_user:
            turn.prompt += _texts(line)
        elif is_agent_message(kind):
            self._answer += _texts(line)
        if self._held_bytes + len(line) > _MAX_HELD_BYTES:
            # A part of a turn must not be recorded as a whole one.
            self._drop_lines(turn)
        elif turn.lines or is_user:
            turn.lines.append(line)
            self._held_bytes += len(line)

    def snapshot(self) -> list[ReplayedTurn]:
        """Return the turns that the agent has replayed so far. Reading can continue after it."""
        if not self._turns:
            return []
        last = self._turns[-1]
        answers = [*last.answers, *self._open_answer()]
        return [*self._turns[:-1], replace(last, answers=answers, lines=list(last.lines))]

    def _open_answer(self) -> list[str]:
        answer = _squeeze("".join(self._answer))[:_ANSWER_HEAD]
        return [answer] if answer else []

    def _end_message(self) -> None:
        if self._answer:
            self._turns[-1].answers += self._open_answer()
            self._answer = []

    def _end_turn(self) -> None:
        if not self._turns:
            return
        turn = self._turns[-1]
        prompt = _collapse(_shortened("".join(turn.prompt)))
        answers = self._recorded.get(prompt, [])
        if any(_agrees(answer, turn) for answer in answers):
            self._drop_lines(turn)

    def _drop_lines(self, turn: ReplayedTurn) -> None:
        self._held_bytes -= sum(map(len, turn.lines))
        turn.lines = []


def _message_id(line: bytes) -> str | None:
    return as_str(_update_in(line).get("messageId"))


def _update_in(line: bytes) -> Json:
    params = as_object((decode_object(line) or {}).get("params"))
    return as_object(params.get("update"))


def _texts(line: bytes) -> list[str]:
    """Return the texts in the content of an update."""
    chunk = read_text_chunk(line)
    if chunk is not None:
        return [chunk.content.text]
    content = _update_in(line).get("content")
    blocks = as_array(content) or [content]
    return [text for block in blocks if (text := as_str(as_object(block).get("text")))]


# -- comparing ------------------------------------------------------------------------------


def compare(recorded: Sequence[RecordedTurn], replayed: Sequence[ReplayedTurn]) -> MemoryReport:
    """Compare a replay with the recorded turns. Both are in order."""
    if not recorded:
        own = tuple((0, turn) for turn in replayed if _may_be_foreign(turn))
        return MemoryReport(foreign=own)
    replayed = [part for turn in replayed for part in _split_answers(turn)]
    texts = [_PromptText(turn) for turn in replayed]
    pairs = _align(recorded, texts)
    known = _known_turns(recorded, replayed, pairs)
    for index, place in pairs:
        known |= _joined_prompts(recorded, index, texts[place], {i for i, _ in pairs})
    known |= _handed_over(recorded, known)
    if not known:
        return MemoryReport()
    return MemoryReport(
        known=frozenset(known),
        missing=_missing(recorded, known),
        foreign=_foreign_turns(recorded, replayed, pairs),
    )


def _split_answers(turn: ReplayedTurn) -> list[ReplayedTurn]:
    """Return a part for each answer if the agent replays no prompts; otherwise the turn itself."""
    if turn.has_prompt:
        return [turn]
    return [ReplayedTurn(has_prompt=False, answers=[answer]) for answer in turn.answers]


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

    prompted = [turn for turn in turns if any(_prompts(turn))]
    return list(takewhile(may_be_unsaved, reversed(prompted)))[::-1]


class _PromptText:
    """The text of a replayed prompt, and the answers that follow it."""

    def __init__(self, turn: ReplayedTurn) -> None:
        joined = _shortened("".join(turn.prompt))
        own = _collapse(user_words(joined))
        lines = [_collapse(joined), _collapse("\n".join(turn.prompt)[: 2 * _MAX_PROMPT]), own]
        self.has_prompt = turn.has_prompt
        self.turn = turn
        self.whole = {line for line in lines if line} or {""}
        """The texts that may be the whole prompt."""
        chunks = {_collapse(chunk) for chunk in turn.prompt if len(chunk) <= _MAX_PROMPT}
        self.parts = self.whole | {chunk for chunk in chunks if chunk}
        self._carries_history = carries_history(joined)

    def score(self, recorded: RecordedTurn, *, is_unique: bool) -> int:
        """Return how much speaks for a match with a recorded turn; 0 excludes it."""
        agrees = _agrees(recorded.answer, self.turn)
        differs = not agrees and bool(recorded.answer) and bool(self.turn.answers)
        if not self.has_prompt:
            return 2 if agrees else 0
        prompt, is_long = recorded.prompt, len(recorded.prompt) >= _MIN_PARTIAL
        if prompt in self.parts:
            lacks = bool(recorded.answer) and not self.turn.answers
            return 5 if agrees else self._without_answer(differs, is_long or is_unique, lacks)
        if prompt and any(_contains(text, prompt) for text in self.whole):
            is_enough = is_long or (self._carries_history and self._ends_with(prompt))
            return 4 if agrees else 2 * (is_enough and not differs) + (is_long and differs)
        has_long_answer = any(len(answer) >= _MIN_PARTIAL for answer in self.turn.answers)
        return 2 if agrees and has_long_answer else 0

    @staticmethod
    def _without_answer(differs: bool, is_telling: bool, lacks: bool) -> int:  # noqa: FBT001
        if differs:
            return 1 if is_telling else 0
        return 3 - lacks

    def _ends_with(self, prompt: str) -> bool:
        return any(text.endswith(prompt) for text in self.whole)


def _agrees(answer: str, turn: ReplayedTurn) -> bool:
    """Return whether a replayed turn has a message of a recorded answer."""
    return bool(answer) and any(head in answer for head in turn.answers)


def _contains(text: str, part: str) -> bool:
    """Return whether a text contains another one as whole words."""
    at = text.find(part)
    if at < 0:
        return False
    before, after = text[at - 1 : at], text[at + len(part) : at + len(part) + 1]
    return not (before.isalnum() or after.isalnum())


def _align(recorded: Sequence[RecordedTurn], texts: Sequence[_PromptText]) -> list[tuple[int, int]]:
    """Return the matches with the highest total score, in order, as pairs of indexes."""
    prompts = Counter(turn.prompt for turn in recorded)
    repeated = Counter(part for text in texts for part in text.parts)
    best = _PrefixMaximum(len(recorded))
    for place, text in enumerate(texts):
        found: list[tuple[int, int]] = []
        for index in _candidates(recorded, texts, place):
            turn = recorded[index]
            is_unique = prompts[turn.prompt] == 1 and repeated[turn.prompt] == 1
            score = text.score(turn, is_unique=is_unique)
            if score:
                found.append((index, score))
        # All are looked up before any is added: a replayed turn matches one recorded turn.
        ends = [(index, best.before(index).extended(index, place, score)) for index, score in found]
        for index, end in ends:
            best.add(index, end)
    return best.before(len(recorded)).pairs()


def _candidates(
    recorded: Sequence[RecordedTurn], texts: Sequence[_PromptText], place: int
) -> Iterable[int]:
    """Return the indexes of the recorded turns that a replayed turn is compared with."""
    count = len(recorded)
    if count * len(texts) <= _MAX_PAIRS:
        return range(count)
    # The agent may lack the last turns, or may have removed the first ones.
    near: set[int] = set()
    for expected in (place, place + count - len(texts)):
        near.update(range(max(0, expected - _WINDOW), min(count, expected + _WINDOW + 1)))
    return sorted(near)


class _Chain(Struct, frozen=True):
    """A chain of matches, linked from its last one."""

    total: int = 0
    last: tuple[int, int] | None = None
    former: "_Chain | None" = None

    def extended(self, index: int, place: int, score: int) -> "_Chain":
        return _Chain(self.total + score, (index, place), self)

    def pairs(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        chain: _Chain | None = self
        while chain is not None and chain.last is not None:
            found.append(chain.last)
            chain = chain.former
        return found[::-1]


class _PrefixMaximum:
    """The best chain that ends before an index (a Fenwick tree)."""

    def __init__(self, size: int) -> None:
        self._tree = [_Chain()] * (size + 1)

    def add(self, index: int, chain: _Chain) -> None:
        at = index + 1
        while at < len(self._tree):
            if chain.total > self._tree[at].total:
                self._tree[at] = chain
            at += at & -at

    def before(self, index: int) -> _Chain:
        best, at = _Chain(), index
        while at > 0:
            # Among equals the earliest wins: an agent that was killed lacks the last turns.
            if self._tree[at].total >= best.total:
                best = self._tree[at]
            at -= at & -at
        return best


def _known_turns(
    recorded: Sequence[RecordedTurn],
    replayed: Sequence[ReplayedTurn],
    pairs: Sequence[tuple[int, int]],
) -> set[int]:
    """Return the numbers of the matched turns of which the agent also knows the answer."""
    ends = [*(place for _, place in pairs[1:]), len(replayed)][: len(pairs)]
    known: set[int] = set()
    for (index, place), end in zip(pairs, ends, strict=True):
        turn = recorded[index]
        # Some agents replay the results of tools as messages of the user, inside of the turn.
        parts = replayed[place:end]
        has_answer = bool(parts[0].answers) or any(_agrees(turn.answer, it) for it in parts)
        if has_answer or not turn.answer or not turn.is_completed:
            known.add(turn.number)
    if not any(turn.answers for turn in replayed) and len(pairs) == len(recorded):
        # The agent replays prompts only, and all of them.
        return {turn.number for turn in recorded}
    return known


def _joined_prompts(
    recorded: Sequence[RecordedTurn], index: int, text: _PromptText, matched: Collection[int]
) -> set[int]:
    """Return the turns beside a match whose prompts the agent has joined to it.

    Agents join prompts that no answer separates.
    """
    whole, prompt = max(text.whole, key=len), recorded[index].prompt
    before, _, after = whole.rpartition(prompt) if prompt else ("", "", "")
    joined: set[int] = set()
    for neighbour in range(index - 1, -1, -1):
        turn = recorded[neighbour]
        if neighbour in matched or turn.answer or not turn.prompt or turn.prompt not in before:
            break
        before = before.rpartition(turn.prompt)[0]
        joined.add(turn.number)
    for neighbour in range(index + 1, len(recorded)):
        turn = recorded[neighbour]
        if neighbour in matched or turn.answer or not turn.prompt or turn.prompt not in after:
            break
        after = after.partition(turn.prompt)[2]
        joined.add(turn.number)
    return joined


def _foreign_turns(
    recorded: Sequence[RecordedTurn],
    replayed: Sequence[ReplayedTurn],
    pairs: Sequence[tuple[int, int]],
) -> tuple[tuple[int, ReplayedTurn], ...]:
    matched = {place: index for index, place in pairs}
    foreign: list[tuple[int, ReplayedTurn]] = []
    before: RecordedTurn | None = None
    for place, turn in enumerate(replayed):
        if place in matched:
            before = recorded[matched[place]]
        elif before is not None and _may_be_foreign(turn) and not _agrees(before.answer, turn):
            foreign.append((before.number, turn))
    return tuple(foreign)


def _may_be_foreign(turn: ReplayedTurn) -> bool:
    """Return whether a replayed turn that no recorded one matches is a turn of its own.

    Agents also replay hidden context and remarks as user messages. Those have no answer.
    """
    is_ours = carries_history("".join(turn.prompt))
    return bool(turn.lines) and bool(turn.answers) and any(turn.prompt) and not is_ours


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


def _shortened(prompt: str) -> str:
    """Return the beginning and the end of a long prompt."""
    if len(prompt) <= 2 * _MAX_PROMPT:
        return prompt
    return f"{prompt[:_MAX_PROMPT]}\n{prompt[-_MAX_PROMPT:]}"


def _collapse(text: str) -> str:
    return " ".join(text.split())


def _squeeze(text: str) -> str:
    return "".join(text.split())
