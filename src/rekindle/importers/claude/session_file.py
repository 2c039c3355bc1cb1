"""One file of Claude Code's, and the conversations in it."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rekindle.core.titles import title_from_prompt
from rekindle.importers.base import Notes, Talk, Tally
from rekindle.importers.claude.conversation import Conversation
from rekindle.importers.claude.outline import ROOT, Side, outline
from rekindle.importers.claude.places import (
    agent_id_of,
    child_id,
    is_agents,
    parent_of_agent,
    read_output,
    session_id_of,
)
from rekindle.importers.claude.records import read_record
from rekindle.importers.lines import Lines
from rekindle.importers.records import Reader
from rekindle.importers.telling import Teller
from rekindle.model import NOBODY, AgentIdentity, Arrived, Entry, Kind, Origin, TitleSource
from rekindle.wire.envelope import members, rows, table, text

NAME = "claude"

_ENTRIES_FOR_A_TITLE = 200
_LONGEST_TITLE = 500
_COMMANDS = ("/", "! ", "# ")
_MOST_BRANCHES = 50
_MOST_BYTES_OF_BRANCHES = 1 << 30
_LINES_A_NOTE = 1024
_LARGEST_ABOUT = 64 * 1024


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
        told = self._whole.session_id
        if is_agents(path):
            self._parent_id = parent_of_agent(path, told)
            self._id = child_id(self._parent_id or NAME, agent_id_of(path))
        else:
            self._id = session_id_of(path, told)
            self._parent_id = told if self._is_child and told != self._id else None

    def session(self) -> Talk | None:
        """Return the session itself; None if nothing is said in it."""
        tell = partial(self._tell, self._branch_to(self._whole.last))
        prompts = _first_prompts(tell)
        if prompts is None:
            return None
        is_hidden = self._is_child or self._whole.is_hidden
        arrived = Arrived(
            id=self._id,
            created_us=self._whole.created_us,
            agent_session_id=NOBODY if is_hidden else self._id,
            agent=AgentIdentity(name=NAME, version=self._whole.version),
            # Without a folder it is not listed.
            cwd=None if is_hidden else self._whole.cwd,
            titles=_titles(self._whole.title or self._about(), prompts),
            parent_id=self._parent_id,
            origin=Origin(tool=NAME, path=str(self._path), sha256=self._whole.sha256),
        )
        return Talk(arrived=arrived, tell=tell, folder=self._whole.cwd)

    def branches(self, session: Talk) -> Iterator[Talk]:
        """Yield the branches that were left for another, the latest first, within reason."""
        tips = self._whole.tips()
        most = min(_MOST_BRANCHES, max(1, _MOST_BYTES_OF_BRANCHES // max(1, self._whole.size)))
        arrived = replace(session.arrived, agent_session_id=NOBODY)
        for tip in tips[:most]:
            tell = partial(self._tell, self._branch_to(tip), name=f"branch {tip}")
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
            prompts = _first_prompts(tell)
            if prompts is None:
                continue
            arrived = Arrived(
                id=part.session_id,
                created_us=self._whole.created_us,
                agent=AgentIdentity(name=NAME, version=self._whole.version),
                titles=_titles(None, prompts),
                parent_id=self._id,
                origin=Origin(tool=NAME, path=str(self._path), sha256=self._whole.sha256),
            )
            yield Talk(arrived=arrived, tell=tell, folder=self._whole.cwd)

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
            self._whole.cwd,
            partial(read_output, self._path),
            partial(child_id, self._parent_id or self._id),
        )
        lines = Lines(self._path, part.begin, part.end)
        wanted, units = part.units, islice(self._whole.units, part.first_line, None)
        for number, ((_, line), unit) in enumerate(zip(lines, units, strict=False)):
            if number % _LINES_A_NOTE == 0:
                notes.at((self._whole.size + lines.done) // 2)
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


def _first_prompts(tell: Callable[[Tally], Generator[Entry]]) -> list[str] | None:
    """Return how the prompts begin, up to the first that is no command; None if nothing is told."""
    prompts: list[str] = []
    tally = Tally()
    with closing(tell(tally)) as entries:
        for entry in islice(entries, _ENTRIES_FOR_A_TITLE):
            title = _title_of(entry) if entry.kind is Kind.PROMPT else None
            if title is not None:
                prompts.append(title)
                if not title.startswith(_COMMANDS):
                    break
    return prompts if tally.entries else None


def _title_of(entry: Entry) -> str | None:
    return title_from_prompt(rows(table((members(entry.line) or {}).get("params")).get("prompt")))


def _titles(given: str | None, prompts: list[str]) -> dict[TitleSource, str]:
    """Return what a session is called: as it was given, and after its first prompt."""
    titles: dict[TitleSource, str] = {}
    words = " ".join((text(given) or "").split())[:_LONGEST_TITLE]
    if words:
        titles[TitleSource.AGENT] = words
    if prompts:
        is_own = not prompts[-1].startswith(_COMMANDS)
        titles[TitleSource.PROMPT] = prompts[-1] if is_own else prompts[0]
    return titles
