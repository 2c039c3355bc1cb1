"""Merge copies of sessions into a store. No entry of the store is lost or overwritten.

`Merger` does this for every kind of copy: sessions of a bundle, sessions rescued from a store that
was replaced, and sessions in the files of other tools. A `MergeSource` has what differs: how a copy
is compared with the session in the store, and how its entries are written.

- If the store lacks the session, it is created.
- If the copy has more entries, the session is extended.
- If the store has as many entries or more, the session is unchanged.
- If both continue, each in its own way, the copy becomes a branch: a session of its own.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Protocol, Self

from msgspec import Struct
from msgspec.structs import replace

from rekindle.errors import SessionInUse, StoreUnavailable
from rekindle.model import (
    UNKNOWN_TO_AGENT,
    AgentIdentity,
    Archived,
    Change,
    Counted,
    Entry,
    Imported,
    IncomingSession,
    LeaseHolder,
    Opened,
    Session,
    Titled,
    TitleSource,
    Truncated,
)
from rekindle.store.base import Store
from rekindle.transcript.titles import without_fork_suffix
from rekindle.transfer.batch_writer import BatchWriter
from rekindle.transfer.branches import (
    AbandonedBranches,
    as_branch,
    compare,
    diverging_branch_id,
    find_session,
    session_of_branch,
    title_changes,
)

_MAX_ATTEMPTS = 100


class MergeOutcome(StrEnum):
    """The effect of a merge on the store."""

    NEW = "new"
    EXTENDED = "extended"
    UNCHANGED = "unchanged"
    BRANCHED = "branched"
    DELETED = "deleted"
    """It is deleted in the store, and stays so."""
    UNDELETED = "undeleted"
    """It was deleted in the store, and is restored."""


class MergeResult(Struct, frozen=True):
    """The outcome of a merge, and the session that now has the entries of the copy."""

    outcome: MergeOutcome
    session_id: str
    entries: int = 0
    """The number of entries that were written."""


# -- sources --------------------------------------------------------------------------------


class MergeSource(Protocol):
    """A copy of a session, and the rules for merging copies of its kind."""

    @property
    def incoming(self) -> IncomingSession:
        """The session, without its entries."""
        ...

    @property
    def agent_names(self) -> tuple[str, ...]:
        """Further identities of the session's agent, if it has several."""
        ...

    @property
    def is_agents_record(self) -> bool:
        """Whether the agent itself wrote the copy, so that it knows every entry."""
        ...

    @property
    def is_archived(self) -> bool:
        """Whether a session that is created from the copy is archived."""
        ...

    def resolve(self, store: Store) -> Self:
        """Return the copy with the id that the session has in the store, if it has another one."""
        ...

    def with_incoming(self, incoming: IncomingSession) -> Self:
        """Return the copy with another description of its session."""
        ...

    def plan(self, store: Store, known: Session, at_us: int) -> "MergePlan":
        """Compare the copy with the session in the store; return what to do."""
        ...

    def writer(
        self, changes: list[Change], at_us: int, known: Session | None = None, common: int = 0
    ) -> BatchWriter:
        """Return a writer of `changes`, of the entries after `common`, and of new counts."""
        ...

    def count_entries(self) -> int:
        """Return the number of entries of the copy."""
        ...


class KeepPlan(Struct, frozen=True):
    """The entries of the session stay as they are."""

    changes: list[Change] = []
    """Changes of its metadata."""


class BranchPlan(Struct, frozen=True):
    """The copy and the session continue in different ways, from this entry of the copy on."""

    first_different: Entry


class UpdatePlan(Struct, frozen=True):
    """The session gets the entries of the copy after `common`."""

    source: MergeSource
    common: int
    first_replaced: Entry | None = None
    """The first entry of the session that they replace, if any."""


MergePlan = KeepPlan | BranchPlan | UpdatePlan


def new_titles(source: MergeSource, ours: dict[TitleSource, str]) -> dict[TitleSource, str]:
    """Return the titles of a copy that its session gets, given the titles that the session has.

    A title that the user gave here is kept. A title that the user gave elsewhere is accepted from
    a recorded copy, if the session has none. It is never accepted from the file of a tool: the
    session follows its file, but the user's title belongs to the user of this store.
    """
    titles = {
        kind: title for kind, title in source.incoming.titles.items() if ours.get(kind) != title
    }
    if source.is_agents_record or TitleSource.USER in ours:
        titles.pop(TitleSource.USER, None)
    return titles


class RecordedCopy(Struct, frozen=True):
    """A copy that another store recorded, as a bundle has it. It is written in one transaction.

    `read` yields the entries after a seq, and may be called more than once.
    """

    incoming: IncomingSession
    read: Callable[[int], Iterator[Entry]]

    @property
    def agent_names(self) -> tuple[str, ...]:
        """Empty: the recorded agent has one identity."""
        return ()

    @property
    def is_agents_record(self) -> bool:
        """False: the agent here has not seen the turns that were recorded elsewhere."""
        return False

    @property
    def is_archived(self) -> bool:
        """False: a bundle has no archived state."""
        return False

    def resolve(self, store: Store) -> Self:
        """Return a branch that our own session became elsewhere as that session."""
        branch_id = self.incoming.id
        session_id = session_of_branch(branch_id)
        if session_id is None or find_session(store, branch_id) is not None:
            return self
        if find_session(store, session_id) is None:
            return self
        entries = store.read(session_id)
        if all(diverging_branch_id(session_id, entry) != branch_id for entry in entries):
            return self
        titles = {
            source: without_fork_suffix(title) for source, title in self.incoming.titles.items()
        }
        return self.with_incoming(
            replace(self.incoming, id=session_id, parent_id=None, titles=titles)
        )

    def with_incoming(self, incoming: IncomingSession) -> Self:
        """Return the copy with another description of its session."""
        return replace(self, incoming=incoming)

    def plan(self, store: Store, known: Session, at_us: int) -> MergePlan:  # noqa: ARG002
        """Extend the session if the copy only has more; branch if both continue."""
        comparison = compare(store.read(known.id), self.read(0))
        if comparison.theirs is None:
            return KeepPlan()
        if comparison.diverges:
            return BranchPlan(comparison.theirs)
        return UpdatePlan(self, comparison.common)

    def writer(
        self, changes: list[Change], at_us: int, known: Session | None = None, common: int = 0
    ) -> BatchWriter:
        """Return a writer that writes the copy whole or not at all."""
        incoming = self.incoming
        turns, messages = (known.turns, known.messages) if known is not None else (0, 0)
        counted = Counted(
            session_id=incoming.id,
            at_us=at_us,
            turns=incoming.turns - turns,
            messages=incoming.messages - messages,
        )
        origin: list[Change] = []
        if known is None and incoming.origin is not None:
            origin = [Imported(session_id=incoming.id, at_us=at_us, origin=incoming.origin)]
        return BatchWriter(
            incoming.id,
            [*changes, counted, *origin],
            self.read(common),
            after=common,
            is_atomic=True,
        )

    def count_entries(self) -> int:
        """Return the number of entries of the copy."""
        return sum(1 for _ in self.read(0))


# -- the merge ------------------------------------------------------------------------------


class Merger:
    """Merges copies of sessions into a store, one at a time.

    With `undelete`, sessions that are deleted in the store are restored. With `trust`, the commands
    of agents are accepted from the copy. Without it, only commands that were used here are:
    otherwise the author of a file could decide which program runs when a session is resumed. With
    `dry_run`, nothing is written, and the results predict a merge.
    """

    def __init__(
        self,
        store: Store,
        holder: LeaseHolder,
        *,
        undelete: bool = False,
        trust: bool = False,
        dry_run: bool = False,
    ) -> None:
        self._store = store
        self._holder = holder
        self._undelete = undelete
        self._trust = trust
        self._dry_run = dry_run
        self._commands: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        """The commands of agents that were looked up, by their identities."""
        self.branches = AbandonedBranches(store)

    def merge(self, source: MergeSource, at_us: int) -> MergeResult:
        """Merge one copy. Raises SessionInUse, StoreUnavailable."""
        return self.merge_resolved(source.resolve(self._store), at_us)

    def merge_resolved(self, source: MergeSource, at_us: int) -> MergeResult:
        """Merge one copy that has the id of its session in the store already, as `merge` does."""
        whole = source.incoming
        target, parent = whole.id, whole.parent_id
        undeleted: MergeResult | None = None
        for _ in range(_MAX_ATTEMPTS):
            is_branch = target != whole.id
            copy = source
            if is_branch:
                copy = source.with_incoming(as_branch(whole, target, parent))
            known = find_session(self._store, target)
            if known is None:
                outcome = MergeOutcome.BRANCHED if is_branch else MergeOutcome.NEW
                result = self._create(copy, outcome, at_us)
            elif self.is_excluded(known):
                result = MergeResult(MergeOutcome.DELETED, target)
            else:
                plan = copy.plan(self._store, known, at_us)
                if isinstance(plan, BranchPlan):
                    # The session itself is wanted back too, beside the branch.
                    if known.deleted_us is not None:
                        undeleted = self._keep(known, at_us, [])
                    target = diverging_branch_id(whole.id, plan.first_different)
                    parent = known.id
                    continue
                result = self._carry_out(plan, known, at_us)
            if result is not None:
                is_unchanged = result.outcome is MergeOutcome.UNCHANGED
                return undeleted if undeleted is not None and is_unchanged else result
        raise StoreUnavailable(f"session {whole.id} is being changed; try again later")

    def is_excluded(self, known: Session) -> bool:
        """Return whether a session is deleted in the store, and is to stay so."""
        return known.deleted_us is not None and not self._undelete

    def _create(
        self, source: MergeSource, outcome: MergeOutcome, now_us: int
    ) -> MergeResult | None:
        """Write a session that the store lacks; return None if the store has it by now."""
        incoming = source.incoming
        if self._dry_run:
            return MergeResult(outcome, incoming.id, source.count_entries())
        # The clock of another machine may be wrong, and anyone can write a file.
        at_us = min(incoming.created_us, now_us)
        opened = Opened(
            session_id=incoming.id,
            at_us=at_us,
            agent_session_id=self._unused_agent_session_id(incoming.agent_session_id),
            agent=self._local_agent(source),
            cwd=incoming.cwd,
            directories=incoming.directories,
            parent_id=incoming.parent_id,
        )
        titles = title_changes(incoming.id, at_us, incoming.titles)
        writer = source.writer([opened, *titles], at_us)
        writer.latest_us = now_us
        if not writer.write_next(self._store):
            return None
        if not writer.is_finished:
            # From the first transaction on, another process could use the session.
            with _session_lease(self._store, self._holder, incoming.id):
                if not writer.finish(self._store):
                    return None
        if source.is_archived and outcome is MergeOutcome.NEW:
            self._store.write([Archived(session_id=incoming.id, at_us=at_us)], sync=True)
        return MergeResult(outcome, incoming.id, writer.entries_written)

    def _carry_out(
        self, plan: KeepPlan | UpdatePlan, known: Session, at_us: int
    ) -> MergeResult | None:
        if isinstance(plan, UpdatePlan):
            return self._update(plan, known, at_us)
        return self._keep(known, at_us, plan.changes)

    def _update(self, plan: UpdatePlan, known: Session, at_us: int) -> MergeResult | None:
        """Write the entries that a session lacks; return None if the session has changed since."""
        source, incoming = plan.source, plan.source.incoming
        outcome = MergeOutcome.NEW if known.last_seq == 0 else MergeOutcome.EXTENDED
        if self._dry_run:
            return MergeResult(outcome, known.id, source.count_entries() - plan.common)
        is_agent_kept = source.is_agents_record and not known.is_purged
        is_located = known.cwd is not None
        changes: list[Change] = [
            Opened(
                session_id=known.id,
                at_us=at_us,
                agent_session_id=self._agent_session_id(source, known),
                agent=None if is_agent_kept else self._local_agent(source, known),
                # The user may have moved the session to another folder. The directories belong to
                # the folder, so both come from the same side.
                cwd=None if is_located else incoming.cwd,
                directories=None if is_located else incoming.directories,
                parent_id=incoming.parent_id if known.parent_id is None else None,
            ),
            *self._title_updates(plan, known),
        ]
        with _session_lease(self._store, self._holder, known.id):
            if plan.first_replaced is not None:
                self.branches.keep_replaced(known, incoming, plan.first_replaced, at_us)
                changes.append(Truncated(session_id=known.id, at_us=at_us, until_seq=plan.common))
            writer = source.writer(changes, at_us, known, plan.common)
            writer.latest_us = at_us
            if not writer.finish(self._store):
                return None
        return MergeResult(outcome, known.id, writer.entries_written)

    def _keep(self, known: Session, at_us: int, changes: list[Change]) -> MergeResult:
        """Write changes of a session's metadata. If it is deleted, restore it with them."""
        outcome = MergeOutcome.UNCHANGED
        if known.deleted_us is not None:
            outcome = MergeOutcome.UNDELETED
            changes = [Opened(session_id=known.id, at_us=at_us), *changes]
        if changes and not self._dry_run:
            self._store.write(changes, sync=True)
        return MergeResult(outcome, known.id)

    def _title_updates(self, plan: UpdatePlan, known: Session) -> list[Titled]:
        """Return the changes that give an updated session the titles of the copy."""
        incoming = plan.source.incoming
        titles = new_titles(plan.source, self._store.titles(known.id))
        at_us = incoming.created_us
        changes = title_changes(known.id, at_us, titles)
        has_prefix = incoming.origin is not None and incoming.origin.recorded is not None
        if plan.first_replaced is None or has_prefix or TitleSource.PROMPT not in titles:
            return changes
        # The session may begin with another prompt now. The store keeps the first title that is
        # made from a prompt, so that one is removed first.
        source = TitleSource.PROMPT
        return [Titled(session_id=known.id, at_us=at_us, source=source, title=None), *changes]

    # -- agents ------------------------------------------------------------------------

    def _agent_session_id(self, source: MergeSource, known: Session) -> str | None:
        """Return the agent's id of an updated session; None means no change."""
        agent_session_id = source.incoming.agent_session_id
        if source.is_agents_record:
            # A purge removed the agent, so the id has to be set again.
            return self._own_agent_session_id(agent_session_id, known) if known.is_purged else None
        if known.last_seq == 0:
            return None
        # The agent here lacks the new entries, even if it has a session with this id.
        return self._unused_agent_session_id(agent_session_id)

    def _own_agent_session_id(self, agent_session_id: str, known: Session) -> str:
        """Return the agent's id of a session, unless it belongs to another session."""
        owner = self._store.find_by_agent_id(agent_session_id)
        is_own = owner == known.id or (owner is None and agent_session_id == known.id)
        return agent_session_id if is_own else self._unused_agent_session_id(agent_session_id)

    def _unused_agent_session_id(self, agent_session_id: str) -> str:
        """Return the id unless a session has it: both would receive the same updates."""
        return UNKNOWN_TO_AGENT if self._store.known_ids([agent_session_id]) else agent_session_id

    def _local_agent(
        self, source: MergeSource, known: Session | None = None
    ) -> AgentIdentity | None:
        """Return the agent with the command that starts it here, if it was ever used here.

        Agents are matched by their whole identity. An agent without a name must also have been
        started with the same arguments, because many agents share a program such as an interpreter.
        """
        agent = source.incoming.agent
        if agent == AgentIdentity():
            return None
        if self._trust:
            return agent
        identity = agent.identity
        commands = self._local_commands((identity, *source.agent_names))
        if known is not None and identity and known.agent.identity.lower() == identity.lower():
            # The store does not count a deleted session.
            commands = [*commands, known.agent.command]
        if not agent.name:
            commands = [it for it in commands if it[1:] == agent.command[1:]]
        return replace(agent, command=next(filter(None, commands), ()))

    def _local_commands(self, identities: tuple[str, ...]) -> list[tuple[str, ...]]:
        if identities not in self._commands:
            self._commands[identities] = self._store.agent_commands(identities)
        return self._commands[identities]


@contextmanager
def _session_lease(store: Store, holder: LeaseHolder, session_id: str) -> Generator[None]:
    """Hold the lease of a session. Raises SessionInUse if another process holds it."""
    other = store.acquire_lease(session_id, holder).holder
    if other is not None:
        raise SessionInUse(session_id, other.pid, other.machine)
    try:
        yield
    finally:
        store.release_leases(holder, session_id)
