"""Branches: copies of one session that continue in different ways.

Entries are only appended, so two copies of a session are equal up to the end of one of them, or up
to the entry where they diverge. There are three kinds of branches, each with a rule for its id.

A copy that diverges from the session in the store becomes a branch. Its id contains a checksum of
the first entry that differs. So it is found again after it has grown, also by the store that it
came from.

A branch that a tool has abandoned in its own file is kept, archived. Its id contains a checksum of
all its entries, because several branches of one file may diverge at the same entry. It is found
again by its stamp while it is unchanged, and by the entries that it had before when it has grown.

The entries of a process that has lost the lease of a session become a branch. Its id contains a
checksum of the lease (`store/fencing`).
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from itertools import islice, zip_longest

from msgspec import Struct
from msgspec.structs import replace

from rekindle.errors import SessionNotFound
from rekindle.importers.base import EntryCounts, SourceSession
from rekindle.model import (
    Archived,
    Change,
    Counted,
    Entry,
    Forked,
    Imported,
    IncomingSession,
    Opened,
    Session,
    Titled,
    TitleSource,
)
from rekindle.store.base import ReadableStore, Store
from rekindle.transcript.forks import fork_changes
from rekindle.transcript.preface import is_preface_title
from rekindle.transcript.reducer import Transcript, fold
from rekindle.transcript.titles import DEFAULT_TITLE, fork_title

_BRANCH_MARK = "~"
_BRANCH_ID = re.compile(rf"(.+){_BRANCH_MARK}[0-9a-f]{{12}}", re.DOTALL)


# -- comparison -----------------------------------------------------------------------------


class Comparison(Struct, frozen=True):
    """The number of equal entries of two copies, and the first entry of each that differs."""

    common: int
    ours: Entry | None = None
    theirs: Entry | None = None

    @property
    def diverges(self) -> bool:
        """Whether both copies continue, each with another entry."""
        return self.ours is not None and self.theirs is not None


def compare(ours: Iterator[Entry], theirs: Iterator[Entry]) -> Comparison:
    """Compare two copies of a session up to their first difference."""
    common = 0
    for our_entry, their_entry in zip_longest(ours, theirs):
        if our_entry != their_entry:
            return Comparison(common, our_entry, their_entry)
        common += 1
    return Comparison(common)


class _EntryChecksum:
    """An incremental checksum of entries, without their seqs."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._hash = hashlib.sha256()
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        fields = f"{entry.side} {entry.kind} {entry.at_us} {entry.protocol} {len(entry.line)} "
        self._hash.update(fields.encode() + entry.line)

    def digest(self) -> bytes:
        return self._hash.digest()


# -- ids and titles -------------------------------------------------------------------------


def diverging_branch_id(session_id: str, first_different: Entry) -> str:
    """Return the id of the branch that diverges from a session with this entry."""
    entry = first_different
    fields = f"{entry.seq} {entry.side} {entry.kind} {entry.at_us} ".encode()
    return _branch_id(session_id, hashlib.sha256(fields + entry.line).digest())


def session_of_branch(branch_id: str) -> str | None:
    """Return the id of the session that an id names a branch of, or None if it names none."""
    match = _BRANCH_ID.fullmatch(branch_id)
    return match[1] if match else None


def as_branch(incoming: IncomingSession, branch_id: str, parent_id: str | None) -> IncomingSession:
    """Return an incoming session as a branch, with titles that show it."""
    titles = incoming.titles or {TitleSource.PROMPT: DEFAULT_TITLE}
    marked = {source: fork_title(title) for source, title in titles.items()}
    return replace(incoming, id=branch_id, parent_id=parent_id, titles=marked)


def shown_title(incoming: IncomingSession) -> str:
    """Return the title with the highest rank, or "" if there is none."""
    titles = incoming.titles
    return next((titles[source] for source in reversed(TitleSource) if source in titles), "")


def title_changes(session_id: str, at_us: int, titles: dict[TitleSource, str]) -> list[Titled]:
    """Return the changes that give a session these titles, if they do not cite a handover."""
    return [
        Titled(session_id=session_id, at_us=at_us, source=source, title=title)
        for source, title in titles.items()
        if source is TitleSource.USER or not is_preface_title(title)
    ]


def _branch_id(session_id: str, checksum: bytes) -> str:
    return f"{session_id}{_BRANCH_MARK}{checksum.hex()[:12]}"


def fenced_branch(
    store: ReadableStore, session_id: str, branch_id: str, until_seq: int, at_us: int
) -> list[Change]:
    """Return the changes that create a branch for a process that has lost its lease.

    It begins with the entries up to `until_seq`. Raises StoreError.
    """
    session = store.session(session_id)
    transcript: Transcript = fold(islice(store.read(session_id), until_seq))
    return [
        *fork_changes(branch_id, at_us, session, transcript, until_seq),
        Opened(session_id=branch_id, at_us=at_us, directories=session.directories),
    ]


# -- sessions in the store ------------------------------------------------------------------


def find_session(store: Store, session_id: str) -> Session | None:
    """Return a session of the store, or None if the store does not have it."""
    try:
        return store.session(session_id)
    except SessionNotFound:
        return None


def is_from_file(known: Session, incoming: IncomingSession) -> bool:
    """Return whether a session was last imported from the file of the incoming one."""
    ours, theirs = known.origin, incoming.origin
    if ours is None or theirs is None:
        return False
    return (ours.tool, ours.path) == (theirs.tool, theirs.path)


def is_only_from_file(known: Session, incoming: IncomingSession) -> bool:
    """Return whether the file of the incoming session accounts for every entry of a session.

    If so, the session was not continued here since the last import.
    """
    ours, theirs = known.origin, incoming.origin
    if ours is None or theirs is None or ours.entries != known.last_seq:
        return False
    return is_from_file(known, incoming) and ours.recorded == theirs.recorded


# -- abandoned branches ---------------------------------------------------------------------


class AbandonedBranches:
    """The branches in a store that tools have abandoned in their own files."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ids: dict[str, list[str]] | None = None
        """By session. None until the first use."""

    def add(self, branch_id: str, session_id: str) -> None:
        """Add a branch that was just written."""
        self._ids_of(session_id).append(branch_id)

    def find_id(
        self, branch: SourceSession, main: SourceSession, main_id: str, stamps: set[str]
    ) -> str | None:
        """Return the id of a branch: that of the branch in the store, or a new one.

        Return None if the store has the whole branch. `stamps` are those of all branches that the
        file has now: a branch in the store with one of these cannot be an earlier state of this
        one.
        """
        ids = self._ids_of(main_id)
        if branch.stamp and any(self._stamp_of(it) == branch.stamp for it in ids):
            return None
        if compare(main.read_entries(EntryCounts()), _settled_entries(branch)).theirs is None:
            return None
        earlier = [it for it in ids if self._stamp_of(it) not in stamps]
        known_id = self._find_earlier_state(branch, earlier)
        if known_id is not None:
            return known_id
        checksum = _EntryChecksum(_settled_entries(branch)).digest()
        while (new_id := _branch_id(main_id, checksum)) in ids and new_id not in earlier:
            # A branch that began like this one has the id, and has grown in another way.
            checksum = hashlib.sha256(checksum).digest()
        return new_id

    def keep_replaced(
        self, known: Session, incoming: IncomingSession, first_replaced: Entry, at_us: int
    ) -> None:
        """Copy a session to an archived branch before entries of it are replaced.

        Provisional entries, and entries of another version of the importer, are not worth a copy.
        """
        ours, theirs = known.origin, incoming.origin
        if ours is None or theirs is None or first_replaced.seq > ours.settled:
            return
        checksum = _EntryChecksum(islice(self._store.read(known.id), ours.settled))
        branch_id = _branch_id(known.id, checksum.digest())
        if ours.version != theirs.version or find_session(self._store, branch_id) is not None:
            return
        then_us = known.updated_us
        titles = replace(incoming, titles=self._store.titles(known.id))
        branch = as_branch(titles, branch_id, known.id)
        self._store.write(
            [
                Forked(
                    session_id=branch_id,
                    at_us=then_us,
                    parent_id=known.id,
                    until_seq=known.last_seq,
                ),
                # A title made from a prompt is not replaced, so the inherited one is removed first.
                Titled(session_id=branch_id, at_us=then_us, source=TitleSource.PROMPT, title=None),
                *title_changes(branch_id, branch.created_us, branch.titles),
                Counted(
                    session_id=branch_id,
                    at_us=then_us,
                    turns=known.turns,
                    messages=known.messages,
                ),
                Imported(session_id=branch_id, at_us=then_us, origin=replace(ours, stamp="")),
                Archived(session_id=branch_id, at_us=at_us),
            ],
            sync=True,
        )
        self.add(branch_id, known.id)

    def _ids_of(self, session_id: str) -> list[str]:
        if self._ids is None:
            self._ids = {}
            for imported in self._store.imported():
                whole, mark, _ = imported.session_id.rpartition(_BRANCH_MARK)
                if mark:
                    self._ids.setdefault(whole, []).append(imported.session_id)
        return self._ids.setdefault(session_id, [])

    def _stamp_of(self, session_id: str) -> str:
        known = find_session(self._store, session_id)
        return known.origin.stamp if known is not None and known.origin is not None else ""

    def _find_earlier_state(self, branch: SourceSession, ids: list[str]) -> str | None:
        """Return the longest branch in the store that this one begins with."""
        candidates: dict[tuple[int, bytes], str] = {}
        for session_id in ids:
            known = find_session(self._store, session_id)
            if known is None or known.origin is None:
                continue
            if is_only_from_file(known, branch.incoming):
                settled = known.origin.settled
                checksum = _EntryChecksum(islice(self._store.read(session_id), settled))
                candidates[settled, checksum.digest()] = session_id
        checksum, found = _EntryChecksum(), None
        for entry in branch.read_entries(EntryCounts()) if candidates else ():
            checksum.add(entry)
            found = candidates.get((entry.seq, checksum.digest()), found)
        return found


def _settled_entries(source_session: SourceSession) -> Iterator[Entry]:
    """Yield the entries that will not change. The provisional ones come last, uncounted."""
    counts = EntryCounts()
    return (entry for entry in source_session.read_entries(counts) if entry.seq <= counts.settled)
