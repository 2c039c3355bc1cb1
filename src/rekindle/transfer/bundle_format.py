"""The bundle: sessions in one file, as another store can take them in.

JSON lines: a header, then of each session a line and the lines of its entries, and an end that
says how much there was and has the checksum of all before it. docs/export.md describes them.
What is read may come from anybody: nothing is believed that was not checked.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, MsgspecError, Struct

from rekindle.errors import BadBundle
from rekindle.model import Entry, IncomingSession, Kind, Session, Side, TitleSource

VERSION = 1
LONGEST_LINE = 256 * 1024 * 1024
MOST_ENTRIES = 2**32 - 1
"""Of a session: what a store can number."""
_LATEST_US = 253_402_300_799_999_999
_LONGEST_WORDS = 64 * 1024
_MOST_WORDS = 10_000
_UNREADABLE = (MsgspecError, UnicodeDecodeError, RecursionError)

Known = tuple[Session, dict[TitleSource, str], Iterable[Entry]]
"""A session as a store has it, its titles, and its entries."""

_Time = Annotated[int, Meta(ge=0, le=_LATEST_US)]


class Head(Struct, frozen=True, kw_only=True):
    """The first line."""

    rekindle: Literal["bundle"] = "bundle"
    version: Annotated[int, Meta(ge=1)] = VERSION


class SessionLine(Struct, frozen=True, kw_only=True, tag="session", tag_field="type"):
    """A session, and how many lines of entries follow."""

    session: IncomingSession
    entries: Annotated[int, Meta(ge=0, le=MOST_ENTRIES)]


class EntryLine(
    Struct, frozen=True, kw_only=True, tag="entry", tag_field="type", rename="camel",
    omit_defaults=True, gc=False,
):  # fmt: skip
    """An entry. A line that is no UTF-8 is written as base64."""

    seq: int
    at_us: _Time
    side: Side
    kind: Kind
    protocol: Annotated[int, Meta(ge=1, le=999)] = 1
    line: str | None = None
    base64: bytes | None = None


class End(Struct, frozen=True, kw_only=True, tag="end", tag_field="type"):
    """The last line."""

    sessions: int
    entries: int
    sha256: str


_encode = msgspec.json.Encoder().encode
_decode_head = msgspec.json.Decoder(Head).decode
_decode = msgspec.json.Decoder(SessionLine | EntryLine | End).decode


def bundle(sessions: Iterable[Known]) -> Iterator[bytes]:
    """Yield a bundle, line by line. Raises BadBundle if a session is changed meanwhile."""
    checksum = hashlib.sha256()
    count = entries = 0
    head = _encode(Head()) + b"\n"
    checksum.update(head)
    yield head
    for session, titles, read in sessions:
        count += 1
        entries += session.last_seq
        for line in _session_lines(session, titles, read):
            checksum.update(line)
            yield line
    yield _encode(End(sessions=count, entries=entries, sha256=checksum.hexdigest())) + b"\n"


def _session_lines(
    session: Session, titles: dict[TitleSource, str], entries: Iterable[Entry]
) -> Iterator[bytes]:
    yield _encode(SessionLine(session=_arrived(session, titles), entries=session.last_seq)) + b"\n"
    seq = 0
    for entry in entries:
        if entry.seq > session.last_seq:
            break
        yield _encode(_entry_line(entry)) + b"\n"
        seq = entry.seq
    if seq != session.last_seq:
        raise BadBundle(f"session {session.id} was removed meanwhile: nothing is exported")


def _arrived(session: Session, titles: dict[TitleSource, str]) -> IncomingSession:
    return IncomingSession(
        id=session.id,
        created_us=session.created_us,
        agent_session_id=session.agent_session_id,
        agent=session.agent,
        cwd=session.cwd,
        directories=session.directories,
        titles=titles,
        parent_id=session.parent_id,
        # What was lost to a failing store may have been counted.
        turns=min(session.turns, session.last_seq),
        messages=min(session.messages, session.last_seq),
        origin=session.origin,
    )


def _entry_line(entry: Entry) -> EntryLine:
    try:
        line, data = entry.line.decode(), None
    except UnicodeDecodeError:
        line, data = None, entry.line
    return EntryLine(
        seq=entry.seq,
        at_us=entry.at_us,
        side=entry.side,
        kind=entry.kind,
        protocol=entry.protocol,
        line=line,
        base64=data,
    )


def entry_in(line: bytes) -> Entry:
    """Return the entry of a line that was checked before."""
    found = _read(line)
    if not isinstance(found, EntryLine):
        raise BadBundle("an entry is missing")
    return _entry(found)


def _entry(found: EntryLine) -> Entry:
    data = found.base64 if found.line is None else found.line.encode()
    if data is None or b"\n" in data:
        raise BadBundle(f"entry {found.seq} is not one line")
    return Entry(
        seq=found.seq,
        side=found.side,
        kind=found.kind,
        at_us=found.at_us,
        line=data,
        protocol=found.protocol,
    )


class Checker:
    """Looks at a bundle's lines, one after the other; what it passes can be taken in."""

    def __init__(self) -> None:
        self.is_whole = False
        self._checksum = hashlib.sha256()
        self._lines = self._sessions = self._entries = 0
        self._left = self._seq = 0

    def look(self, line: bytes) -> SessionLine | None:
        """Look at one line; return the session that begins with it. Raises BadBundle."""
        self._lines += 1
        if self.is_whole:
            raise BadBundle("something stands after its end")
        if not line.endswith(b"\n"):
            raise BadBundle("its end is missing: was it copied whole?")
        found = _read(line) if self._lines > 1 else _check_head(line)
        try:
            self._look_at(found)
        except BadBundle as error:
            raise BadBundle(f"line {self._lines}: {error}") from None
        if not self.is_whole:
            self._checksum.update(line)
        return found if isinstance(found, SessionLine) else None

    def _look_at(self, found: SessionLine | EntryLine | End | None) -> None:
        match found:
            case EntryLine():
                self._look_at_entry(found)
            case SessionLine():
                self._look_at_session(found)
            case End():
                self._look_at_end(found)
            case None:
                pass

    def _look_at_entry(self, found: EntryLine) -> None:
        if self._left == 0:
            raise BadBundle("an entry belongs to no session")
        self._seq += 1
        if found.seq != self._seq:
            raise BadBundle(f"entry {self._seq} is missing")
        self._left -= 1
        self._entries += 1
        _entry(found)

    def _look_at_session(self, found: SessionLine) -> None:
        if self._left:
            raise BadBundle("entries of a session are missing")
        check_arrived(found.session, found.entries)
        self._sessions += 1
        self._left, self._seq = found.entries, 0

    def _look_at_end(self, found: End) -> None:
        counted = (self._sessions, self._entries)
        if self._left or counted != (found.sessions, found.entries):
            raise BadBundle("sessions or entries are missing")
        if found.sha256 != self._checksum.hexdigest():
            raise BadBundle("its checksum is wrong: it was changed or damaged")
        self.is_whole = True


def _check_head(line: bytes) -> None:
    try:
        head = _decode_head(line)
    except _UNREADABLE:
        raise BadBundle("it is no bundle of Rekindle's") from None
    if head.version > VERSION:
        raise BadBundle(
            f"it is of version {head.version}, but this Rekindle knows only {VERSION}: upgrade it"
        )


def _read(line: bytes) -> SessionLine | EntryLine | End:
    try:
        return _decode(line)
    except _UNREADABLE as error:
        raise BadBundle(f"it cannot be read: {error}") from None


def check_arrived(arrived: IncomingSession, entries: int) -> None:
    """Raise BadBundle for what no store would have written."""
    words = [arrived.id, arrived.agent_session_id, *arrived.agent.command, *arrived.directories]
    words += [arrived.agent.name or "", arrived.agent.version or "", arrived.cwd or ""]
    words += [arrived.parent_id or "", *arrived.titles.values()]
    if arrived.origin is not None:
        origin = arrived.origin
        words += [origin.tool, origin.path, origin.sha256, origin.stamp]
    if not arrived.id:
        raise BadBundle("a session has no id")
    if len(words) > _MOST_WORDS or any(len(it) > _LONGEST_WORDS for it in words):
        raise BadBundle(f"too much is said of session {arrived.id[:100]!r}")
    if not 0 <= arrived.created_us <= _LATEST_US:
        raise BadBundle(f"session {arrived.id[:100]!r} was made at no time")
    if not (0 <= arrived.turns <= entries and 0 <= arrived.messages <= entries):
        raise BadBundle(f"session {arrived.id[:100]!r} has more turns than entries")
