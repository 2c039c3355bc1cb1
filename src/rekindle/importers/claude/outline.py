"""A look over a whole file of Claude Code's, which finds what belongs together. Little is kept.

Records are a tree: each names the one before it. But most of its forks are none: tools that run
at once have their results beside each other, and so have hooks and attachments. So records are
put into *units*: a prompt; or a message of the model with what its tools brought, and all that
has no place of its own. Where several units follow one, the conversation was really taken up
twice: a prompt was edited, a turn tried again, or two processes went on with the session. The
unit of the last record, and those before it, are the session; the others are branches.

A record is only ever placed by what stands before it in the file. So the same units are found
when the file has grown, and only the choice of the branch may be another one.
"""

from array import array
from pathlib import Path

from msgspec import Struct

from rekindle.importers.base import Notes
from rekindle.importers.claude.records import Mark, read_mark
from rekindle.importers.entry_builder import Clock
from rekindle.importers.line_reader import Lines
from rekindle.importers.uuids import Uuids

ROOT = 0
"""The unit before the first one."""

_SPOKEN = frozenset({"user", "assistant"})
_LINKED = frozenset({"system", "attachment", "queue-operation", "progress"}) | _SPOKEN
"""What may have a place in the tree."""
_QUIET = frozenset(
    {
        "summary", "custom-title", "ai-title", "file-history-snapshot", "file-history-delta",
        "pr-link", "tag", "mode", "permission-mode", "last-prompt", "agent-name", "agent-color",
        "agent-setting", "worktree-state", "content-replacement", "attribution-snapshot",
        "turn_end", "task-summary", "atis-latch", "api-request", "api-request-blob",
        "api-request-shape", "cost-state", "tools-used", "relocated", "ended-by-model",
        "repl-mode", "isolation-latch", "session-owner", "dev-mods", "memory-mode",
    }
)  # fmt: skip
"""What is of no interest to whoever reads the conversation."""
_MESSAGES_REMEMBERED = 256
_TITLES_REMEMBERED = 100
_FIRST_RECORDS = 10
_FARTHEST = 1_000


class Side(Struct):
    """A sub-agent whose records stand among those of the session, as in older files."""

    name: str
    first_line: int
    begin: int
    end: int


class Outline:
    """What a file has, by line and unit."""

    def __init__(self) -> None:
        self.size = 0
        self.sha256 = ""
        self.units = array("i")
        """The unit of each line; -n is that of the n-th sub-agent. Of ROOT nothing is told."""
        self.before = array("i", [ROOT])
        """The unit before each unit."""
        self.ends = array("i", [-1])
        """The last line of each unit that has something of the conversation in it, or -1."""
        self.last = ROOT
        """The unit of what was said last."""
        self.sides: list[Side] = []
        self.session_id: str | None = None
        self.cwd: str | None = None
        """Where it was begun."""
        self.moved_to: str | None = None
        """Where it was moved to since, if it was."""
        self.version: str | None = None
        self.created_us = 0
        self.title: str | None = None
        self.forked_from: str | None = None
        self.is_hidden = False
        """Whether it is the conversation of an agent with an agent."""

    def path_to(self, unit: int) -> bytearray:
        """Return for each unit whether it is that one, or before it."""
        path = bytearray(len(self.before))
        while unit != ROOT and not path[unit]:
            path[unit] = 1
            unit = self.before[unit]
        return path

    def is_before_last(self, unit: int) -> bool:
        """Tell whether a unit is before what was said last, if that is not very far away."""
        later = self.last
        for _ in range(_FARTHEST):
            if later <= unit:
                break
            later = self.before[later]
        return later == unit

    def tips(self) -> list[int]:
        """Return the units with which branches end, the latest first."""
        is_tip = bytearray(b"\1" * len(self.before))
        for unit in self.before:
            is_tip[unit] = 0
        path = self.path_to(self.last)
        path[ROOT] = 1
        tips: dict[int, None] = {}
        for leaf in range(len(is_tip) - 1, 0, -1):
            unit = leaf if is_tip[leaf] else ROOT
            while not path[unit] and self.ends[unit] < 0:
                unit = self.before[unit]
            if not path[unit]:
                tips[unit] = None
        return list(tips)

    def end_of(self, unit: int) -> int:
        """Return the last line of the branch that ends with a unit."""
        end = -1
        while unit != ROOT:
            end = max(end, self.ends[unit])
            unit = self.before[unit]
        return end


def outline(path: Path, notes: Notes, *, is_agents: bool = False) -> Outline:
    """Look over a file. Of one that `is_agents`, all records are the sub-agent's own."""
    size = path.stat().st_size
    # The other half is for telling it.
    lines = Lines(path, end=size, at=lambda done: notes.at(done // 2))
    checksum, each = lines.hashed()
    survey = _Survey(is_agents=is_agents)
    for place, line in each:
        mark = read_mark(line) if line else None
        if mark is None:
            survey.found.units.append(ROOT)
            if line:
                is_torn = place + len(line) >= size
                notes.skip("the last line is cut off" if is_torn else "a line is no JSON")
        else:
            survey.take(mark, place, place + len(line), notes)
    notes.skip("a line is too long", lines.too_long)
    survey.settle()
    survey.found.size, survey.found.sha256 = size, checksum.words
    return survey.found


class _Survey:
    """Puts records into units, one after the other."""

    def __init__(self, *, is_agents: bool) -> None:
        self.found = Outline()
        self._is_agents = is_agents
        self._uuids = Uuids()
        self._messages: dict[str, int] = {}
        self._sides: dict[str, int] = {}
        self._last_uuid: str | None = None
        self._latest = ROOT
        self._records = 0
        self._has_time = False
        self._custom_title: str | None = None
        self._ai_title: str | None = None
        self._summaries: list[tuple[str, str]] = []

    def take(self, mark: Mark, begin: int, end: int, notes: Notes) -> None:
        """Place one record."""
        if mark.type not in _LINKED:
            self.found.units.append(ROOT)
            self._take_title(mark)
            self.found.moved_to = mark.relocated_cwd or self.found.moved_to
            if mark.type not in _QUIET:
                notes.skip(f"a record of unknown type: {mark.type}" if mark.type else "no type")
            return
        if mark.uuid is not None and self._uuids.is_recent(mark.uuid):
            # The same once more.
            self.found.units.append(ROOT)
            return
        self._learn(mark)
        if mark.is_sidechain and not self._is_agents:
            unit = self._side(mark, begin, end)
        else:
            unit = self._latest = self._place(mark)
            self._last_uuid = mark.uuid
            # A result that comes late does not take the conversation back.
            if mark.type in _SPOKEN and not self.found.is_before_last(unit):
                self.found.last = unit
        if not is_told(mark):
            self.found.units.append(ROOT)
        else:
            if unit > ROOT:
                self.found.ends[unit] = len(self.found.units)
            self.found.units.append(unit)
        if mark.uuid is not None:
            self._uuids.add(mark.uuid, unit)

    def settle(self) -> None:
        """Be done with all records."""
        summaries = (said for said, leaf in reversed(self._summaries) if self._uuids.find(leaf))
        self.found.title = self._custom_title or self._ai_title or next(summaries, None)

    def _place(self, mark: Mark) -> int:
        before = self._before(mark)
        message_id = mark.message.id if mark.message is not None else None
        if mark.type == "assistant":
            if message_id and self._messages.get(message_id) == before:
                return before
            unit = self._unit_after(before)
            if message_id:
                self._messages.pop(message_id, None)
                self._messages[message_id] = unit
                if len(self._messages) > _MESSAGES_REMEMBERED:
                    del self._messages[next(iter(self._messages))]
            return unit
        is_first = before == ROOT and (mark.type == "user" or is_command(mark))
        return self._unit_after(before) if is_first or is_said(mark) else before

    def _before(self, mark: Mark) -> int:
        """Return the unit that a record follows."""
        named = mark.parent_uuid or mark.logical_parent_uuid
        if named is None:
            # Only a prompt can begin anew. What has no name follows what stands before it.
            return ROOT if mark.uuid and is_said(mark) else self._latest
        if named == self._last_uuid:
            return self._latest
        known = self._uuids.find(named)
        return self._latest if known is None or known < ROOT else known

    def _unit_after(self, before: int) -> int:
        self.found.before.append(before)
        self.found.ends.append(-1)
        return len(self.found.before) - 1

    def _side(self, mark: Mark, begin: int, end: int) -> int:
        """Return the unit of a sub-agent's record: all that it says is one."""
        known = self._sides.get(mark.agent_id) if mark.agent_id else None
        if known is None and not mark.agent_id:
            followed = self._uuids.find(mark.parent_uuid) if mark.parent_uuid else None
            known = followed if followed is not None and followed < ROOT else None
        if known is None:
            name = mark.agent_id or mark.uuid or str(len(self.found.sides))
            self.found.sides.append(Side(name, len(self.found.units), begin, end))
            known = -len(self.found.sides)
            self._sides[name] = known
        self.found.sides[-known - 1].end = end
        return known

    def _learn(self, mark: Mark) -> None:
        """Take from the first records that tell it what holds for all of them."""
        found = self.found
        found.session_id = found.session_id or mark.session_id
        found.cwd = found.cwd or mark.cwd
        found.version = found.version or mark.version
        if found.forked_from is None and mark.forked_from is not None:
            found.forked_from = mark.forked_from.session_id
        if not self._has_time and (told_us := Clock().read(mark.timestamp)) is not None:
            found.created_us, self._has_time = told_us, True
        self._records += 1
        if self._records <= _FIRST_RECORDS and mark.team_name:
            found.is_hidden = True

    def _take_title(self, mark: Mark) -> None:
        self._custom_title = mark.custom_title or self._custom_title
        self._ai_title = mark.ai_title or self._ai_title
        if mark.summary and mark.leaf_uuid:
            # Older versions wrote those of other sessions, too.
            self._summaries.append((mark.summary, mark.leaf_uuid))
            del self._summaries[:-_TITLES_REMEMBERED]


def is_told(mark: Mark) -> bool:
    """Tell whether a record has something of the conversation in it."""
    match mark.type:
        case "system":
            return mark.subtype == "compact_boundary" or is_command(mark)
        case "attachment":
            return mark.attachment is not None and mark.attachment.type == "queued_command"
        case "progress":
            return False
        case _:
            return True


def is_command(mark: Mark) -> bool:
    """Tell whether a record has a command that was typed, or what it has printed.

    Such a record does not open a unit, or what came after the last answer would be a branch.
    """
    return mark.type == "system" and mark.subtype == "local_command"


def is_said(mark: Mark) -> bool:
    """Tell whether a record has words in the user's name that may be a prompt."""
    if mark.type != "user" or mark.is_meta or mark.is_compact_summary or mark.message is None:
        return False
    content = mark.message.content
    return memoryview(content)[:1].tobytes() == b'"' or b'"tool_result"' not in bytes(content)
