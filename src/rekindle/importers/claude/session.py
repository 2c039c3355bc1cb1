"""One file of Claude Code's, and the conversations in it."""

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rekindle.importers.base import Notes, Talk, Tally, most_branches
from rekindle.importers.claude.entries import Conversation
from rekindle.importers.claude.locations import (
    agent_id_of,
    child_id,
    is_agents,
    parent_of_agent,
    read_output,
    session_id_of,
)
from rekindle.importers.claude.outline import ROOT, Side, outline
from rekindle.importers.claude.records import read_record
from rekindle.importers.entry_builder import Teller
from rekindle.importers.lenient_reader import Reader
from rekindle.importers.line_reader import Lines
from rekindle.importers.titles import titles_of, titles_of_branch
from rekindle.importers.validate import sound_folder, sound_name
from rekindle.jsonvalue import as_str
from rekindle.model import UNKNOWN_TO_AGENT, AgentIdentity, Entry, IncomingSession, Origin

NAME = "claude"

_LONGEST_VERSION = 100
_COMMANDS = ("/", "! ", "# ")
_LARGEST_ABOUT = 64 * 1024
_NO_FOLDER = "/"
"""Without one it would not be listed."""


class _About(Struct, rename="camel"):
    """What stands beside a sub-agent's file."""

    description: str | None = None


_read_about = Reader(_About)


class _Part(Struct, frozen=True, kw_only=True):
    """Which lines of the file are told, and as which session."""

    session_id: str
    units: Sequence[int]
    """For each unit whether it is told; those of sub-agents count from the end."""
    first_line: int = 0
    begin: int = 0
    end: int


class SessionFile:
    """One file, looked over."""

    def __init__(self, path: Path, notes: Notes) -> None:
        self._path = path
        self._notes = notes
        self._whole = outline(path, notes.anew("outline"), is_agents=is_agents(path))
        self._is_child = is_agents(path)
        if self._whole.last == ROOT and self._whole.sides:
            # What an agent says to itself, in a file like any other.
            self._whole = outline(path, notes.anew("outline"), is_agents=True)
            self._is_child = True
        told = as_str(self._whole.session_id)
        self._begun_in = sound_folder(as_str(self._whole.cwd)) or _NO_FOLDER
        self._folder = sound_folder(as_str(self._whole.moved_to)) or self._begun_in
        self._agent = AgentIdentity(
            name=NAME, version=(as_str(self._whole.version) or "")[:_LONGEST_VERSION] or None
        )
        if is_agents(path):
            self._parent_id = parent_of_agent(path, told)
            self._id = child_id(self._parent_id or NAME, agent_id_of(path))
        else:
            self._id = session_id_of(path, told)
            parent = told if self._is_child else as_str(self._whole.forked_from)
            self._parent_id = sound_name(parent) if parent and parent != self._id else None

    def session(self) -> Talk | None:
        """Return the session itself; None if nothing is said in it."""
        tell = partial(self._tell, self._branch_to(self._whole.last))
        titles = titles_of(self._whole.title or self._about(), tell, _COMMANDS)
        if titles is None:
            return None
        is_hidden = self._is_child or self._whole.is_hidden
        arrived = IncomingSession(
            id=self._id,
            created_us=self._whole.created_us,
            agent_session_id=UNKNOWN_TO_AGENT if is_hidden else self._id,
            agent=self._agent,
            # Without a folder it is not listed.
            cwd=None if is_hidden else self._folder,
            titles=titles,
            parent_id=self._parent_id,
            origin=Origin(tool=NAME, path=str(self._path), sha256=self._whole.sha256),
        )
        return Talk(arrived=arrived, tell=tell, folder=self._folder)

    def branches(self, session: Talk) -> Iterator[Talk]:
        """Yield the branches that were left for another, the latest first, within reason."""
        tips = self._whole.tips()
        most = most_branches(self._whole.size)
        for tip in tips[:most]:
            tell = partial(self._tell, self._branch_to(tip), name=f"branch {tip}")
            titles = titles_of_branch(session.arrived, tell, _COMMANDS)
            arrived = replace(session.arrived, agent_session_id=UNKNOWN_TO_AGENT, titles=titles)
            # Whatever is added to it has its own line.
            stamp = f"{tip}-{self._whole.end_of(tip)}"
            yield Talk(
                arrived=arrived, tell=tell, folder=session.folder, is_aside=True, stamp=stamp
            )
        self._notes.skip("a branch is left out, because there are many", len(tips[most:]))

    def sub_agents(self) -> Iterator[Talk]:
        """Yield the conversations with sub-agents that stand among the session's own records."""
        for number, side in enumerate(self._whole.sides, 1):
            part = self._part_of(side, number)
            tell = partial(self._tell, part, name=part.session_id)
            titles = titles_of(None, tell, _COMMANDS)
            if titles is None:
                continue
            arrived = IncomingSession(
                id=part.session_id,
                created_us=self._whole.created_us,
                agent=self._agent,
                titles=titles,
                parent_id=self._id,
                origin=Origin(tool=NAME, path=str(self._path), sha256=self._whole.sha256),
            )
            yield Talk(arrived=arrived, tell=tell, folder=self._folder)

    def _branch_to(self, unit: int) -> _Part:
        return _Part(
            session_id=self._id,
            # None of the sub-agents, which count from the end.
            units=self._whole.path_to(unit) + bytes(len(self._whole.sides)),
            end=self._whole.size,
        )

    def _part_of(self, side: Side, number: int) -> _Part:
        units = bytearray(len(self._whole.before) + len(self._whole.sides))
        units[-number] = 1
        return _Part(
            session_id=child_id(self._id, side.name),
            units=units,
            first_line=side.first_line,
            begin=side.begin,
            end=side.end,
        )

    def _tell(self, part: _Part, tally: Tally, name: str = "session") -> Generator[Entry]:
        """Yield the entries of one conversation."""
        notes = self._notes.anew(name)
        teller = Teller(part.session_id, tally, self._whole.created_us)
        conversation = Conversation(
            teller,
            notes,
            # Not where it was moved to: what was told before must not change by that.
            self._begun_in,
            partial(read_output, self._path),
            partial(child_id, self._parent_id or self._id),
        )
        size = self._whole.size
        lines = Lines(
            self._path, part.begin, part.end, at=lambda done: notes.at((size + done) // 2)
        )
        wanted, units = part.units, islice(self._whole.units, part.first_line, None)
        for (_, line), unit in zip(lines, units, strict=False):
            if wanted[unit] and (record := read_record(line)) is not None:
                conversation.take(record)
                yield from teller.take()
        conversation.finish()
        yield from teller.take()

    def _about(self) -> str | None:
        """Return what a sub-agent was to do, if that stands beside its file."""
        path = self._path.with_suffix(".meta.json")
        try:
            with path.open("rb") as file:
                found = _read_about(file.read(_LARGEST_ABOUT))
        except OSError:
            return None
        return found.description if found is not None else None
