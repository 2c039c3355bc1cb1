"""One session of OpenCode's, looked over, and the conversations that it is."""

import re
from collections.abc import Generator, Iterator
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from rekindle.importers.base import Notes, Talk, Tally
from rekindle.importers.entry_builder import Teller
from rekindle.importers.opencode.entries import Conversation
from rekindle.importers.opencode.records import (
    Message,
    Part,
    Revert,
    Session,
    Stored,
    message_of,
    microseconds,
    read_part,
)
from rekindle.importers.titles import titles_of
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    AgentIdentity,
    Entry,
    IncomingSession,
    Origin,
    TitleSource,
)

NAME = "opencode"

_NO_TITLE = re.compile(r"(New|Child) session - \d{4}-\d\d-\d\dT[\d:.]+Z")


class Kept(Protocol):
    """A session where it is kept."""

    session: Session

    @property
    def is_damaged(self) -> bool:
        """Whether there was more that could not be read."""
        ...

    def messages(self) -> Iterator[Stored]:
        """Yield its messages, in order."""
        ...

    def todos(self) -> list[tuple[str, str, str]]:
        """Return what is to be done: what, how far it is, and how urgent."""
        ...


class _Outline(Struct):
    """What a look over a session has found."""

    sha256: str = ""
    size: int = 0
    open_at: int = 0
    """The number of the first message that may still be changed."""
    hidden_at: int | None = None
    """The number of the first message that was taken back."""
    folder: str | None = None
    created_us: int = 0


class Conversations:
    """The conversations that a session is, and those parts of it that were taken back."""

    def __init__(self, kept: Kept, notes: Notes) -> None:
        self._kept = kept
        self._notes = notes
        self._outline = _outline(kept, notes)

    def talks(self) -> Iterator[Talk]:
        """Yield the session, and then with what was taken back."""
        session, outline = self._kept.session, self._outline
        main = partial(self._tell, session.revert)
        whole = partial(self._tell, None, name="taken back")
        given = None if _NO_TITLE.match(session.title or "") else session.title
        titles = titles_of(given, main)
        is_cut = outline.hidden_at is not None
        if titles is None and is_cut:
            # All of it was taken back.
            main, is_cut = partial(self._tell, None), False
            titles = titles_of(given, main)
        if titles is None:
            return
        talk = Talk(
            arrived=self._arrived(titles),
            tell=main,
            folder=session.directory or outline.folder,
            is_shortened=is_cut,
            is_archived=session.time.archived is not None,
        )
        yield talk
        if is_cut:
            yield Talk(
                arrived=replace(talk.arrived, agent_session_id=UNKNOWN_TO_AGENT),
                tell=whole,
                folder=talk.folder,
                is_aside=True,
                stamp=outline.sha256,
            )
        if self._kept.is_damaged:
            self._notes.skip("the database is damaged: a part of a session cannot be read")

    def _arrived(self, titles: dict[TitleSource, str]) -> IncomingSession:
        session, outline = self._kept.session, self._outline
        is_child = session.parent_id is not None
        return IncomingSession(
            id=session.id,
            created_us=outline.created_us,
            agent_session_id=UNKNOWN_TO_AGENT if is_child else session.id,
            agent=AgentIdentity(name=NAME, version=session.version or None),
            # Without a folder it is not listed.
            cwd=None if is_child else session.directory or outline.folder,
            titles=titles,
            parent_id=session.parent_id,
            origin=Origin(tool=NAME, path="", sha256=outline.sha256),
        )

    def _tell(
        self, revert: Revert | None, tally: Tally, *, name: str = "session"
    ) -> Generator[Entry]:
        """Yield the entries of a session, up to where it was taken back."""
        kept, outline, notes = self._kept, self._outline, self._notes.anew(name)
        teller = Teller(kept.session.id, tally, outline.created_us)
        conversation = Conversation(teller, notes, kept.session.directory or outline.folder)
        reading = _Reading(notes)
        for number, stored in enumerate(kept.messages()):
            is_cut = revert is not None and number == outline.hidden_at
            until = revert.part_id if revert is not None and is_cut else None
            if is_cut and until is None:
                break
            if number == outline.open_at:
                teller.is_provisional = True
            message = message_of(stored)
            if message is None:
                notes.skip("a message is torn, or too large")
            else:
                for _ in conversation.take(message, reading.parts(stored, message, until)):
                    yield from teller.take()
            notes.at((outline.size + reading.size) // 2)
            if is_cut:
                break
        conversation.finish(kept.todos())
        yield from teller.take()


def _outline(kept: Kept, notes: Notes) -> _Outline:
    """Look over a session, without reading what is said in it."""
    found = _Outline()
    revert = kept.session.revert or Revert()
    # What was said may be the same, and yet not be told: all counts that is told of it.
    about = (kept.session.directory, revert.message_id, revert.part_id, kept.todos())
    total = sha256(repr(about).encode())
    created_us = microseconds(kept.session.time.created)
    for number, stored in enumerate(kept.messages()):
        message = message_of(stored)
        if message is not None:
            if message.kind in {"assistant", "shell"}:
                found.open_at = number if message.is_open else number + 1
            found.folder = found.folder or message.cwd
            created_us = message.at_us if created_us is None else created_us
        if stored.id == revert.message_id:
            found.hidden_at = number
        told = (f"{stored.type} {stored.id}", stored.data)
        for name, data in chain((told,), stored.parts()):
            total.update(f"\0{name}\0".encode())
            total.update(data or b"")
            found.size += len(data or b"")
        notes.at(found.size // 2)
    found.sha256 = total.hexdigest()
    found.created_us = created_us or 0
    return found


class _Reading:
    """Reads the parts of messages, and counts how much there is in them."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self.size = 0

    def parts(
        self, stored: Stored, message: Message, until: str | None
    ) -> Iterator[tuple[str, Part]]:
        """Yield the parts of a message, perhaps only those before one."""
        self.size += len(stored.data or b"")
        for number, part in enumerate(message.inside):
            yield part.id or f"{stored.id}-{number}", part
        for part_id, data in stored.parts():
            if part_id == until:
                return
            self.size += len(data or b"")
            part = read_part(data) if data is not None else None
            if part is not None:
                yield part_id, part
            else:
                self._notes.skip("a part of a message is torn, or too large")
