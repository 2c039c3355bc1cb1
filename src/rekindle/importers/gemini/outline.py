"""Read the files of a session to find which messages are current, in little memory.

Each message has a place after the one before it. A rewind to a message removes it, and all messages
after it. So the messages form a tree, and its last branch is the session. A list that replaces all
messages removes none of them: the tool writes such lists when it compacts a conversation, when a
turn has failed, and by mistake when it loads a session again within the same minute. None of these
revokes a message. So only the new messages in a list get a place.

A message may be written many times, each time with more content. Each version gets the place of
the last message, because that is where its new content belongs.
"""

from array import array
from collections.abc import Sequence

from msgspec import Raw, Struct

from rekindle.importers.base import ImportNotes
from rekindle.importers.entry_builder import TimestampParser
from rekindle.importers.gemini.files import GeminiRecordReader, GeminiSourceFile, merge_records
from rekindle.importers.gemini.records import GeminiRecordHead, read_record_head
from rekindle.importers.id_index import IdIndex
from rekindle.importers.line_reader import Checksum

ROOT = 0
"""The place before the first message."""
RECORDS_PER_REPORT = 1024
"""The number of records between two reports of the progress."""

NO_MESSAGE, MESSAGE, LIST = range(3)
"""The kinds of records."""


class GeminiSessionInfo(Struct):
    """The metadata of a session, collected from its records."""

    project_hash: str | None = None
    created_us: int = 0
    summary: str | None = None
    directories: list[str] = []
    is_sub_agent: bool = False
    is_rewound: bool = False
    """Whether the last change was a rewind."""


class GeminiOutline:
    """The records of a session, and the places of its messages."""

    def __init__(self, files: list[GeminiSourceFile]) -> None:
        self.files = files
        self.size = sum(file.size for file in files)
        self.sha256 = ""
        self.info = GeminiSessionInfo()
        self.order = array("H")
        """The file of each record, if there are several files."""
        self.kinds = bytearray()
        """The kind of each record."""
        self.places = array("i")
        """The place of each message, and of each message in a list. ROOT means nothing new."""
        self.previous = array("i", [ROOT])
        """The place before each place."""
        self.last = ROOT

    def path_to(self, place: int) -> bytearray:
        """Return a flag for each place: whether it is the given place or one before it."""
        path = bytearray(len(self.previous))
        while place != ROOT:
            path[place] = 1
            place = self.previous[place]
        return path

    def branch_tips(self) -> list[int]:
        """Return the places from which the tool has rewound, the latest first."""
        is_tip = bytearray(b"\1" * len(self.previous))
        for place in self.previous:
            is_tip[place] = 0
        is_tip[ROOT] = is_tip[self.last] = 0
        return [place for place in range(len(is_tip) - 1, 0, -1) if is_tip[place]]


def read_outline(files: list[GeminiSourceFile], notes: ImportNotes) -> GeminiOutline:
    """Read the outline of a session from all of its files."""
    readers = [GeminiRecordReader(file) for file in files]
    builder = _OutlineBuilder(GeminiOutline(files))
    outline = builder.outline
    is_bad, bad_place = False, ""
    for number, record in enumerate(merge_records(readers)):
        if number % RECORDS_PER_REPORT == 0:
            notes.report_progress(sum(reader.offset for reader in readers) // 2)
        notes.skip("a record is not JSON", is_bad, bad_place)
        notes.place = readers[record.file].place
        is_bad = bool(record.line) and record.head is None
        bad_place = notes.place() if is_bad else ""
        if len(files) > 1:
            outline.order.append(record.file)
        kind = NO_MESSAGE if record.head is None else builder.add(record.head, notes)
        outline.kinds.append(kind)
    notes.skip("the last record is incomplete", is_bad, bad_place)
    for reader in readers:
        notes.skip("a record is too long", reader.too_long, reader.too_long_place)
    outline.sha256 = _combined_checksum(readers)
    return outline


def _combined_checksum(readers: Sequence[GeminiRecordReader]) -> str:
    if len(readers) == 1:
        return readers[0].sha256
    checksum = Checksum()
    for reader in readers:
        checksum.update(reader.sha256.encode())
    return checksum.hexdigest


def listed_messages(head: GeminiRecordHead) -> list[Raw]:
    """Return the list of messages in a record."""
    return (head.patch.messages if head.patch is not None else head.messages) or []


class _OutlineBuilder:
    """Assigns places to messages, one after the other."""

    def __init__(self, outline: GeminiOutline) -> None:
        self.outline = outline
        self._ids = IdIndex()
        self._depths = array("i", [0])
        self._path = array("i", [ROOT])
        """The places of the current branch, each at its depth."""

    def add(self, head: GeminiRecordHead, notes: ImportNotes) -> int:
        """Process one record; return its kind."""
        if head.rewind_to is not None:
            self._rewind(head.rewind_to)
            return NO_MESSAGE
        if head.id is not None or head.type is not None:
            self.outline.places.append(self._place_of(head.id))
            return MESSAGE
        if not self._read_info(head):
            notes.skip("a record of unknown type")
        messages = listed_messages(head)
        for message in messages:
            listed = read_record_head(bytes(message))
            place = self._listed_place(listed, is_initial=head.patch is None)
            self.outline.places.append(place)
        return LIST if messages else NO_MESSAGE

    def _place_of(self, message_id: str | None) -> int:
        """Return the place of a new message, or of a new version of a known one."""
        return self.outline.last if self._is_current(message_id) else self._add_place(message_id)

    def _listed_place(self, head: GeminiRecordHead | None, *, is_initial: bool) -> int:
        if head is None or (head.id is None and head.type is None):
            return ROOT
        return self._place_of(head.id) if is_initial or not self._is_current(head.id) else ROOT

    def _is_current(self, message_id: str | None) -> bool:
        """Return whether a message is on the current branch."""
        place = self._ids.find(message_id) if message_id is not None else None
        if place is None:
            return False
        depth = self._depths[place]
        return depth < len(self._path) and self._path[depth] == place

    def _add_place(self, message_id: str | None) -> int:
        outline = self.outline
        outline.info.is_rewound = False
        outline.previous.append(outline.last)
        outline.last = len(outline.previous) - 1
        self._depths.append(len(self._path))
        self._path.append(outline.last)
        if message_id is not None:
            self._ids.add(message_id, outline.last)
        return outline.last

    def _rewind(self, message_id: str) -> None:
        # If the message is unknown, the tool rewinds to the beginning.
        place = self._ids.find(message_id) if self._is_current(message_id) else None
        depth = self._depths[place] if place is not None else 1
        del self._path[depth:]
        self.outline.info.is_rewound = True
        self.outline.last = self._path[-1]

    def _read_info(self, head: GeminiRecordHead) -> bool:
        """Read the session's metadata in a record; return whether there was any."""
        info, patch = self.outline.info, head.patch
        created_us = TimestampParser().parse(head.start_time)
        if created_us is not None and not info.created_us:
            info.created_us = created_us
        info.project_hash = info.project_hash or head.project_hash
        info.summary = (patch.summary if patch else head.summary) or info.summary
        info.directories = (patch.directories if patch else head.directories) or info.directories
        info.is_sub_agent = info.is_sub_agent or head.kind == "subagent"
        known = (
            head.session_id, head.project_hash, head.start_time, head.last_updated, head.kind,
            head.summary, head.directories, head.messages,
        )  # fmt: skip
        is_known = any(value is not None for value in known)
        return patch is not None or is_known or bool(bytes(head.memory_scratchpad))
