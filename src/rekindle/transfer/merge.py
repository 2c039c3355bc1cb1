"""Taking in a session that was recorded elsewhere. Nothing that is here is lost or overwritten.

Entries are only ever appended, so two copies of a session agree up to where one of them ends, or
up to where they part. One that is not here is made; one that has more there is extended; one
that has as much or more here stays. Where they part, what came is kept as a session of its own,
a branch. Its id is made of where it parts, so that the same branch, and what later grows on
it, is known again: also by the store that it is from, where it is no branch.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from itertools import chain, zip_longest

from msgspec import Struct
from msgspec.structs import replace

from rekindle.errors import SessionInUse, SessionNotFound, StoreUnavailable
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    AgentIdentity,
    Change,
    Counted,
    Entry,
    EntryBatch,
    Imported,
    IncomingSession,
    LeaseHolder,
    Opened,
    Page,
    Session,
    Titled,
    TitleSource,
)
from rekindle.store.base import Store

Read = Callable[[int], Iterator[Entry]]
"""Reads the entries of what came that are after a seq; may be asked for more than once."""

BRANCH_MARK = "~"
"""Stands in a branch's id after that of the session that it is of."""
_FORK = " (fork)"
_BRANCH = re.compile(rf"(.+){BRANCH_MARK}[0-9a-f]{{12}}", re.DOTALL)
_MOST_TRIES = 100
_LINES_A_STRETCH = 512
_BYTES_A_STRETCH = 128 * 1024
_SESSIONS_TO_LOOK_AT = 100


class How(StrEnum):
    """What became of a session that came."""

    NEW = "new"
    EXTENDED = "extended"
    UNCHANGED = "unchanged"
    BRANCHED = "branched"
    DELETED = "deleted"
    """It was deleted here, and stays so."""
    UNDELETED = "undeleted"
    """It was deleted here, and is here again."""


class Merged(Struct, frozen=True):
    """What became of it, and the session that has it now."""

    how: How
    session_id: str
    entries: int = 0
    """How many were written."""


class Merger:
    """Takes sessions into a store.

    With `undelete`, what was deleted here comes back. How an agent was started is only taken over
    with `trust`: else whoever made the file could say what is run when the session is continued.
    """

    def __init__(
        self, store: Store, holder: LeaseHolder, *, undelete: bool = False, trust: bool = False
    ) -> None:
        self._store = store
        self._holder = holder
        self._undelete = undelete
        self._trust = trust

    def take(self, arrived: IncomingSession, read: Read, at_us: int) -> Merged:
        """Take a session in. Raises SessionInUse, StoreUnavailable."""
        arrived = self._as_known_here(arrived)
        target, parent = arrived.id, arrived.parent_id
        back: Merged | None = None
        for _ in range(_MOST_TRIES):
            is_branch = target != arrived.id
            wanted = as_branch(arrived, target, parent) if is_branch else arrived
            known = self._known(target)
            if known is None:
                written = self._make(wanted, read)
                if written is not None:
                    return Merged(How.BRANCHED if is_branch else How.NEW, target, written)
                continue
            if known.deleted_us is not None and not self._undelete:
                return Merged(How.DELETED, target)
            found = compare(self._store.read(target), read(0))
            if found.theirs is None:
                merged = self._bring_back(known, at_us)
                return back if back is not None and merged.how is How.UNCHANGED else merged
            if found.do_part:
                if known.deleted_us is not None:
                    # It is wanted back, too, beside what came.
                    back = self._bring_back(known, at_us)
                target, parent = branch_id(arrived.id, found.theirs), target
                continue
            merged = self._extend(known, wanted, read(found.common), found.common, at_us)
            if merged is not None:
                return merged
        raise StoreUnavailable(f"session {arrived.id} is being changed: try again later")

    def _as_known_here(self, arrived: IncomingSession) -> IncomingSession:
        """Return a branch that our own copy of the session became elsewhere as that session."""
        branch = _BRANCH.fullmatch(arrived.id)
        if branch is None or self._known(arrived.id) or not self._known(branch[1]):
            return arrived
        entries = self._store.read(branch[1])
        if all(branch_id(branch[1], entry) != arrived.id for entry in entries):
            return arrived
        titles = {source: title.removesuffix(_FORK) for source, title in arrived.titles.items()}
        return replace(arrived, id=branch[1], parent_id=None, titles=titles)

    def _known(self, session_id: str) -> Session | None:
        try:
            return self._store.session(session_id)
        except SessionNotFound:
            return None

    def _make(self, arrived: IncomingSession, read: Read) -> int | None:
        """Write a session that is not here; return how many entries, None if it is here now."""
        opened = Opened(
            session_id=arrived.id,
            at_us=arrived.created_us,
            agent_session_id=self._free(arrived.agent_session_id),
            agent=self._agent(arrived.agent),
            cwd=arrived.cwd,
            directories=arrived.directories,
            parent_id=arrived.parent_id,
        )
        counted = _Counted(read(0))
        about: list[Change] = [opened, *titled(arrived, arrived.titles), _tallied(arrived)]
        if arrived.origin is not None:
            origin = arrived.origin
            about.append(Imported(session_id=arrived.id, at_us=arrived.created_us, origin=origin))
        changes = chain(about, stretches(arrived.id, counted))
        return counted.count if self._store.extend(arrived.id, 0, changes) else None

    def _extend(
        self,
        known: Session,
        arrived: IncomingSession,
        missing: Iterator[Entry],
        after: int,
        at_us: int,
    ) -> Merged | None:
        """Append what is missing here; return what was done, None if the session has changed."""
        counted = _Counted(missing)
        opened = Opened(
            session_id=known.id,
            at_us=at_us,
            agent_session_id=self._agent_session_id(known, arrived),
            agent=self._agent(arrived.agent),
            # Where it was moved to here counts.
            cwd=arrived.cwd if known.cwd is None else None,
            directories=arrived.directories if known.cwd is None else None,
            parent_id=arrived.parent_id if known.parent_id is None else None,
        )
        ours = self._store.titles(known.id)
        titles = {
            source: title
            for source, title in arrived.titles.items()
            if source is not TitleSource.USER or source not in ours
        }
        tallied = _tallied(arrived, known)
        about: list[Change] = [opened, *titled(arrived, titles), tallied]
        changes = chain(about, stretches(known.id, counted))
        with Driving(self._store, self._holder, known.id):
            if not self._store.extend(known.id, after, changes):
                return None
        how = How.NEW if known.last_seq == 0 else How.EXTENDED
        return Merged(how, known.id, counted.count)

    def _bring_back(self, known: Session, at_us: int) -> Merged:
        if known.deleted_us is not None:
            self._store.write([Opened(session_id=known.id, at_us=at_us)], sync=True)
            return Merged(How.UNDELETED, known.id)
        return Merged(How.UNCHANGED, known.id)

    def _free(self, agent_session_id: str) -> str:
        """Return an agent's id that no session here has: two with one would hear each other."""
        return UNKNOWN_TO_AGENT if self._store.known_ids([agent_session_id]) else agent_session_id

    def _agent_session_id(self, known: Session, arrived: IncomingSession) -> str | None:
        """Return by which id the agent knows an extended session; None leaves it as it is."""
        if known.last_seq == 0:
            return None
        # The agent here has not heard what was added, even if it has a session of that name.
        return self._free(arrived.agent_session_id)

    def _agent(self, agent: AgentIdentity) -> AgentIdentity | None:
        """Return an agent as it is started here, if anybody has ever started it here."""
        if self._trust or agent == AgentIdentity():
            return agent if agent != AgentIdentity() else None
        page = Page(
            # Nobody is called by the empty name.
            agent=agent.name or agent.program or "",
            limit=_SESSIONS_TO_LOOK_AT,
            with_archived=True,
        )
        commands = (session.agent.command for session in self._store.sessions(page))
        return replace(agent, command=next(filter(None, commands), ()))


class Driving:
    """Keeps everybody else from driving a session. Raises SessionInUse."""

    def __init__(self, store: Store, holder: LeaseHolder, session_id: str) -> None:
        self._store = store
        self._holder = holder
        self._session_id = session_id

    def __enter__(self) -> None:
        other = self._store.acquire_lease(self._session_id, self._holder).holder
        if other is not None:
            raise SessionInUse(self._session_id, other.pid, other.machine)

    def __exit__(self, *_: object) -> None:
        self._store.release_leases(self._holder, self._session_id)


class _Counted(Iterator[Entry]):
    """Counts what is drawn."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries
        self.count = 0

    def __next__(self) -> Entry:
        entry = next(self._entries)
        self.count += 1
        return entry


class Compared(Struct, frozen=True):
    """How far two copies of a session agree, and how they go on from there."""

    common: int
    ours: Entry | None = None
    theirs: Entry | None = None

    @property
    def do_part(self) -> bool:
        """Whether each goes on in its own way."""
        return self.ours is not None and self.theirs is not None


def compare(ours: Iterator[Entry], theirs: Iterator[Entry]) -> Compared:
    """Go along two copies as far as they agree."""
    common = 0
    for one, other in zip_longest(ours, theirs):
        if one != other:
            return Compared(common, one, other)
        common += 1
    return Compared(common)


def branch_id(session_id: str, parts_with: Entry) -> str:
    """Return the id of a branch, by the entry with which it begins to be one."""
    place = f"{parts_with.seq} {parts_with.side} {parts_with.kind} {parts_with.at_us} ".encode()
    return branch_name(session_id, hashlib.sha256(place + parts_with.line).digest())


def branch_name(session_id: str, checksum: bytes) -> str:
    """Return the id of a branch."""
    return f"{session_id}{BRANCH_MARK}{checksum.hex()[:12]}"


def as_branch(arrived: IncomingSession, branch_id: str, parent_id: str | None) -> IncomingSession:
    """Return what came as a session of its own."""
    titles = arrived.titles or {TitleSource.PROMPT: "Session"}
    named = {source: f"{title.removesuffix(_FORK)}{_FORK}" for source, title in titles.items()}
    return replace(arrived, id=branch_id, parent_id=parent_id, titles=named)


def titled(arrived: IncomingSession, titles: dict[TitleSource, str]) -> list[Titled]:
    """Return what gives a session these titles."""
    at_us = arrived.created_us
    return [
        Titled(session_id=arrived.id, at_us=at_us, source=source, title=title)
        for source, title in titles.items()
    ]


def _tallied(arrived: IncomingSession, known: Session | None = None) -> Counted:
    turns, messages = (known.turns, known.messages) if known else (0, 0)
    return Counted(
        session_id=known.id if known else arrived.id,
        at_us=arrived.created_us,
        turns=max(0, arrived.turns - turns),
        messages=max(0, arrived.messages - messages),
    )


def stretches(session_id: str, entries: Iterable[Entry]) -> Iterator[EntryBatch]:
    """Put entries that are alike but for their line together, as they were recorded."""
    held: list[Entry] = []
    size = 0
    for entry in entries:
        is_full = len(held) >= _LINES_A_STRETCH or size > _BYTES_A_STRETCH
        if held and (is_full or not _are_alike(held[0], entry)):
            yield _stretch(session_id, held)
            held, size = [], 0
        held.append(entry)
        size += len(entry.line)
    if held:
        yield _stretch(session_id, held)


def _are_alike(one: Entry, other: Entry) -> bool:
    # What differs most comes first.
    return (
        one.at_us == other.at_us
        and one.kind is other.kind
        and one.side is other.side
        and one.protocol == other.protocol
    )


def _stretch(session_id: str, entries: list[Entry]) -> EntryBatch:
    first = entries[0]
    return EntryBatch(
        session_id=session_id,
        side=first.side,
        kind=first.kind,
        at_us=first.at_us,
        data=b"\n".join([entry.line for entry in entries]) if len(entries) > 1 else first.line,
        count=len(entries),
        protocol=first.protocol,
    )
