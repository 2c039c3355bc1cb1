"""The importer of Claude Code: each session is one file of JSON lines, a tree of records."""

from collections.abc import Generator, Iterator, Sequence
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
from rekindle.importers.claude.entries import ClaudeConverter
from rekindle.importers.claude.locations import (
    agent_id_of,
    child_id,
    find,
    folders,
    is_agent_file,
    parent_of_agent,
    read_output,
    session_id_of,
)
from rekindle.importers.claude.outline import ROOT, ClaudeSidechain, read_outline
from rekindle.importers.claude.records import read_record
from rekindle.importers.entry_builder import EntryBuilder
from rekindle.importers.lenient_reader import LenientReader
from rekindle.importers.line_reader import LineReader
from rekindle.importers.titles import branch_titles, session_titles
from rekindle.importers.validate import valid_folder, valid_id
from rekindle.jsonvalue import as_str
from rekindle.model import UNKNOWN_TO_AGENT, AgentIdentity, Entry, IncomingSession, Origin

NAME = "claude"

_MAX_VERSION_LENGTH = 100
_COMMANDS = ("/", "! ", "# ")
_MAX_META_BYTES = 64 * 1024
_DEFAULT_FOLDER = "/"
"""The folder of a session whose folder is unknown. Without one it would not be listed."""


class _AgentMeta(Struct, frozen=True, rename="camel"):
    """The file beside a sub-agent's session."""

    description: str | None = None


_read_agent_meta = LenientReader(_AgentMeta)


class _Selection(Struct, frozen=True, kw_only=True):
    """The lines of a file that make up one session."""

    session_id: str
    units: Sequence[int]
    """A flag for each unit: whether it is selected. Sub-agents count from the end."""
    first_line: int = 0
    start: int = 0
    end: int


class ClaudeSessionFile:
    """One file, with its outline."""

    def __init__(self, path: Path, notes: ImportNotes) -> None:
        self._path = path
        self._notes = notes
        self._is_child = is_agent_file(path)
        self._outline = read_outline(path, notes.restart("outline"), is_agent_file=self._is_child)
        if self._outline.last == ROOT and self._outline.sidechains:
            # A sub-agent's conversation in a file with the name of a session.
            self._outline = read_outline(path, notes.restart("outline"), is_agent_file=True)
            self._is_child = True
        info = self._outline.info
        recorded_id = as_str(info.session_id)
        self._first_folder = valid_folder(as_str(info.cwd)) or _DEFAULT_FOLDER
        self._folder = valid_folder(as_str(info.moved_to)) or self._first_folder
        version = (as_str(info.version) or "")[:_MAX_VERSION_LENGTH]
        self._agent = AgentIdentity(name=NAME, version=version or None)
        if is_agent_file(path):
            self._parent_id = parent_of_agent(path, recorded_id)
            self._id = child_id(self._parent_id or NAME, agent_id_of(path))
        else:
            self._id = session_id_of(path, recorded_id)
            parent = recorded_id if self._is_child else as_str(info.forked_from)
            self._parent_id = valid_id(parent) if parent and parent != self._id else None

    def session(self) -> SourceSession | None:
        """Return the session itself; None if it has no entries."""
        info = self._outline.info
        read_entries = partial(self._read_entries, self._select_branch(self._outline.last))
        titles = session_titles(info.title or self._description(), read_entries, _COMMANDS)
        if titles is None:
            return None
        is_hidden = self._is_child or info.is_hidden
        incoming = IncomingSession(
            id=self._id,
            created_us=info.created_us,
            agent_session_id=UNKNOWN_TO_AGENT if is_hidden else self._id,
            agent=self._agent,
            # A session without a folder is not listed.
            cwd=None if is_hidden else self._folder,
            titles=titles,
            parent_id=self._parent_id,
            origin=self._origin(),
        )
        return SourceSession(incoming=incoming, read_entries=read_entries, folder=self._folder)

    def branches(self, session: SourceSession) -> Iterator[SourceSession]:
        """Yield the abandoned branches, the latest first, up to a limit."""
        tips = self._outline.branch_tips()
        limit = branch_limit(self._outline.size)
        for tip in tips[:limit]:
            selection = self._select_branch(tip)
            read_entries = partial(self._read_entries, selection, section=f"branch {tip}")
            # A branch changes only if a line is added to it.
            stamp = f"{tip}-{self._outline.last_line_to(tip)}"
            titles = branch_titles(session.incoming, read_entries, _COMMANDS)
            yield session.branch(read_entries, stamp, titles=titles)
        self._notes.skip("a branch was left out, because there are too many", len(tips[limit:]))

    def sub_agents(self) -> Iterator[SourceSession]:
        """Yield the sub-agents whose records are among the session's own."""
        for number, sidechain in enumerate(self._outline.sidechains, 1):
            selection = self._select_sidechain(sidechain, number)
            read_entries = partial(self._read_entries, selection, section=selection.session_id)
            titles = session_titles(None, read_entries, _COMMANDS)
            if titles is None:
                continue
            incoming = IncomingSession(
                id=selection.session_id,
                created_us=self._outline.info.created_us,
                agent=self._agent,
                titles=titles,
                parent_id=self._id,
                origin=self._origin(),
            )
            yield SourceSession(incoming=incoming, read_entries=read_entries, folder=self._folder)

    def _origin(self) -> Origin:
        return Origin(tool=NAME, path=str(self._path), sha256=self._outline.sha256)

    def _select_branch(self, unit: int) -> _Selection:
        return _Selection(
            session_id=self._id,
            # No sub-agent is selected. They count from the end.
            units=self._outline.path_to(unit) + bytes(len(self._outline.sidechains)),
            end=self._outline.size,
        )

    def _select_sidechain(self, sidechain: ClaudeSidechain, number: int) -> _Selection:
        units = bytearray(len(self._outline.previous) + len(self._outline.sidechains))
        units[-number] = 1
        return _Selection(
            session_id=child_id(self._id, sidechain.name),
            units=units,
            first_line=sidechain.first_line,
            start=sidechain.start,
            end=sidechain.end,
        )

    def _read_entries(
        self, selection: _Selection, counts: EntryCounts, section: str = "session"
    ) -> Generator[Entry]:
        """Yield the entries of the selected lines."""
        notes = self._notes.restart(section)
        builder = EntryBuilder(selection.session_id, counts, self._outline.info.created_us)
        converter = ClaudeConverter(
            builder,
            notes,
            # Not the folder it was moved to: a move must not change earlier entries.
            self._first_folder,
            partial(read_output, self._path),
            partial(child_id, self._parent_id or self._id),
        )
        size = self._outline.size
        lines = LineReader(
            self._path,
            selection.start,
            selection.end,
            lines_before=selection.first_line,
            on_progress=lambda done: notes.report_progress((size + done) // 2),
        )
        notes.place = lines.place
        selected = selection.units
        units = islice(self._outline.units, selection.first_line, None)
        for (_, line), unit in zip(lines, units, strict=False):
            if selected[unit] and (record := read_record(line)) is not None:
                converter.convert(record)
                yield from builder.take_entries()
        converter.finish()
        yield from builder.take_entries()

    def _description(self) -> str | None:
        """Return the task of a sub-agent, if a file beside the session has it."""
        path = self._path.with_suffix(".meta.json")
        try:
            with path.open("rb") as file:
                meta = _read_agent_meta(file.read(_MAX_META_BYTES))
        except OSError:
            return None
        return meta.description if meta is not None else None


def read(found: FoundSession, notes: ImportNotes) -> Iterator[SourceSession]:
    """Yield the session in a file, its branches, and the sub-agents in it."""
    file = ClaudeSessionFile(found.path, notes)
    session = file.session()
    if session is not None:
        yield session
        yield from file.branches(session)
        yield from file.sub_agents()


IMPORTER = ToolImporter(
    name=NAME,
    agent_names=(
        "@agentclientprotocol/claude-agent-acp",
        "@zed-industries/claude-agent-acp",
        "@zed-industries/claude-code-acp",
        "claude-agent-acp",
        "claude-code-acp",
    ),
    title="Claude Code",
    version=2,
    folders=folders,
    find=find,
    read=read,
)
