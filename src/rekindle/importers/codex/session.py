"""The importer of Codex: each session is a file of JSON lines, which may inherit others."""

from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from msgspec import Struct

from rekindle.importers.base import (
    EntryCounts,
    FoundSession,
    ImportNotes,
    SourceSession,
    ToolImporter,
    branch_limit,
)
from rekindle.importers.codex.compressed import COMPRESSED_SUFFIX
from rekindle.importers.codex.entries import CodexConverter, CodexSessionFacts
from rekindle.importers.codex.locations import (
    CodexHome,
    find,
    folders,
    is_archived,
    known_home,
    thread_of,
)
from rekindle.importers.codex.outline import (
    CodexOutline,
    CodexRollback,
    CodexSegment,
    is_irrelevant,
    read_meta,
    read_outline,
    remaining_lines,
)
from rekindle.importers.codex.records import (
    CodexHistoryBase,
    CodexMeta,
    CodexPart,
    is_sub_agent,
    parent_of,
    read_item,
    read_line,
)
from rekindle.importers.codex.user_text import folder_in
from rekindle.importers.entry_builder import EntryBuilder, TimestampParser
from rekindle.importers.lenient_reader import decode_string
from rekindle.importers.titles import branch_titles, session_titles
from rekindle.model import UNKNOWN_TO_AGENT, AgentIdentity, Entry, IncomingSession, Origin

NAME = "codex"

_LINES_SEARCHED_FOR_FOLDER = 50


class _Selection(Struct, frozen=True):
    """The lines of a file that make up one session or branch."""

    section: str
    rollbacks: list[CodexRollback]
    """The lines that are left out."""
    end: int | None = None
    """The line before which it ends."""


class _SessionFile(Struct, frozen=True, kw_only=True):
    """A file with its inherited history and its outline."""

    meta: CodexMeta
    cwd: str | None
    segments: list[CodexSegment]
    outline: CodexOutline

    @property
    def size(self) -> int:
        """The approximate number of bytes to read."""
        return sum(segment.size or 0 for segment in self.segments)


class _Branch(Struct, frozen=True):
    """An abandoned branch."""

    stamp: str
    sha256: str
    """The checksum of the files that it is in."""
    read_entries: Callable[[EntryCounts], Generator[Entry]]


class CodexSessionFiles:
    """The files of one session."""

    def __init__(self, found: FoundSession, notes: ImportNotes) -> None:
        self._notes = notes
        self._location = found.path
        self._thread_id = thread_of(found.path)
        # A renamed file is imported on its own.
        self._home = known_home(found.path) if self._thread_id is not None else CodexHome()
        self._paths = self._all_paths(found.path)
        if self._home.titles.error:
            notes.skip(self._home.titles.error)
        self._id = ""

    def _all_paths(self, path: Path) -> list[Path]:
        """Return the current file, and then the files that the session has left."""
        if self._thread_id is None:
            return [path]
        if self._thread_id not in self._home.threads:
            raise FileNotFoundError(f"{path} was removed")
        current = self._home.current(self._thread_id)
        others = [file for file in self._home.threads[self._thread_id] if file != current]
        return [file.path for file in (current, *reversed(others))]

    def sessions(self) -> Iterator[SourceSession]:
        """Yield the session, and then its abandoned branches."""
        current = self._read_file(self._paths[0], "outline")
        self._id = self._thread_id or current.meta.id or self._paths[0].name.partition(".")[0]
        session = self._session(current)
        if session is None:
            return
        yield session
        limit = branch_limit(current.size)
        for branch in islice(self._branches(current), limit):
            origin = Origin(tool=NAME, path=str(self._location), sha256=branch.sha256)
            titles = branch_titles(session.incoming, branch.read_entries)
            yield session.branch(branch.read_entries, branch.stamp, titles=titles, origin=origin)
        left_out = len(current.outline.rollbacks) + len(self._paths) - 1 - limit
        self._notes.skip("a branch was left out, because there are too many", max(0, left_out))

    def _read_file(self, path: Path, section: str) -> _SessionFile:
        # The other lines can be used even if the first line is damaged.
        meta = read_meta(path) or CodexMeta()
        notes = self._notes.restart(section)
        segments = self._segments(path, meta.subagent_history_start_ordinal, notes)
        cwd = meta.cwd or _recorded_folder(segments[-1])
        outline = read_outline(segments, notes)
        return _SessionFile(meta=meta, cwd=cwd, segments=segments, outline=outline)

    def _segments(
        self, path: Path, own_start: int | None, notes: ImportNotes
    ) -> list[CodexSegment]:
        """Return the segments of a session, the oldest first."""
        segments = [CodexSegment(path=path, size=_file_size(path), from_ordinal=own_start)]
        for link in self._home.history_links(path):
            end = link.base.end_ordinal_exclusive
            if own_start is not None and end is not None and end <= own_start:
                # A sub-agent's own part starts after all of the inherited history.
                break
            if link.rollout is None:
                notes.skip(link.error)
                break
            segments.append(_inherited_segment(link.rollout.path, link.base, own_start, notes))
        return segments[::-1]

    def _session(self, file: _SessionFile) -> SourceSession | None:
        meta = file.meta
        selection = _Selection("session", file.outline.rollbacks)
        read_entries = partial(self._read_entries, file, selection)
        given = self._home.titles.names.get(self._id) or _nickname(meta)
        titles = session_titles(given, read_entries)
        if titles is None:
            return None
        is_child = is_sub_agent(meta)
        incoming = IncomingSession(
            id=self._id,
            created_us=_created_us(meta),
            agent_session_id=UNKNOWN_TO_AGENT if is_child else self._id,
            agent=AgentIdentity(name=NAME, version=meta.cli_version),
            # A session without a folder is not listed.
            cwd=None if is_child else file.cwd,
            titles=titles,
            parent_id=parent_of(meta),
            origin=Origin(tool=NAME, path=str(self._location), sha256=file.outline.sha256),
        )
        return SourceSession(
            incoming=incoming,
            read_entries=read_entries,
            folder=file.cwd,
            is_rewound=file.outline.is_rewound,
            is_archived=is_archived(self._paths[0]),
        )

    def _branches(self, current: _SessionFile) -> Iterator[_Branch]:
        """Yield the abandoned branches, the latest first: other files, then rolled back turns."""
        for path in self._paths[1:]:
            file = self._read_file(path, f"outline {path.name}")
            selection = _Selection(path.name, file.outline.rollbacks)
            read_entries = partial(self._read_entries, file, selection)
            checksum = file.outline.sha256
            name = path.name.removesuffix(COMPRESSED_SUFFIX)
            yield _Branch(f"{name}-{checksum}", checksum, read_entries)
        rollbacks = current.outline.rollbacks
        for number in reversed(range(len(rollbacks))):
            rollback = rollbacks[number]
            selection = _Selection(f"branch {number}", rollbacks[:number], rollback.end)
            read_entries = partial(self._read_entries, current, selection)
            # Rolled back turns never change.
            stamp = f"{rollback.first}-{rollback.end}"
            yield _Branch(stamp, current.outline.sha256, read_entries)

    def _read_entries(
        self, file: _SessionFile, selection: _Selection, counts: EntryCounts
    ) -> Generator[Entry]:
        """Yield the entries of the selected lines."""
        notes = self._notes.restart(selection.section)
        builder = EntryBuilder(self._id, counts, _created_us(file.meta))
        outline = file.outline
        # Without events so far, the first event may still come and replace all messages.
        builder.is_provisional = not (outline.has_events or outline.is_bare)
        facts = CodexSessionFacts(
            cwd=file.cwd,
            start_us=_created_us(file.meta),
            has_events=outline.has_events,
            is_child=is_sub_agent(file.meta),
            is_paginated=file.meta.history_mode == "paginated",
        )
        converter = CodexConverter(builder, notes, facts)
        lines = remaining_lines(
            file.segments, selection.rollbacks, notes, outline.size, selection.end
        )
        for segment, data in lines:
            if not data or is_irrelevant(data, has_events=outline.has_events):
                continue
            line = read_line(data)
            if line is None or not segment.includes(line.ordinal):
                continue
            if bytes(line.payload):
                converter.convert(line)
            elif outline.is_bare and (item := read_item(data)) is not None:
                converter.convert_bare(item)
            yield from builder.take_entries()
        converter.finish()
        yield from builder.take_entries()


def _file_size(path: Path) -> int | None:
    """Return the current size of a file; None if it is compressed, because it cannot grow then."""
    return None if path.suffix == COMPRESSED_SUFFIX else path.stat().st_size


def _inherited_segment(
    path: Path, base: CodexHistoryBase, own_start: int | None, notes: ImportNotes
) -> CodexSegment:
    """Return the part of a file that another session inherits."""
    size, end = _file_size(path), base.end_byte_offset
    if end is not None and end >= 0 and (size is None or end <= size):
        # Offsets are more reliable: some versions have used an ordinal twice.
        return CodexSegment(path=path, size=end, from_ordinal=own_start)
    if end is not None:
        notes.skip("the inherited history is shorter than before")
    before = base.end_ordinal_exclusive
    return CodexSegment(path=path, size=size, before_ordinal=before, from_ordinal=own_start)


def _created_us(meta: CodexMeta) -> int:
    return TimestampParser().parse(meta.timestamp) or 0


def _nickname(meta: CodexMeta) -> str | None:
    return meta.agent_nickname or meta.agent_role if is_sub_agent(meta) else None


def _recorded_folder(own: CodexSegment) -> str | None:
    """Return the folder of a session without metadata, from the model's input."""
    for _, data in islice(own.lines(), _LINES_SEARCHED_FOR_FOLDER):
        line = read_line(data) if b"<environment_context>" in data else None
        # In older files the line itself is the item.
        item = read_item(bytes(line.payload) or data) if line is not None else None
        parts: list[CodexPart] = item.content or [] if item is not None else []
        for part in parts:
            if (folder := folder_in(decode_string(part.text))) is not None:
                return folder
    return None


def read(found: FoundSession, notes: ImportNotes) -> Iterator[SourceSession]:
    """Yield a session, and its abandoned branches."""
    yield from CodexSessionFiles(found, notes).sessions()


IMPORTER = ToolImporter(
    name=NAME,
    agent_names=("@agentclientprotocol/codex-acp", "@zed-industries/codex-acp", "codex-acp"),
    title="Codex",
    folders=folders,
    find=find,
    read=read,
)
