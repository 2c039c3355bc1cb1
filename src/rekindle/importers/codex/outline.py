"""Read all lines of a Codex session to find the turns that were rolled back, in little memory.

The lines may be in several files: the inherited history, and the session's own file. The event
`thread_rolled_back` removes the last turns that contain a message of the user. Their lines stay in
the file, and become an abandoned branch.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from rekindle.importers.base import ImportNotes
from rekindle.importers.codex.compressed import open_file
from rekindle.importers.codex.records import (
    CodexLineHead,
    CodexMeta,
    read_first_line,
    read_line_head,
)
from rekindle.importers.line_reader import LineReader

ITEM_TYPES = frozenset(
    {
        "message", "reasoning", "function_call", "function_call_output", "custom_tool_call",
        "custom_tool_call_output", "local_shell_call", "web_search_call", "tool_search_call",
        "tool_search_output", "image_generation_call", "agent_message", "compaction",
        "compaction_summary", "context_compaction",
    }
)  # fmt: skip
"""Input and output of the model. In older files these are lines of their own."""
_WRAPPED = frozenset(
    {"response_item", "event_msg", "compacted", "inter_agent_communication", "session_meta"}
)
_IGNORED = frozenset(
    {
        "turn_context", "world_state", "inter_agent_communication_metadata",
        "security_risk_score", "token_usage_record", "ghost_snapshot",
    }
)  # fmt: skip
"""The known types of records that are not part of the conversation."""
_MESSAGE_EVENTS = frozenset({"user_message", "agent_message"})
_MESSAGE_ITEMS = frozenset({"UserMessage", "AgentMessage"})
_LINE_START = rb'\{"timestamp":"[^"]*",(?:"ordinal":\d+,)?"type":'
_IRRELEVANT_LINE = re.compile(
    _LINE_START + rb'"(?:turn_context|world_state|token_usage_record'
    rb'|event_msg","payload":\{"type":"(?:token_count|thread_settings_applied))"'
)
_DUPLICATE_LINE = re.compile(
    _LINE_START + rb'"response_item","payload":\{"type":"(?:reasoning"'
    rb'|message",(?:"status":"\w+",)?(?:"id":"[^"]*",)?"role":"(?:assistant|developer)")'
)
_SEARCHED_BYTES = 200
_HEAD_BUFFER_BYTES = 32 * 1024
_LINES_PER_REPORT = 4096
_MAX_OPEN_TURNS = 1_000_000


class CodexSegment(Struct, frozen=True, kw_only=True):
    """The part of a session that is in one file."""

    path: Path
    size: int | None = None
    """The number of bytes that belong to it; None for all, as in a compressed file."""
    before_ordinal: int | None = None
    """The segment ends before this ordinal, if any."""
    from_ordinal: int | None = None
    """The segment starts with this ordinal, if any."""

    def lines(self, on_damage: Callable[[], object] = lambda: None) -> LineReader:
        """Return its lines. `on_damage` is called where a compressed file cannot be read."""
        opener = partial(open_file, on_damage=on_damage)
        return LineReader(self.path, end=self.size, open_file=opener)

    def includes(self, ordinal: int | None) -> bool:
        """Return whether the record with this ordinal belongs to it."""
        if ordinal is None:
            return True
        is_early = self.from_ordinal is not None and ordinal < self.from_ordinal
        return not is_early and (self.before_ordinal is None or ordinal < self.before_ordinal)


class CodexRollback(Struct, frozen=True):
    """The lines of turns that were rolled back."""

    first: int
    end: int
    """The line that rolls them back."""


class CodexOutline(Struct):
    """The facts about all lines of a session."""

    sha256: str = ""
    """The checksum of its decompressed file; of all files, if it has inherited history."""
    size: int = 0
    """The number of decompressed bytes in all segments."""
    rollbacks: list[CodexRollback] = []
    is_rewound: bool = False
    """Whether the last change was a rollback, or a change to another file."""
    has_events: bool = False
    """Whether messages are also recorded as events, which have only the user's own text."""
    is_bare: bool = False
    """Whether it is an old file, which has no events at all."""


def _first_line(path: Path) -> bytes:
    opener = partial(open_file, buffer_bytes=_HEAD_BUFFER_BYTES)
    lines = LineReader(path, open_file=opener)
    return next((line for _, line in lines if line.strip(b"\0 \t\r")), b"")


def read_meta(path: Path) -> CodexMeta | None:
    """Return the metadata in a file; None if the file is not a session of Codex."""
    line = _first_line(path)
    head = read_line_head(line) if line else None
    if head is None:
        return None
    if head.type == "session_meta" or _is_old_meta(head):
        return read_first_line(line)
    is_codex_line = head.type in ITEM_TYPES | _WRAPPED | _IGNORED or head.record_type
    return CodexMeta() if is_codex_line else None


def _is_old_meta(head: CodexLineHead) -> bool:
    return head.type == "" and head.id is not None and head.timestamp is not None


def read_outline(segments: Sequence[CodexSegment], notes: ImportNotes) -> CodexOutline:
    """Read the outline of a session. The last segment is the session's own file."""
    builder = _OutlineBuilder(notes)
    checksums: list[str] = []
    number = 0
    done = 0
    for segment in segments:
        lines = segment.lines(lambda: notes.skip("a compressed file is incomplete or damaged"))
        notes.place = lines.place
        checksum, numbered = lines.with_checksum()
        builder.outline.is_rewound = segment is not segments[0]
        for offset, line in numbered:
            if number % _LINES_PER_REPORT == 0:
                # The second half of the progress is for converting the lines.
                notes.report_progress((done + lines.offset) // 2)
            is_last = segment.size is not None and offset + len(line) >= segment.size
            builder.add(line, number, segment, is_last=is_last)
            number += 1
        done += lines.offset
        notes.skip("a line is too long", lines.too_long, lines.too_long_place)
        checksums.append(checksum.hexdigest)
    builder.outline.sha256 = _combined_checksum(checksums)
    builder.outline.size = done
    return builder.outline


def _combined_checksum(checksums: list[str]) -> str:
    only, *others = checksums
    return sha256("".join(checksums).encode()).hexdigest() if others else only


class _OutlineBuilder:
    """Finds where turns begin, and which were rolled back, line by line."""

    def __init__(self, notes: ImportNotes) -> None:
        self.outline = CodexOutline(rollbacks=[])
        self._notes = notes
        self._turn_starts: list[int] = []
        self._open_turn: int | None = None
        self._has_user_message = False
        self._is_first = True

    def add(self, line: bytes, number: int, segment: CodexSegment, *, is_last: bool) -> None:
        """Process one line."""
        head = read_line_head(line) if line else None
        if head is None:
            if line:
                self._notes.skip("the last line is incomplete" if is_last else "a line is not JSON")
            return
        if self._is_first:
            self.outline.is_bare = head.payload is None and head.type != "session_meta"
        self._is_first = False
        if segment.includes(head.ordinal):
            self._add_head(head, number)

    def _add_head(self, head: CodexLineHead, number: int) -> None:
        match head.type:
            case "event_msg" if head.payload is not None:
                self._add_event(head, number)
            case "inter_agent_communication":
                self._add_user_message(number)
            case kind if kind in _WRAPPED and head.payload is not None:
                pass
            case kind if (
                kind in ITEM_TYPES or kind in _IGNORED or head.record_type or _is_old_meta(head)
            ):
                pass
            case kind if kind in _WRAPPED:
                self._notes.skip("a record is empty")
            case kind:
                self._notes.skip(
                    f"a record of unknown type: {kind}" if kind else "a record without a type"
                )

    def _add_event(self, head: CodexLineHead, number: int) -> None:
        payload = head.payload
        kind = payload.type if payload is not None else ""
        item = payload.item.type if payload is not None and payload.item is not None else ""
        if kind in _MESSAGE_EVENTS or item in _MESSAGE_ITEMS:
            self.outline.has_events = True
        match kind:
            case "task_started" | "turn_started":
                self._open_turn, self._has_user_message = number, False
            case "task_complete" | "turn_complete" | "turn_aborted":
                self._open_turn = None
            case "thread_rolled_back":
                self._roll_back((payload.num_turns if payload is not None else 0) or 0, number)
            case _ if kind == "user_message" or item == "UserMessage":
                self._add_user_message(number)
            case _:
                pass

    def _add_user_message(self, number: int) -> None:
        """Count a turn, unless the message came while a counted turn was running."""
        self.outline.is_rewound = False
        if self._open_turn is not None and self._has_user_message:
            return
        self._turn_starts.append(number if self._open_turn is None else self._open_turn)
        self._has_user_message = True
        del self._turn_starts[:-_MAX_OPEN_TURNS]

    def _roll_back(self, count: int, number: int) -> None:
        if count <= 0 or not self._turn_starts:
            return
        first = self._turn_starts[-min(count, len(self._turn_starts))]
        del self._turn_starts[-count:]
        self._open_turn = None
        self.outline.rollbacks.append(CodexRollback(first, number))
        self.outline.is_rewound = True


def remaining_lines(
    segments: Sequence[CodexSegment],
    rollbacks: Sequence[CodexRollback],
    notes: ImportNotes,
    size: int,
    end: int | None = None,
) -> Iterator[tuple[CodexSegment, bytes]]:
    """Yield the lines before `end` that were not rolled back.

    `size` is that of the outline: the progress continues where reading the outline left it.
    """
    # A later rollback may reach further back than an earlier one.
    ranges = _merge_ranges(rollbacks)
    number, at, done = 0, 0, 0
    for segment in segments:
        lines = segment.lines()
        notes.place = lines.place
        for _, line in lines:
            if number == end:
                return
            if number % _LINES_PER_REPORT == 0:
                notes.report_progress((size + done + lines.offset) // 2)
            while at < len(ranges) and number > ranges[at].end:
                at += 1
            if at == len(ranges) or number < ranges[at].first:
                yield segment, line
            number += 1
        done += lines.offset


def _merge_ranges(rollbacks: Sequence[CodexRollback]) -> list[CodexRollback]:
    """Return the rolled back lines as ranges that do not overlap, in order."""
    ranges: list[CodexRollback] = []
    for rollback in rollbacks:
        first = rollback.first
        while ranges and ranges[-1].end >= first:
            first = min(first, ranges.pop().first)
        ranges.append(CodexRollback(first, rollback.end))
    return ranges


def is_irrelevant(line: bytes, *, has_events: bool) -> bool:
    """Return whether a line needs no conversion, from its first bytes. Most lines need none."""
    if _IRRELEVANT_LINE.match(line, 0, _SEARCHED_BYTES):
        return True
    return has_events and _DUPLICATE_LINE.match(line, 0, _SEARCHED_BYTES) is not None
