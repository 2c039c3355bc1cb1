"""A look over the files of a session, which finds what still counts. Little is kept of it.

Each message has a place after the one before it. Going back to a message takes it away, with all
that came after it: so the messages are a tree, of which the last branch is the session. A list
that is to replace all messages takes nothing away: the tool writes such lists when a conversation
is compacted, when a turn has failed, and by mistake when it loads a session again within the
minute, and in none of these cases was anything unsaid. So only what is new in a list has a place.

A message may be written many times, each time with more in it. Each time has the place of what
was written last: there is the news in it.
"""

from array import array
from collections.abc import Sequence

from msgspec import Raw

from rekindle.importers.base import Notes
from rekindle.importers.entry_builder import Clock
from rekindle.importers.gemini.files import File, Records, in_order
from rekindle.importers.gemini.records import Mark, read_mark
from rekindle.importers.line_reader import Hash
from rekindle.importers.uuids import Uuids

ROOT = 0
"""The place before the first message."""
_RECORDS_A_NOTE = 1024

NO_MESSAGE, MESSAGE, LIST = range(3)
"""What a record may be."""


class Outline:
    """What the files of a session have, record by record."""

    def __init__(self, files: list[File]) -> None:
        self.files = files
        self.size = sum(file.size for file in files)
        self.sha256 = ""
        self.order = array("H")
        """Of which file each record is, if there are several."""
        self.kinds = bytearray()
        """What each record is."""
        self.places = array("i")
        """The place of each message, and of each in a list. What is at ROOT is not news."""
        self.before = array("i", [ROOT])
        """The place before each place."""
        self.last = ROOT
        self.project_hash: str | None = None
        self.created_us = 0
        self.summary: str | None = None
        self.directories: list[str] = []
        self.is_sub_agents = False
        self.is_shortened = False
        """Whether it was gone back, and nothing was said since."""

    def path_to(self, place: int) -> bytearray:
        """Return for each place whether it is that one, or before it."""
        path = bytearray(len(self.before))
        while place != ROOT:
            path[place] = 1
            place = self.before[place]
        return path

    def tips(self) -> list[int]:
        """Return the places from which the tool has gone back, the latest first."""
        is_tip = bytearray(b"\1" * len(self.before))
        for place in self.before:
            is_tip[place] = 0
        is_tip[ROOT] = is_tip[self.last] = 0
        return [place for place in range(len(is_tip) - 1, 0, -1) if is_tip[place]]


def outline(files: list[File], notes: Notes) -> Outline:
    """Look over the files of a session."""
    every = [Records(file) for file in files]
    survey = _Survey(Outline(files))
    is_bad = False
    for number, read in enumerate(in_order(every)):
        if number % _RECORDS_A_NOTE == 0:
            notes.at(sum(it.done for it in every) // 2)
        notes.skip("a record is no JSON", is_bad)
        is_bad = bool(read.line) and read.mark is None
        if len(files) > 1:
            survey.found.order.append(read.file)
        kind = NO_MESSAGE if read.mark is None else survey.take(read.mark, notes)
        survey.found.kinds.append(kind)
    notes.skip("the last record is cut off", is_bad)
    notes.skip("a record is too long", sum(it.too_long for it in every))
    survey.found.sha256 = _checksum(every)
    return survey.found


def _checksum(every: Sequence[Records]) -> str:
    if len(every) == 1:
        return every[0].sha256
    checksum = Hash()
    for records in every:
        checksum.take(records.sha256.encode())
    return checksum.words


def messages_in(mark: Mark) -> list[Raw]:
    """Return the messages that stand in a record as a list."""
    return (mark.patch.messages if mark.patch is not None else mark.messages) or []


class _Survey:
    """Gives messages their places, one after the other."""

    def __init__(self, found: Outline) -> None:
        self.found = found
        self._ids = Uuids()
        self._depths = array("i", [0])
        self._path = array("i", [ROOT])
        """The places that count, each at its depth."""

    def take(self, mark: Mark, notes: Notes) -> int:
        """Place one record; return what it is."""
        if mark.rewind_to is not None:
            self._go_back(mark.rewind_to)
            return NO_MESSAGE
        if mark.id is not None or mark.type is not None:
            self.found.places.append(self._place(mark.id))
            return MESSAGE
        if not self._learn(mark):
            notes.skip("a record of unknown type")
        messages = messages_in(mark)
        for message in messages:
            inside = read_mark(bytes(message))
            self.found.places.append(self._listed(inside, is_new=mark.patch is None))
        return LIST if messages else NO_MESSAGE

    def _place(self, message_id: str | None) -> int:
        """Return the place of what is said next, or said to its end."""
        return self.found.last if self._is_there(message_id) else self._add(message_id)

    def _listed(self, inside: Mark | None, *, is_new: bool) -> int:
        if inside is None or (inside.id is None and inside.type is None):
            return ROOT
        return self._place(inside.id) if is_new or not self._is_there(inside.id) else ROOT

    def _is_there(self, message_id: str | None) -> bool:
        known = self._ids.find(message_id) if message_id is not None else None
        if known is None:
            return False
        depth = self._depths[known]
        return depth < len(self._path) and self._path[depth] == known

    def _add(self, message_id: str | None) -> int:
        found = self.found
        found.is_shortened = False
        found.before.append(found.last)
        found.last = len(found.before) - 1
        self._depths.append(len(self._path))
        self._path.append(found.last)
        if message_id is not None:
            self._ids.add(message_id, found.last)
        return found.last

    def _go_back(self, message_id: str) -> None:
        # Where the message is not known, the tool goes back to the beginning.
        known = self._ids.find(message_id) if self._is_there(message_id) else None
        depth = self._depths[known] if known is not None else 1
        del self._path[depth:]
        self.found.is_shortened = True
        self.found.last = self._path[-1]

    def _learn(self, mark: Mark) -> bool:
        """Take what is said of the session as a whole; tell whether it was that."""
        found, patch = self.found, mark.patch
        told_us = Clock().read(mark.start_time)
        if told_us is not None and not found.created_us:
            found.created_us = told_us
        found.project_hash = found.project_hash or mark.project_hash
        found.summary = (patch.summary if patch else mark.summary) or found.summary
        found.directories = (patch.directories if patch else mark.directories) or found.directories
        found.is_sub_agents = found.is_sub_agents or mark.kind == "subagent"
        told = (mark.session_id, mark.project_hash, mark.start_time, mark.last_updated, mark.kind)
        others = (mark.summary, mark.directories, mark.messages, *_quiet(mark))
        return patch is not None or any(it is not None for it in (*told, *others))


def _quiet(mark: Mark) -> list[Raw]:
    """Return what is of no interest to whoever reads the conversation."""
    return [mark.memory_scratchpad] if bytes(mark.memory_scratchpad) else []
