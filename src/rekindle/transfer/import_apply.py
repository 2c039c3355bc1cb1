"""Import sessions from the files of other tools: the rules by which their copies are merged.

The file remains the tool's. It grows, and sometimes the tool switches to another branch in it. A
session that is not continued here follows its file: it is extended, or it switches too, and its
former entries are kept as an archived branch. Provisional entries are replaced without a copy.

If a session was continued here, its entries stay, and the file's version becomes a branch. There is
one exception: if the file contains all prompts that were sent here, the agent wrote it while
Rekindle ran it, and there is nothing new. If such a file continues, the session is extended by the
rest.
"""

from itertools import islice
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from rekindle.importers.base import EntryCounts, SourceSession
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    Archived,
    Change,
    Counted,
    Imported,
    IncomingSession,
    LeaseHolder,
    Opened,
    Session,
)
from rekindle.store.base import Store
from rekindle.transfer.batch_writer import BatchWriter
from rekindle.transfer.branches import (
    Comparison,
    as_branch,
    compare,
    find_session,
    is_from_file,
    is_only_from_file,
    title_changes,
)
from rekindle.transfer.merge import (
    BranchPlan,
    KeepPlan,
    MergeOutcome,
    MergePlan,
    Merger,
    MergeResult,
    UpdatePlan,
    new_titles,
)
from rekindle.transfer.reconcile import (
    NOTHING_NEW,
    append_to_record,
    find_continuation,
    with_recorded_prefix,
)


class ToolCopy(Struct, frozen=True):
    """A copy in a file of another tool. A long one is written in several transactions."""

    source_session: SourceSession
    agent_names: tuple[str, ...] = ()

    @property
    def incoming(self) -> IncomingSession:
        """The session, without its entries."""
        return self.source_session.incoming

    @property
    def is_agents_record(self) -> bool:
        """True: the tool's agent has the turns of its file."""
        return True

    @property
    def is_archived(self) -> bool:
        """Whether the session is archived in the tool."""
        return self.source_session.is_archived

    def resolve(self, store: Store) -> Self:
        """Return the copy as the session that the agent has under this id, if there is one."""
        incoming = self.incoming
        agent_session_id = incoming.agent_session_id
        if agent_session_id == UNKNOWN_TO_AGENT or find_session(store, incoming.id) is not None:
            return self
        known_id = store.find_by_agent_id(agent_session_id)
        return self.with_incoming(replace(incoming, id=known_id)) if known_id else self

    def with_incoming(self, incoming: IncomingSession) -> Self:
        """Return the copy with another description of its session."""
        return replace(self, source_session=replace(self.source_session, incoming=incoming))

    def plan(self, store: Store, known: Session, at_us: int) -> MergePlan:
        """Follow the file, unless the session was continued here."""
        if known.deleted_us is None and _is_same_content(known, self.incoming):
            return KeepPlan(_metadata_changes(store, known, self, at_us))
        source = replace(
            self, source_session=with_recorded_prefix(store, known, self.source_session)
        )
        comparison = compare(
            store.read(known.id), source.source_session.read_entries(EntryCounts())
        )
        if comparison.theirs is None:
            must_update = _is_shortened(known, source.source_session, comparison)
        elif comparison.ours is None or is_only_from_file(known, source.incoming):
            must_update = True
        else:
            continuation = _find_continuation(
                store, known, source.source_session, comparison.common
            )
            if continuation is None:
                return BranchPlan(comparison.theirs)
            if continuation != NOTHING_NEW:
                source_session = append_to_record(store, known, source.source_session, continuation)
                return UpdatePlan(replace(self, source_session=source_session), known.last_seq)
            must_update = False
        if must_update:
            return UpdatePlan(source, comparison.common, comparison.ours)
        return KeepPlan(_metadata_changes(store, known, source, at_us))

    def writer(
        self, changes: list[Change], at_us: int, known: Session | None = None, common: int = 0
    ) -> BatchWriter:
        """Return a writer that notes only at the end that all entries are from the file."""
        session_id, origin = self.incoming.id, self.incoming.origin
        turns, messages = (known.turns, known.messages) if known is not None else (0, 0)
        counts = EntryCounts()

        def last_changes() -> list[Change]:
            counted = Counted(
                session_id=session_id,
                at_us=at_us,
                turns=counts.turns - turns,
                messages=counts.messages - messages,
            )
            if origin is None:
                return [counted]
            counted_origin = replace(origin, entries=counts.entries, settled=counts.settled)
            imported = Imported(session_id=session_id, at_us=at_us, origin=counted_origin)
            return [counted, imported]

        return BatchWriter(
            session_id,
            changes,
            islice(self.source_session.read_entries(counts), common, None),
            last_changes,
            after=known.last_seq if known is not None else 0,
        )

    def count_entries(self) -> int:
        """Return the number of entries of the copy."""
        return sum(1 for _ in self.source_session.read_entries(EntryCounts()))


class SessionImporter:
    """Imports sessions of other tools into a store, with their branches."""

    def __init__(
        self, store: Store, holder: LeaseHolder, *, undelete: bool = False, dry_run: bool = False
    ) -> None:
        self._store = store
        self._dry_run = dry_run
        self._merger = Merger(store, holder, undelete=undelete, dry_run=dry_run)

    def import_session(
        self, source_session: SourceSession, at_us: int, agent_names: tuple[str, ...] = ()
    ) -> MergeResult:
        """Import one session. Raises SessionInUse, StoreUnavailable."""
        copy = ToolCopy(source_session, agent_names).resolve(self._store)
        incoming = copy.incoming
        if incoming.cwd is None and incoming.parent_id is not None:
            # A sub-agent's session is deleted together with that of its agent.
            parent = find_session(self._store, incoming.parent_id)
            if parent is not None and self._merger.is_excluded(parent):
                return MergeResult(MergeOutcome.DELETED, incoming.id)
        return self._merger.merge_resolved(copy, at_us)

    def import_branches(
        self,
        branches: list[SourceSession],
        main: SourceSession,
        at_us: int,
        agent_names: tuple[str, ...] = (),
    ) -> list[MergeResult]:
        """Import the branches that a tool has abandoned, and archive them."""
        main_id = ToolCopy(main).resolve(self._store).incoming.id
        stamps = {branch.stamp for branch in branches}
        results: list[MergeResult] = []
        for branch in branches:
            branch_id = self._merger.branches.find_id(branch, main, main_id, stamps)
            if branch_id is None:
                results.append(MergeResult(MergeOutcome.UNCHANGED, main_id))
                continue
            is_new = find_session(self._store, branch_id) is None
            source_session = replace(
                branch, incoming=as_branch(branch.incoming, branch_id, main_id)
            )
            results.append(self.import_session(source_session, at_us, agent_names))
            if is_new and not self._dry_run:
                self._store.write([Archived(session_id=branch_id, at_us=at_us)], sync=True)
                self._merger.branches.add(branch_id, main_id)
            self.set_stamp(branch_id, branch.stamp, at_us)
        return results

    def is_imported(self, result: MergeResult) -> bool:
        """Return whether a session has entries of a file, or would have after a dry run."""
        known = find_session(self._store, result.session_id)
        return known is None or known.is_imported

    def set_stamp(self, session_id: str, stamp: str, at_us: int, path: str | None = None) -> None:
        """Store the stamp of an imported file, so that it is not read again while it is unchanged.

        Does nothing if the session belongs to another file than `path`.
        """
        known = find_session(self._store, session_id)
        origin = known.origin if known is not None else None
        if self._dry_run or origin is None or origin.path != (path or origin.path):
            return
        if origin.stamp != stamp:
            origin = replace(origin, stamp=stamp)
            self._store.write([Imported(session_id=session_id, at_us=at_us, origin=origin)])


def _is_same_content(known: Session, incoming: IncomingSession) -> bool:
    """Return whether a session was last imported from this file with the same content."""
    ours, theirs = known.origin, incoming.origin
    if ours is None or theirs is None or not theirs.sha256:
        return False
    same = (theirs.tool, theirs.path, theirs.sha256, theirs.version)
    return (ours.tool, ours.path, ours.sha256, ours.version) == same


def _metadata_changes(store: Store, known: Session, source: ToolCopy, at_us: int) -> list[Change]:
    """Return the folder if it was unknown, the new checksum of the file, and new titles."""
    incoming = source.incoming
    theirs = incoming.origin
    changes: list[Change] = []
    if known.cwd is None and incoming.cwd is not None:
        opened = Opened(
            session_id=known.id, at_us=at_us, cwd=incoming.cwd, directories=incoming.directories
        )
        changes.append(opened)
    if theirs is not None:
        ours = known.origin or replace(theirs, entries=0, settled=0, stamp="")
        origin = replace(ours, sha256=theirs.sha256)
        if ours.path == theirs.path and origin != known.origin:
            changes.append(Imported(session_id=known.id, at_us=at_us, origin=origin))
    if is_only_from_file(known, incoming):
        titles = new_titles(source, store.titles(known.id))
        changes += title_changes(known.id, incoming.created_us, titles)
    return changes


def _find_continuation(
    store: Store, known: Session, source_session: SourceSession, common: int
) -> int | None:
    """Return where a file continues a session that was recorded here; see `find_continuation`.

    The session only follows the file of its own agent, and not if it was imported from another
    file.
    """
    ours = store.read(known.id, after=common)
    continuation = find_continuation(
        ours, islice(source_session.read_entries(EntryCounts()), common, None)
    )
    is_of_agent = known.agent_session_id == source_session.incoming.agent_session_id
    is_of_other_file = known.is_imported and not is_from_file(known, source_session.incoming)
    if continuation == NOTHING_NEW or (is_of_agent and not is_of_other_file):
        return continuation
    return None


def _is_shortened(known: Session, source_session: SourceSession, comparison: Comparison) -> bool:
    """Return whether the entries that only the store has are provisional or were taken back.

    Otherwise the file was truncated, and the store keeps them.
    """
    if known.origin is None or comparison.ours is None:
        return False
    if not is_only_from_file(known, source_session.incoming):
        return False
    return source_session.is_rewound or comparison.ours.seq > known.origin.settled
