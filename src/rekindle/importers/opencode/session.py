"""The importer of OpenCode: a database of sessions, and a file for each part before that."""

from collections.abc import Generator, Iterator
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import Protocol

from msgspec import Struct

from rekindle.importers.base import (
    EntryCounts,
    FoundSession,
    ImportNotes,
    SourceSession,
    ToolImporter,
)
from rekindle.importers.entry_builder import EntryBuilder
from rekindle.importers.opencode.database import DatabaseSession
from rekindle.importers.opencode.entries import OpenCodeConverter
from rekindle.importers.opencode.file_tree import FileTreeSession
from rekindle.importers.opencode.locations import find, folders
from rekindle.importers.opencode.records import (
    OpenCodeMessage,
    OpenCodePart,
    OpenCodeRevert,
    OpenCodeSession,
    StoredMessage,
    microseconds,
    read_message,
    read_part,
)
from rekindle.importers.titles import session_titles
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    AgentIdentity,
    Entry,
    IncomingSession,
    Origin,
    TitleSource,
)

NAME = "opencode"


class StoredSession(Protocol):
    """A session in a database or in a tree of files."""

    session: OpenCodeSession

    @property
    def is_damaged(self) -> bool:
        """Whether some of its records could not be read."""
        ...

    def messages(self) -> Iterator[StoredMessage]:
        """Yield its messages in order."""
        ...

    def todos(self) -> list[tuple[str, str, str]]:
        """Return the to-do list: the content, status and priority of each item."""
        ...


class _Outline(Struct):
    """The facts about all messages of a session."""

    sha256: str = ""
    size: int = 0
    first_open: int = 0
    """The number of the first message that may still change."""
    first_reverted: int | None = None
    """The number of the first message that was reverted."""
    folder: str | None = None
    created_us: int = 0


class OpenCodeSessionReader:
    """Reads a session, and the branch with its reverted messages."""

    def __init__(self, stored: StoredSession, notes: ImportNotes) -> None:
        self._stored = stored
        self._notes = notes
        self._outline = _read_outline(stored, notes)

    def sessions(self) -> Iterator[SourceSession]:
        """Yield the session, and then the branch that includes the reverted messages."""
        session, outline = self._stored.session, self._outline
        read_entries = partial(self._read_entries, session.revert)
        titles = session_titles(session.title, read_entries)
        is_reverted = outline.first_reverted is not None
        if titles is None and is_reverted:
            # Everything was reverted: import it all as the session.
            read_entries, is_reverted = partial(self._read_entries, None), False
            titles = session_titles(session.title, read_entries)
        if titles is None:
            return
        source = SourceSession(
            incoming=self._incoming(titles),
            read_entries=read_entries,
            folder=session.directory or outline.folder,
            is_rewound=is_reverted,
            is_archived=session.time.archived is not None,
        )
        yield source
        if is_reverted:
            whole = partial(self._read_entries, None, section="taken back")
            yield source.branch(whole, outline.sha256)
        if self._stored.is_damaged:
            self._notes.skip("the database is damaged: a part of a session cannot be read")

    def _incoming(self, titles: dict[TitleSource, str]) -> IncomingSession:
        session, outline = self._stored.session, self._outline
        is_child = session.parent_id is not None
        return IncomingSession(
            id=session.id,
            created_us=outline.created_us,
            agent_session_id=UNKNOWN_TO_AGENT if is_child else session.id,
            agent=AgentIdentity(name=NAME, version=session.version or None),
            # A session without a folder is not listed.
            cwd=None if is_child else session.directory or outline.folder,
            titles=titles,
            parent_id=session.parent_id,
            origin=Origin(tool=NAME, path="", sha256=outline.sha256),
        )

    def _read_entries(
        self, revert: OpenCodeRevert | None, counts: EntryCounts, *, section: str = "session"
    ) -> Generator[Entry]:
        """Yield the entries of a session, up to the place of the revert if one is given."""
        stored, outline, notes = self._stored, self._outline, self._notes.restart(section)
        builder = EntryBuilder(stored.session.id, counts, outline.created_us)
        cwd = stored.session.directory or outline.folder
        converter = OpenCodeConverter(builder, notes, cwd)
        reader = _PartReader(notes)
        for number, stored_message in enumerate(stored.messages()):
            is_reverted = revert is not None and number == outline.first_reverted
            end_part = revert.part_id if revert is not None and is_reverted else None
            if is_reverted and end_part is None:
                break
            if number == outline.first_open:
                builder.is_provisional = True
            message = read_message(stored_message)
            if message is None:
                notes.skip("a message is incomplete or too large")
            else:
                parts = reader.parts(stored_message, message, end_part)
                for _ in converter.convert(message, parts):
                    yield from builder.take_entries()
            notes.report_progress((outline.size + reader.size) // 2)
            if is_reverted:
                break
        converter.finish(stored.todos())
        yield from builder.take_entries()


def _read_outline(stored: StoredSession, notes: ImportNotes) -> _Outline:
    """Read the outline of a session, without decoding the parts of its messages."""
    outline = _Outline()
    revert = stored.session.revert or OpenCodeRevert()
    # The checksum covers everything that the entries depend on, not only the messages.
    facts = (stored.session.directory, revert.message_id, revert.part_id, stored.todos())
    checksum = sha256(repr(facts).encode())
    created_us = microseconds(stored.session.time.created)
    for number, stored_message in enumerate(stored.messages()):
        message = read_message(stored_message)
        if message is not None:
            if message.kind in {"assistant", "shell"}:
                outline.first_open = number if message.is_open else number + 1
            outline.folder = outline.folder or message.cwd
            created_us = message.at_us if created_us is None else created_us
        if stored_message.id == revert.message_id:
            outline.first_reverted = number
        own = (f"{stored_message.type} {stored_message.id}", stored_message.data)
        for name, data in chain((own,), stored_message.parts()):
            checksum.update(f"\0{name}\0".encode())
            checksum.update(data or b"")
            outline.size += len(data or b"")
        notes.report_progress(outline.size // 2)
    outline.sha256 = checksum.hexdigest()
    outline.created_us = created_us or 0
    return outline


class _PartReader:
    """Decodes the parts of messages, and counts their bytes."""

    def __init__(self, notes: ImportNotes) -> None:
        self._notes = notes
        self.size = 0

    def parts(
        self, stored: StoredMessage, message: OpenCodeMessage, end_part: str | None
    ) -> Iterator[tuple[str, OpenCodePart]]:
        """Yield the ids and the parts of a message, up to `end_part` if it is given."""
        self.size += len(stored.data or b"")
        for number, part in enumerate(message.parts):
            yield part.id or f"{stored.id}-{number}", part
        for part_id, data in stored.parts():
            if part_id == end_part:
                return
            self.size += len(data or b"")
            part = read_part(data) if data is not None else None
            if part is not None:
                yield part_id, part
            else:
                self._notes.skip("a part of a message is incomplete or too large")


def read(found: FoundSession, notes: ImportNotes) -> Iterator[SourceSession]:
    """Yield a session, and the branch that includes its reverted messages."""
    stored = DatabaseSession(found.path, found.part) if found.part else FileTreeSession(found.path)
    yield from OpenCodeSessionReader(stored, notes).sessions()


IMPORTER = ToolImporter(name=NAME, title="OpenCode", folders=folders, find=find, read=read)
