"""The format of a bundle: sessions in one file, for import into another store.

A bundle is a file of JSON lines: a header; for each session one line, followed by a line for each
entry; and an end line with the number of sessions and entries and the checksum of all lines before
it. docs/reference/formats.md describes the fields. A bundle may come from anyone, so every line is
checked.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, MsgspecError, Struct

from rekindle.errors import BadBundle
from rekindle.model import Entry, IncomingSession, Kind, Session, Side, TitleSource

VERSION = 1
MAX_LINE_BYTES = 256 * 1024 * 1024
MAX_ENTRIES = 2**32 - 1
"""The largest number of entries that a store can have in one session."""
_MAX_TIME_US = 253_402_300_799_999_999
_MAX_TEXT_LENGTH = 64 * 1024
_MAX_TEXTS = 10_000
_UNREADABLE = (MsgspecError, UnicodeDecodeError, RecursionError)

BundledSession = tuple[Session, dict[TitleSource, str], Iterable[Entry]]
"""A session of a store, its titles, and its entries."""

_Time = Annotated[int, Meta(ge=0, le=_MAX_TIME_US)]


class HeaderLine(Struct, frozen=True, kw_only=True):
    """The first line of a bundle."""

    rekindle: Literal["bundle"] = "bundle"
    version: Annotated[int, Meta(ge=1)] = VERSION


class SessionLine(Struct, frozen=True, kw_only=True, tag="session", tag_field="type"):
    """The line of a session, with the number of entry lines that follow."""

    session: IncomingSession
    entries: Annotated[int, Meta(ge=0, le=MAX_ENTRIES)]


class EntryLine(
    Struct, frozen=True, kw_only=True, tag="entry", tag_field="type", rename="camel",
    omit_defaults=True, gc=False,
):  # fmt: skip
    """The line of an entry. A recorded line that is not UTF-8 is written as base64."""

    seq: int
    at_us: _Time
    side: Side
    kind: Kind
    protocol: Annotated[int, Meta(ge=1, le=999)] = 1
    line: str | None = None
    base64: bytes | None = None


class EndLine(Struct, frozen=True, kw_only=True, tag="end", tag_field="type"):
    """The last line of a bundle."""

    sessions: int
    entries: int
    sha256: str


_encode = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(HeaderLine).decode
_decode = msgspec.json.Decoder(SessionLine | EntryLine | EndLine).decode


def bundle_lines(sessions: Iterable[BundledSession]) -> Iterator[bytes]:
    """Yield the lines of a bundle. Raises BadBundle if a session is removed meanwhile."""
    checksum = hashlib.sha256()
    count = entries = 0
    header = _encode(HeaderLine()) + b"\n"
    checksum.update(header)
    yield header
    for session, titles, stored in sessions:
        count += 1
        entries += session.last_seq
        for line in _session_lines(session, titles, stored):
            checksum.update(line)
            yield line
    yield _encode(EndLine(sessions=count, entries=entries, sha256=checksum.hexdigest())) + b"\n"


def _session_lines(
    session: Session, titles: dict[TitleSource, str], entries: Iterable[Entry]
) -> Iterator[bytes]:
    incoming = IncomingSession.from_session(session, titles)
    yield _encode(SessionLine(session=incoming, entries=session.last_seq)) + b"\n"
    seq = 0
    for entry in entries:
        if entry.seq > session.last_seq:
            break
        yield _encode(_entry_line(entry)) + b"\n"
        seq = entry.seq
    if seq != session.last_seq:
        raise BadBundle(f"session {session.id} was removed meanwhile; nothing was exported")


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


def parse_entry(line: bytes) -> Entry:
    """Return the entry of a line. Raises BadBundle."""
    found = _read(line)
    if not isinstance(found, EntryLine):
        raise BadBundle("an entry is missing")
    return _entry(found)


def _entry(found: EntryLine) -> Entry:
    data = found.base64 if found.line is None else found.line.encode()
    if data is None or b"\n" in data:
        raise BadBundle(f"entry {found.seq} has more than one line")
    return Entry(
        seq=found.seq,
        side=found.side,
        kind=found.kind,
        at_us=found.at_us,
        line=data,
        protocol=found.protocol,
    )


class BundleChecker:
    """Checks the lines of a bundle in order. A bundle that passes can be imported."""

    def __init__(self) -> None:
        self.is_complete = False
        self._checksum = hashlib.sha256()
        self._lines = self._sessions = self._entries = 0
        self._entries_left = self._last_seq = 0
        """The progress in the session that is being checked."""

    def check(self, line: bytes) -> SessionLine | None:
        """Check one line; return the session that starts with it, if any. Raises BadBundle."""
        self._lines += 1
        if self.is_complete:
            raise BadBundle("it continues after its end")
        if not line.endswith(b"\n"):
            raise BadBundle("its end is missing; copy the whole file again")
        found = _read(line) if self._lines > 1 else _check_header(line)
        try:
            self._check_line(found)
        except BadBundle as error:
            raise BadBundle(f"line {self._lines}: {error}") from None
        if not self.is_complete:
            self._checksum.update(line)
        return found if isinstance(found, SessionLine) else None

    def _check_line(self, found: SessionLine | EntryLine | EndLine | None) -> None:
        match found:
            case EntryLine():
                self._check_entry(found)
            case SessionLine():
                self._check_session_line(found)
            case EndLine():
                self._check_end(found)
            case None:
                pass

    def _check_entry(self, found: EntryLine) -> None:
        if self._entries_left == 0:
            raise BadBundle("an entry does not belong to a session")
        self._last_seq += 1
        if found.seq != self._last_seq:
            raise BadBundle(f"entry {self._last_seq} is missing")
        self._entries_left -= 1
        self._entries += 1
        _entry(found)

    def _check_session_line(self, found: SessionLine) -> None:
        if self._entries_left:
            raise BadBundle("entries of a session are missing")
        _check_session(found.session, found.entries)
        self._sessions += 1
        self._entries_left, self._last_seq = found.entries, 0

    def _check_end(self, found: EndLine) -> None:
        counted = (self._sessions, self._entries)
        if self._entries_left or counted != (found.sessions, found.entries):
            raise BadBundle("sessions or entries are missing")
        if found.sha256 != self._checksum.hexdigest():
            raise BadBundle(
                "its checksum is wrong, because it was changed or damaged; copy it again"
            )
        self.is_complete = True


def _check_header(line: bytes) -> None:
    try:
        header = _decode_header(line)
    except _UNREADABLE:
        raise BadBundle("it is not a Rekindle bundle") from None
    if header.version > VERSION:
        raise BadBundle(
            f"it has version {header.version}, but this Rekindle knows only {VERSION}; upgrade it"
        )


def _read(line: bytes) -> SessionLine | EntryLine | EndLine:
    try:
        return _decode(line)
    except _UNREADABLE as error:
        raise BadBundle(f"it cannot be read: {error}") from None


def _check_session(incoming: IncomingSession, entries: int) -> None:
    """Raise BadBundle if a session has values that no store writes."""
    texts = [incoming.id, incoming.agent_session_id, *incoming.agent.command, *incoming.directories]
    texts += [incoming.agent.name or "", incoming.agent.version or "", incoming.cwd or ""]
    texts += [incoming.parent_id or "", *incoming.titles.values()]
    if incoming.origin is not None:
        origin = incoming.origin
        texts += [origin.tool, origin.path, origin.sha256, origin.stamp]
    if not incoming.id:
        raise BadBundle("a session has no id")
    if len(texts) > _MAX_TEXTS or any(len(text) > _MAX_TEXT_LENGTH for text in texts):
        raise BadBundle(f"the description of session {incoming.id[:100]!r} is too long")
    folders = [incoming.cwd, *incoming.directories]
    if any(it is not None and not it.startswith("/") for it in folders):
        raise BadBundle(f"a folder of session {incoming.id[:100]!r} is not an absolute path")
    if not 0 <= incoming.created_us <= _MAX_TIME_US:
        raise BadBundle(f"session {incoming.id[:100]!r} has no valid time")
    if not (0 <= incoming.turns <= entries and 0 <= incoming.messages <= entries):
        raise BadBundle(f"session {incoming.id[:100]!r} has more turns than entries")
