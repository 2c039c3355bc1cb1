"""Branches that a tool has left for another one: kept, and put away.

One is known by all that it says, because what it shares with others is not for it alone. While it
is as it was, its stamp tells so; one that has grown is known by what it said before.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import islice

from msgspec.structs import replace

from rekindle.errors import SessionNotFound
from rekindle.importers.base import EntryCounts, SourceSession
from rekindle.model import (
    Archived,
    Counted,
    Entry,
    Forked,
    Imported,
    IncomingSession,
    Session,
    Titled,
    TitleSource,
)
from rekindle.store.base import Store
from rekindle.transfer.merge import BRANCH_MARK, as_branch, branch_name, compare, titled


class Asides:
    """The branches of a store that were put away when they were imported."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, list[str]] | None = None

    def add(self, branch: str, session_id: str) -> None:
        """Remember one more."""
        self._of(session_id).append(branch)

    def name_of(
        self, talk: SourceSession, main: SourceSession, main_id: str, stamps: set[str]
    ) -> str | None:
        """Return what a branch is called here, or will be; None if it says nothing new.

        `stamps` are those of all branches that the file has now.
        """
        asides = self._of(main_id)
        if talk.stamp and any(self._stamp_of(it) == talk.stamp for it in asides):
            return None
        if compare(main.read_entries(EntryCounts()), _settled(talk)).theirs is None:
            return None
        former = [it for it in asides if self._stamp_of(it) not in stamps]
        known = self._that_began_as(talk, former)
        if known is not None:
            return known
        checksum = _Said(_settled(talk)).checksum
        while (own := branch_name(main_id, checksum)) in asides and own not in former:
            # Another that has grown since was called so.
            checksum = sha256(checksum).digest()
        return own

    def keep(self, known: Session, arrived: IncomingSession, parts_with: Entry, at_us: int) -> None:
        """Keep what a file does not say any more, but for what was only assumed of its end."""
        ours, theirs = known.origin, arrived.origin
        if ours is None or theirs is None or parts_with.seq > ours.settled:
            return
        said = _Said(islice(self._store.read(known.id), ours.settled))
        own = branch_name(known.id, said.checksum)
        # Another version of the importer makes other entries of the same.
        if ours.version != theirs.version or session_or_none(self._store, own) is not None:
            return
        then_us = known.updated_us
        kept = as_branch(replace(arrived, titles=self._store.titles(known.id)), own, known.id)
        self._store.write(
            [
                Forked(session_id=own, at_us=then_us, parent_id=known.id, until_seq=known.last_seq),
                # The first title that is made of a prompt stays, unless it is taken back.
                Titled(session_id=own, at_us=then_us, source=TitleSource.PROMPT, title=None),
                *titled(kept, kept.titles),
                Counted(session_id=own, at_us=then_us, turns=known.turns, messages=known.messages),
                Imported(session_id=own, at_us=then_us, origin=replace(ours, stamp="")),
                Archived(session_id=own, at_us=at_us),
            ],
            sync=True,
        )
        self.add(own, known.id)

    def _of(self, session_id: str) -> list[str]:
        if self._known is None:
            self._known = {}
            for kept in self._store.imported():
                whole, mark, _ = kept.session_id.rpartition(BRANCH_MARK)
                if mark:
                    self._known.setdefault(whole, []).append(kept.session_id)
        return self._known.setdefault(session_id, [])

    def _stamp_of(self, session_id: str) -> str:
        known = session_or_none(self._store, session_id)
        return known.origin.stamp if known is not None and known.origin is not None else ""

    def _that_began_as(self, talk: SourceSession, asides: list[str]) -> str | None:
        """Return the one that has the beginning of a branch, or all of it."""
        wanted: dict[tuple[int, bytes], str] = {}
        for session_id in asides:
            known = session_or_none(self._store, session_id)
            if known is not None and known.origin is not None and is_its_own(known, talk.incoming):
                settled = known.origin.settled
                said = _Said(islice(self._store.read(session_id), settled))
                wanted[settled, said.checksum] = session_id
        said, found = _Said(), None
        for entry in talk.read_entries(EntryCounts()) if wanted else ():
            said.add(entry)
            found = wanted.get((entry.seq, said.checksum), found)
        return found


class _Said:
    """A checksum of entries, one after the other."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._sum = sha256()
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        about = f"{entry.side} {entry.kind} {entry.at_us} {entry.protocol} {len(entry.line)} "
        self._sum.update(about.encode() + entry.line)

    @property
    def checksum(self) -> bytes:
        return self._sum.digest()


def _settled(talk: SourceSession) -> Iterator[Entry]:
    """Yield the entries that stay: what is only assumed comes last, and is not counted as such."""
    tally = EntryCounts()
    return (entry for entry in talk.read_entries(tally) if entry.seq <= tally.settled)


def session_or_none(store: Store, session_id: str) -> Session | None:
    """Return a session, if it is here."""
    try:
        return store.session(session_id)
    except SessionNotFound:
        return None


def is_its_own(known: Session, arrived: IncomingSession) -> bool:
    """Tell whether all that a session has is from this very file, or told in it."""
    ours, theirs = known.origin, arrived.origin
    if ours is None or theirs is None or ours.entries != known.last_seq:
        return False
    return is_same_file(known, arrived) and ours.recorded == theirs.recorded


def is_same_file(known: Session, arrived: IncomingSession) -> bool:
    """Tell whether a session was last taken from this very file."""
    ours, theirs = known.origin, arrived.origin
    if ours is None or theirs is None:
        return False
    return (ours.tool, ours.path) == (theirs.tool, theirs.path)
