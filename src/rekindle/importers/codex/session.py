"""One session of Codex's: the files that it is made of, and the conversations in it."""

from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rekindle.importers.base import Found, Notes, Talk, Tally, most_branches
from rekindle.importers.codex.compressed import ENDING
from rekindle.importers.codex.entries import About, Conversation
from rekindle.importers.codex.locations import Home, is_archived, known, thread_of
from rekindle.importers.codex.outline import (
    Outline,
    Rollback,
    Segment,
    is_passed_over,
    meta_in,
    outline,
    told_lines,
)
from rekindle.importers.codex.records import (
    Base,
    Meta,
    Part,
    is_agents,
    parent_of,
    read_item,
    read_line,
)
from rekindle.importers.codex.tool_calls import decoded
from rekindle.importers.codex.user_text import folder_in
from rekindle.importers.entry_builder import Clock, Teller
from rekindle.importers.titles import titles_of, titles_of_branch
from rekindle.model import UNKNOWN_TO_AGENT, AgentIdentity, Entry, IncomingSession, Origin

NAME = "codex"

_LINES_FOR_A_FOLDER = 50


class _Branch(Struct, frozen=True):
    """What of a file's lines is told."""

    name: str
    rollbacks: list[Rollback]
    """What is left out."""
    end: int | None = None
    """The line before which it ends."""


class _Told(Struct, frozen=True, kw_only=True):
    """A file, with all that it has inherited, looked over."""

    meta: Meta
    cwd: str | None
    segments: list[Segment]
    whole: Outline

    @property
    def size(self) -> int:
        """About how many bytes there are to read for it."""
        return sum(it.size or 0 for it in self.segments)


class _Left(Struct, frozen=True):
    """A branch that was left."""

    stamp: str
    sha256: str
    """Of the files that it is in."""
    tell: Callable[[Tally], Generator[Entry]]


class SessionFiles:
    """The files of one session, looked over."""

    def __init__(self, found: Found, notes: Notes) -> None:
        self._notes = notes
        self._place = found.path
        self._thread_id = thread_of(found.path)
        # A file with a name of its own is alone.
        self._home = known(found.path) if self._thread_id is not None else Home()
        self._files = self._paths(found.path)
        if self._home.titles.trouble:
            notes.skip(self._home.titles.trouble)
        self._id = ""

    def _paths(self, path: Path) -> list[Path]:
        """Return the file that the session goes on with, and then those that were left for it."""
        if self._thread_id is None:
            return [path]
        if self._thread_id not in self._home.threads:
            raise FileNotFoundError(f"{path} is gone")
        current = self._home.current(self._thread_id)
        others = [it for it in self._home.threads[self._thread_id] if it != current]
        return [it.path for it in (current, *reversed(others))]

    def talks(self) -> Iterator[Talk]:
        """Yield the session, and then what was taken back."""
        current = self._look(self._files[0], "outline")
        self._id = self._thread_id or current.meta.id or self._files[0].name.partition(".")[0]
        session = self._session(current)
        if session is None:
            return
        yield session
        most = most_branches(current.size)
        for left in islice(self._left(current), most):
            origin = Origin(tool=NAME, path=str(self._place), sha256=left.sha256)
            titles = titles_of_branch(session.arrived, left.tell)
            yield Talk(
                arrived=replace(
                    session.arrived, agent_session_id=UNKNOWN_TO_AGENT, titles=titles, origin=origin
                ),
                tell=left.tell,
                folder=session.folder,
                is_aside=True,
                stamp=left.stamp,
            )
        more = len(current.whole.rollbacks) + len(self._files) - 1 - most
        self._notes.skip("a branch is left out, because there are many", max(0, more))

    def _look(self, path: Path, name: str) -> _Told:
        # If its first line is torn, the others are told all the same.
        meta = meta_in(path) or Meta()
        notes = self._notes.anew(name)
        segments = self._lineage(path, meta.subagent_history_start_ordinal, notes)
        cwd = meta.cwd or _folder_of(segments[-1])
        return _Told(meta=meta, cwd=cwd, segments=segments, whole=outline(segments, notes))

    def _lineage(self, path: Path, own_from: int | None, notes: Notes) -> list[Segment]:
        """Return the parts that a session is made of, the oldest first."""
        segments = [Segment(path=path, size=_size_of(path), from_ordinal=own_from)]
        for link in self._home.links(path):
            end = link.base.end_ordinal_exclusive
            if own_from is not None and end is not None and end <= own_from:
                # All that it has inherited is before what is its own.
                break
            if link.rollout is None:
                notes.skip(link.trouble)
                break
            segments.append(_inherited(link.rollout.path, link.base, own_from, notes))
        return segments[::-1]

    def _session(self, told: _Told) -> Talk | None:
        meta = told.meta
        tell = partial(self._tell, told, _Branch("session", told.whole.rollbacks))
        given = self._home.titles.names.get(self._id) or _nickname(meta)
        titles = titles_of(given, tell)
        if titles is None:
            return None
        is_child = is_agents(meta)
        arrived = IncomingSession(
            id=self._id,
            created_us=_created(meta),
            agent_session_id=UNKNOWN_TO_AGENT if is_child else self._id,
            agent=AgentIdentity(name=NAME, version=meta.cli_version),
            # Without a folder it is not listed.
            cwd=None if is_child else told.cwd,
            titles=titles,
            parent_id=parent_of(meta),
            origin=Origin(tool=NAME, path=str(self._place), sha256=told.whole.sha256),
        )
        return Talk(
            arrived=arrived,
            tell=tell,
            folder=told.cwd,
            is_shortened=told.whole.is_shortened,
            is_archived=is_archived(self._files[0]),
        )

    def _left(self, current: _Told) -> Iterator[_Left]:
        """Yield the branches that were left, the latest first."""
        for path in self._files[1:]:
            told = self._look(path, f"outline {path.name}")
            tell = partial(self._tell, told, _Branch(path.name, told.whole.rollbacks))
            checksum = told.whole.sha256
            yield _Left(stamp=f"{_name(path)}-{checksum}", sha256=checksum, tell=tell)
        rollbacks = current.whole.rollbacks
        for number in reversed(range(len(rollbacks))):
            name, left = f"branch {number}", rollbacks[number]
            tell = partial(self._tell, current, _Branch(name, rollbacks[:number], left.end))
            # Nothing is ever added to it.
            stamp = f"{left.first}-{left.end}"
            yield _Left(stamp=stamp, sha256=current.whole.sha256, tell=tell)

    def _tell(self, told: _Told, branch: _Branch, tally: Tally) -> Generator[Entry]:
        """Yield the entries of one conversation."""
        notes = self._notes.anew(branch.name)
        teller = Teller(self._id, tally, _created(told.meta))
        whole = told.whole
        # Both are written one after the other: what the user was shown may be still to come.
        teller.is_provisional = not (whole.has_events or whole.is_bare)
        about = About(
            cwd=told.cwd,
            begun_us=_created(told.meta),
            has_events=whole.has_events,
            is_child=is_agents(told.meta),
            is_paginated=told.meta.history_mode == "paginated",
        )
        conversation = Conversation(teller, notes, about)
        lines = told_lines(told.segments, branch.rollbacks, notes, branch.end)
        for segment, data in lines:
            if not data or is_passed_over(data, has_events=whole.has_events):
                continue
            line = read_line(data)
            if line is None or not segment.has(line.ordinal):
                continue
            if bytes(line.payload):
                conversation.take(line)
            elif whole.is_bare and (item := read_item(data)) is not None:
                conversation.take_bare(item)
            yield from teller.take()
        conversation.finish()
        yield from teller.take()


def _name(path: Path) -> str:
    return path.name.removesuffix(ENDING)


def _size_of(path: Path) -> int | None:
    """Return how long a file is now; nobody knows it of a compressed one, which does not grow."""
    return None if path.suffix == ENDING else path.stat().st_size


def _inherited(path: Path, base: Base, own_from: int | None, notes: Notes) -> Segment:
    """Return the part of a file that another session begins with."""
    size, end = _size_of(path), base.end_byte_offset
    if end is not None and end >= 0 and (size is None or end <= size):
        # Some versions have given a number twice, so that places are more to be trusted.
        return Segment(path=path, size=end, from_ordinal=own_from)
    if end is not None:
        notes.skip("what a session begins with is shorter than it was")
    before = base.end_ordinal_exclusive
    return Segment(path=path, size=size, before_ordinal=before, from_ordinal=own_from)


def _created(meta: Meta) -> int:
    return Clock().read(meta.timestamp) or 0


def _nickname(meta: Meta) -> str | None:
    return meta.agent_nickname or meta.agent_role if is_agents(meta) else None


def _folder_of(own: Segment) -> str | None:
    """Return the folder of a session that does not say it: the model was told."""
    for _, data in islice(own.lines(), _LINES_FOR_A_FOLDER):
        line = read_line(data) if b"<environment_context>" in data else None
        # In older ones, the line is what was told.
        item = read_item(bytes(line.payload) or data) if line is not None else None
        parts: list[Part] = item.content or [] if item is not None else []
        for part in parts:
            if (folder := folder_in(decoded(part.text))) is not None:
                return folder
    return None
