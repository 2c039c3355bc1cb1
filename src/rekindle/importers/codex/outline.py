"""A look over all lines of a session of Codex's, which finds what was taken back. Little is kept.

A session's lines may be in several files: what it has inherited, and its own. `thread_rolled_back`
takes back the last turns in which the user has said something; what it takes back stays in the
file, and is a branch that was left.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from rekindle.importers.base import Notes
from rekindle.importers.codex.compressed import opened
from rekindle.importers.codex.records import Mark, Meta, meta_of, read_mark
from rekindle.importers.line_reader import Lines

ITEMS = frozenset(
    {
        "message", "reasoning", "function_call", "function_call_output", "custom_tool_call",
        "custom_tool_call_output", "local_shell_call", "web_search_call", "tool_search_call",
        "tool_search_output", "image_generation_call", "agent_message", "compaction",
        "compaction_summary", "context_compaction",
    }
)  # fmt: skip
"""What the model was told, or has said; older files have such items as lines."""
_WRAPPED = frozenset(
    {"response_item", "event_msg", "compacted", "inter_agent_communication", "session_meta"}
)
_QUIET = frozenset(
    {
        "turn_context", "world_state", "inter_agent_communication_metadata",
        "security_risk_score", "token_usage_record", "ghost_snapshot",
    }
)  # fmt: skip
"""What is of no interest to whoever reads the conversation."""
_SAID = frozenset({"user_message", "agent_message"})
_SAID_ITEMS = frozenset({"UserMessage", "AgentMessage"})
_BEGIN = rb'\{"timestamp":"[^"]*",(?:"ordinal":\d+,)?"type":'
_PASSED_OVER = re.compile(
    _BEGIN + rb'"(?:turn_context|world_state|token_usage_record'
    rb'|event_msg","payload":\{"type":"(?:token_count|thread_settings_applied))"'
)
_TOLD_TWICE = re.compile(
    _BEGIN + rb'"response_item","payload":\{"type":"(?:reasoning"'
    rb'|message",(?:"status":"\w+",)?(?:"id":"[^"]*",)?"role":"(?:assistant|developer)")'
)
_LOOKED_AT = 200
_BYTES_OF_A_HEAD = 32 * 1024
_LINES_A_NOTE = 4096
_MOST_OPEN_TURNS = 1_000_000


class Segment(Struct, frozen=True, kw_only=True):
    """A part of a session, in one file."""

    path: Path
    size: int | None = None
    """How many bytes of it count; None: all that there are, as in a compressed file."""
    before_ordinal: int | None = None
    """Records from this one on are not part of it."""
    from_ordinal: int | None = None
    """Records before this one are not part of it."""

    def lines(self, torn: Callable[[], object] = lambda: None) -> Lines:
        """Return its lines; `torn` is called where a compressed file cannot be read further."""
        return Lines(self.path, end=self.size, opened=partial(opened, torn=torn))

    def has(self, ordinal: int | None) -> bool:
        """Tell whether a record is part of it."""
        if ordinal is None:
            return True
        is_early = self.from_ordinal is not None and ordinal < self.from_ordinal
        return not is_early and (self.before_ordinal is None or ordinal < self.before_ordinal)


class Rollback(Struct, frozen=True):
    """Turns that were taken back: the lines from the first of them on."""

    first: int
    end: int
    """The line that takes them back."""


class Outline(Struct):
    """What the lines of a session have."""

    sha256: str = ""
    """Of its file, as it is when it is not compressed; if it begins in others, of all of them."""
    rollbacks: list[Rollback] = []
    is_shortened: bool = False
    """Whether nothing was said since turns were taken back, or left with another file."""
    has_events: bool = False
    """Whether what is shown has records of its own."""
    is_bare: bool = False
    """Whether it is an old one, which has no such records at all."""


def first_line(path: Path) -> bytes:
    """Return how a file begins."""
    lines = Lines(path, opened=partial(opened, buffered=_BYTES_OF_A_HEAD))
    return next((line for _, line in lines if line.strip(b"\0 \t\r")), b"")


def meta_in(path: Path) -> Meta | None:
    """Return what a file says of its session; None if it is no session of Codex's."""
    line = first_line(path)
    mark = read_mark(line) if line else None
    if mark is None:
        return None
    is_its = mark.type == "session_meta" or _is_old_head(mark)
    if not is_its:
        return Meta() if mark.type in ITEMS | _WRAPPED | _QUIET or mark.record_type else None
    return meta_of(line)


def _is_old_head(mark: Mark) -> bool:
    return mark.type == "" and mark.id is not None and mark.timestamp is not None


def outline(segments: Sequence[Segment], notes: Notes) -> Outline:
    """Look over the lines of a session; the last segment is its own file."""
    survey = _Survey(notes)
    checksums: list[str] = []
    number = 0
    done = 0
    for segment in segments:
        lines = segment.lines(lambda: notes.skip("a compressed file is cut off, or damaged"))
        checksum, each = lines.hashed()
        survey.found.is_shortened = segment is not segments[0]
        for place, line in each:
            if number % _LINES_A_NOTE == 0:
                notes.at((done + lines.done) // 2)
            is_last = segment.size is not None and place + len(line) >= segment.size
            survey.take(line, number, segment, is_last=is_last)
            number += 1
        done += lines.done
        notes.skip("a line is too long", lines.too_long)
        checksums.append(checksum.words)
    survey.found.sha256 = _joined_checksum(checksums)
    return survey.found


def _joined_checksum(checksums: list[str]) -> str:
    only, *others = checksums
    return sha256("".join(checksums).encode()).hexdigest() if others else only


class _Survey:
    """Finds where turns begin and which were taken back, line by line."""

    def __init__(self, notes: Notes) -> None:
        self.found = Outline(rollbacks=[])
        self._notes = notes
        self._turns: list[int] = []
        self._begun: int | None = None
        self._is_counted = False
        self._is_first = True

    def take(self, line: bytes, number: int, segment: Segment, *, is_last: bool) -> None:
        """Look at one line."""
        mark = read_mark(line) if line else None
        if mark is None:
            if line:
                self._notes.skip("the last line is cut off" if is_last else "a line is no JSON")
            return
        if self._is_first:
            self.found.is_bare = mark.payload is None and mark.type != "session_meta"
        self._is_first = False
        if segment.has(mark.ordinal):
            self._take(mark, number)

    def _take(self, mark: Mark, number: int) -> None:
        match mark.type:
            case "event_msg" if mark.payload is not None:
                self._event(mark, number)
            case "inter_agent_communication":
                self._said(number)
            case it if it in _WRAPPED and mark.payload is not None:
                pass
            case it if it in ITEMS or it in _QUIET or mark.record_type or _is_old_head(mark):
                pass
            case it if it in _WRAPPED:
                self._notes.skip("a record has nothing in it")
            case it:
                self._notes.skip(f"a record of unknown type: {it}" if it else "no type")

    def _event(self, mark: Mark, number: int) -> None:
        payload = mark.payload
        kind = payload.type if payload is not None else ""
        item = payload.item.type if payload is not None and payload.item is not None else ""
        if kind in _SAID or item in _SAID_ITEMS:
            self.found.has_events = True
        match kind:
            case "task_started" | "turn_started":
                self._begun, self._is_counted = number, False
            case "task_complete" | "turn_complete" | "turn_aborted":
                self._begun = None
            case "thread_rolled_back":
                self._roll_back((payload.num_turns if payload is not None else 0) or 0, number)
            case _ if kind == "user_message" or item == "UserMessage":
                self._said(number)
            case _:
                pass

    def _said(self, number: int) -> None:
        """Note that the user has said something: what was said meanwhile is no turn of its own."""
        self.found.is_shortened = False
        if self._begun is not None and self._is_counted:
            return
        self._turns.append(number if self._begun is None else self._begun)
        self._is_counted = True
        del self._turns[:-_MOST_OPEN_TURNS]

    def _roll_back(self, count: int, number: int) -> None:
        if count <= 0 or not self._turns:
            return
        first = self._turns[-min(count, len(self._turns))]
        del self._turns[-count:]
        self._begun = None
        self.found.rollbacks.append(Rollback(first, number))
        self.found.is_shortened = True


def told_lines(
    segments: Sequence[Segment], rollbacks: Sequence[Rollback], notes: Notes, end: int | None = None
) -> Iterator[tuple[Segment, bytes]]:
    """Yield the lines that are not taken back, up to one of them."""
    # What was taken back later may reach further back than what was before.
    spans = _joined(rollbacks)
    number, at, done = 0, 0, 0
    for segment in segments:
        lines = segment.lines()
        for _, line in lines:
            if number == end:
                return
            if number % _LINES_A_NOTE == 0:
                notes.at(done + lines.done // 2)
            while at < len(spans) and number > spans[at].end:
                at += 1
            if at == len(spans) or number < spans[at].first:
                yield segment, line
            number += 1
        done += lines.done


def _joined(rollbacks: Sequence[Rollback]) -> list[Rollback]:
    """Return what is taken back as stretches that do not overlap, in order."""
    spans: list[Rollback] = []
    for it in rollbacks:
        first = it.first
        while spans and spans[-1].end >= first:
            first = min(first, spans.pop().first)
        spans.append(Rollback(first, it.end))
    return spans


def is_passed_over(line: bytes, *, has_events: bool) -> bool:
    """Tell at a glance whether there is nothing to tell of a line. Most are such."""
    if _PASSED_OVER.match(line, 0, _LOOKED_AT):
        return True
    return has_events and _TOLD_TWICE.match(line, 0, _LOOKED_AT) is not None
