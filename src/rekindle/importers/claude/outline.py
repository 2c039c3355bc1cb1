"""Read a whole file of Claude Code's to find which records belong together, in little memory.

The records form a tree: each names its parent. But most forks of the tree are not branches of the
conversation: parallel tools have their results side by side, as have hooks and attachments. So
records are grouped into *units*: a prompt; or a message of the model with the results of its
tools, and all records that have no place of their own. Where several units follow one unit, the
conversation really has branches: a prompt was edited, a turn was tried again, or two processes
continued the session. The unit of the last record and the units before it are the session. All
other units belong to abandoned branches.

The place of a record depends only on earlier records in the file. So a file that has grown has the
same units as before, and only the choice of the main branch can change.
"""

from array import array
from pathlib import Path

from msgspec import Struct

from rekindle.importers.base import ImportNotes
from rekindle.importers.claude.records import ClaudeRecordHead, read_record_head
from rekindle.importers.entry_builder import TimestampParser
from rekindle.importers.id_index import IdIndex
from rekindle.importers.line_reader import LineReader

ROOT = 0
"""The unit before the first one."""

_MESSAGES = frozenset({"user", "assistant"})
_LINKED = frozenset({"system", "attachment", "queue-operation", "progress"}) | _MESSAGES
"""The types of records that can have a place in the tree."""
_IGNORED = frozenset(
    {
        "summary", "custom-title", "ai-title", "file-history-snapshot", "file-history-delta",
        "pr-link", "tag", "mode", "permission-mode", "last-prompt", "agent-name", "agent-color",
        "agent-setting", "worktree-state", "content-replacement", "attribution-snapshot",
        "turn_end", "task-summary", "atis-latch", "api-request", "api-request-blob",
        "api-request-shape", "cost-state", "tools-used", "relocated", "ended-by-model",
        "repl-mode", "isolation-latch", "session-owner", "dev-mods", "memory-mode",
    }
)  # fmt: skip
"""The known types of records that are not part of the conversation."""
_MAX_MESSAGES = 256
_MAX_SUMMARIES = 100
_FIRST_RECORDS = 10
_MAX_STEPS_BACK = 1_000


class ClaudeSidechain(Struct):
    """A sub-agent whose records are among those of the session, as in older files."""

    name: str
    first_line: int
    start: int
    end: int


class ClaudeSessionInfo(Struct):
    """The metadata of a session, collected from its records."""

    session_id: str | None = None
    cwd: str | None = None
    """The folder in which the session was started."""
    moved_to: str | None = None
    """The folder to which the session was moved later, if any."""
    version: str | None = None
    created_us: int = 0
    title: str | None = None
    forked_from: str | None = None
    is_hidden: bool = False
    """Whether it is a conversation between two agents."""


class ClaudeOutline:
    """The units of a file, and the unit of each line."""

    def __init__(self) -> None:
        self.size = 0
        self.sha256 = ""
        self.info = ClaudeSessionInfo()
        self.units = array("i")
        """The unit of each line; -n is the n-th sub-agent. Lines in ROOT are not converted."""
        self.previous = array("i", [ROOT])
        """The unit before each unit."""
        self.last_lines = array("i", [-1])
        """The last line of each unit that is part of the conversation, or -1."""
        self.last = ROOT
        """The unit of the last message."""
        self.sidechains: list[ClaudeSidechain] = []

    def path_to(self, unit: int) -> bytearray:
        """Return a flag for each unit: whether it is the given unit or one before it."""
        path = bytearray(len(self.previous))
        while unit != ROOT and not path[unit]:
            path[unit] = 1
            unit = self.previous[unit]
        return path

    def is_before_last(self, unit: int) -> bool:
        """Return whether a unit is on the path to the last one, within a limited distance."""
        later = self.last
        for _ in range(_MAX_STEPS_BACK):
            if later <= unit:
                break
            later = self.previous[later]
        return later == unit

    def branch_tips(self) -> list[int]:
        """Return the last units of the abandoned branches, the latest first."""
        is_leaf = bytearray(b"\1" * len(self.previous))
        for unit in self.previous:
            is_leaf[unit] = 0
        path = self.path_to(self.last)
        path[ROOT] = 1
        tips: dict[int, None] = {}
        for leaf in range(len(is_leaf) - 1, 0, -1):
            unit = leaf if is_leaf[leaf] else ROOT
            while not path[unit] and self.last_lines[unit] < 0:
                unit = self.previous[unit]
            if not path[unit]:
                tips[unit] = None
        return list(tips)

    def last_line_to(self, unit: int) -> int:
        """Return the last line of the branch that ends with a unit."""
        last = -1
        while unit != ROOT:
            last = max(last, self.last_lines[unit])
            unit = self.previous[unit]
        return last


def read_outline(path: Path, notes: ImportNotes, *, is_agent_file: bool = False) -> ClaudeOutline:
    """Read the outline of a file. In an agent's file, all records are the sub-agent's own."""
    size = path.stat().st_size
    # The second half of the progress is for converting the records.
    lines = LineReader(path, end=size, on_progress=lambda done: notes.report_progress(done // 2))
    notes.place = lines.place
    checksum, numbered = lines.with_checksum()
    builder = _OutlineBuilder(is_agent_file=is_agent_file)
    outline = builder.outline
    for offset, line in numbered:
        head = read_record_head(line) if line else None
        if head is None:
            outline.units.append(ROOT)
            if line:
                is_torn = offset + len(line) >= size
                notes.skip("the last line is incomplete" if is_torn else "a line is not JSON")
        else:
            builder.add(head, offset, offset + len(line), notes)
    notes.skip("a line is too long", lines.too_long, lines.too_long_place)
    builder.finish()
    outline.size, outline.sha256 = size, checksum.hexdigest
    return outline


class _OutlineBuilder:
    """Assigns records to units, one after the other."""

    def __init__(self, *, is_agent_file: bool) -> None:
        self.outline = ClaudeOutline()
        self._is_agent_file = is_agent_file
        self._uuids = IdIndex()
        self._message_units: dict[str, int] = {}
        self._sidechain_units: dict[str, int] = {}
        self._last_uuid: str | None = None
        self._latest = ROOT
        self._records = 0
        self._has_time = False
        self._custom_title: str | None = None
        self._ai_title: str | None = None
        self._summaries: list[tuple[str, str]] = []

    def add(self, head: ClaudeRecordHead, start: int, end: int, notes: ImportNotes) -> None:
        """Assign one record to a unit."""
        outline = self.outline
        if head.type not in _LINKED:
            outline.units.append(ROOT)
            self._read_title(head)
            outline.info.moved_to = head.relocated_cwd or outline.info.moved_to
            if head.type not in _IGNORED:
                notes.skip(
                    f"a record of unknown type: {head.type}"
                    if head.type
                    else "a record without a type"
                )
            return
        if head.uuid is not None and self._uuids.is_recent(head.uuid):
            # The same record was written twice.
            outline.units.append(ROOT)
            return
        self._read_info(head)
        if head.is_sidechain and not self._is_agent_file:
            unit = self._sidechain_unit(head, start, end)
        else:
            unit = self._latest = self._unit_of(head)
            self._last_uuid = head.uuid
            # A late result must not make an earlier unit the last one.
            if head.type in _MESSAGES and not outline.is_before_last(unit):
                outline.last = unit
        if not _is_converted(head):
            outline.units.append(ROOT)
        else:
            if unit > ROOT:
                outline.last_lines[unit] = len(outline.units)
            outline.units.append(unit)
        if head.uuid is not None:
            self._uuids.add(head.uuid, unit)

    def finish(self) -> None:
        """Choose the title, after the last record."""
        summaries = (text for text, leaf in reversed(self._summaries) if self._uuids.find(leaf))
        self.outline.info.title = self._custom_title or self._ai_title or next(summaries, None)

    def _unit_of(self, head: ClaudeRecordHead) -> int:
        previous = self._unit_before(head)
        message_id = head.message.id if head.message is not None else None
        if head.type == "assistant":
            if message_id and self._message_units.get(message_id) == previous:
                return previous
            unit = self._add_unit(previous)
            if message_id:
                self._message_units.pop(message_id, None)
                self._message_units[message_id] = unit
                if len(self._message_units) > _MAX_MESSAGES:
                    del self._message_units[next(iter(self._message_units))]
            return unit
        is_first = previous == ROOT and (head.type == "user" or _is_local_command(head))
        return self._add_unit(previous) if is_first or _may_be_prompt(head) else previous

    def _unit_before(self, head: ClaudeRecordHead) -> int:
        """Return the unit that a record follows."""
        parent = head.parent_uuid or head.logical_parent_uuid
        if parent is None:
            # Only a prompt can start from the root. A record without an id follows the last one.
            return ROOT if head.uuid and _may_be_prompt(head) else self._latest
        if parent == self._last_uuid:
            return self._latest
        unit = self._uuids.find(parent)
        return self._latest if unit is None or unit < ROOT else unit

    def _add_unit(self, previous: int) -> int:
        self.outline.previous.append(previous)
        self.outline.last_lines.append(-1)
        return len(self.outline.previous) - 1

    def _sidechain_unit(self, head: ClaudeRecordHead, start: int, end: int) -> int:
        """Return the unit of a sub-agent's record. All records of a sub-agent are one unit."""
        sidechains = self.outline.sidechains
        unit = self._sidechain_units.get(head.agent_id) if head.agent_id else None
        if unit is None and not head.agent_id:
            parent = self._uuids.find(head.parent_uuid) if head.parent_uuid else None
            unit = parent if parent is not None and parent < ROOT else None
        if unit is None:
            name = head.agent_id or head.uuid or str(len(sidechains))
            sidechains.append(ClaudeSidechain(name, len(self.outline.units), start, end))
            unit = -len(sidechains)
            self._sidechain_units[name] = unit
        sidechains[-unit - 1].end = end
        return unit

    def _read_info(self, head: ClaudeRecordHead) -> None:
        """Read the session's metadata from the first records that have it."""
        info = self.outline.info
        info.session_id = info.session_id or head.session_id
        info.cwd = info.cwd or head.cwd
        info.version = info.version or head.version
        if info.forked_from is None and head.forked_from is not None:
            info.forked_from = head.forked_from.session_id
        if not self._has_time:
            created_us = TimestampParser().parse(head.timestamp)
            if created_us is not None:
                info.created_us, self._has_time = created_us, True
        self._records += 1
        if self._records <= _FIRST_RECORDS and head.team_name:
            info.is_hidden = True

    def _read_title(self, head: ClaudeRecordHead) -> None:
        self._custom_title = head.custom_title or self._custom_title
        self._ai_title = head.ai_title or self._ai_title
        if head.summary and head.leaf_uuid:
            # Older versions also wrote summaries of other sessions. finish() selects the own ones.
            self._summaries.append((head.summary, head.leaf_uuid))
            del self._summaries[:-_MAX_SUMMARIES]


def _is_converted(head: ClaudeRecordHead) -> bool:
    """Return whether a record is part of the conversation."""
    match head.type:
        case "system":
            return head.subtype == "compact_boundary" or _is_local_command(head)
        case "attachment":
            return head.attachment is not None and head.attachment.type == "queued_command"
        case "progress":
            return False
        case _:
            return True


def _is_local_command(head: ClaudeRecordHead) -> bool:
    """Return whether a record is a command that the user typed, or its output.

    These records start no unit. Otherwise a command after the last answer would be a branch.
    """
    return head.type == "system" and head.subtype == "local_command"


def _may_be_prompt(head: ClaudeRecordHead) -> bool:
    """Return whether a record has text in the user's role that may be a prompt."""
    if head.type != "user" or head.is_meta or head.is_compact_summary or head.message is None:
        return False
    content = head.message.content
    return memoryview(content)[:1].tobytes() == b'"' or b'"tool_result"' not in bytes(content)
