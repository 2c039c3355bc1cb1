"""The contract of a store. The docstrings here are the specification.

`tests/store/test_contract.py` holds every store to it. The modules `search` and `maintenance` have
the contracts of optional capabilities, and `address` resolves the name of a store.

A store keeps entries and does not understand them. Code that does is injected as `StoreHooks`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol, Self, runtime_checkable

from msgspec import Struct

from rekindle.errors import LeaseLost, SessionNotFound
from rekindle.model import (
    AgentTrait,
    Change,
    Entry,
    EntryBatch,
    Forked,
    LeaseHolder,
    LeaseResult,
    Origin,
    Overview,
    Page,
    Session,
    SessionStatus,
    TitleSource,
)

Reporter = Callable[[str], object]
"""Receives a line of text for the user."""


class ImportedSession(Struct, frozen=True):
    """An imported session: its id, its folder, and the file that it comes from."""

    session_id: str
    cwd: str | None
    origin: Origin
    is_deleted: bool = False


KEPT_FORGOTTEN_US = 30 * 24 * 3600 * 1_000_000
"""How long a store remembers the agent's ids of forgotten sessions."""
MAX_PREFIX_MATCHES = 100
"""The number of sessions that `Store.find` compares."""
_SUFFIX_MARKS = (".", "~")
"""Separate the id of a session from the suffix of a sub-agent or of a branch."""


def belong_to_first(ids: Sequence[str]) -> bool:
    """Return whether all ids after the first one are sub-agents or branches of the first.

    `ids` are sorted. Too many to compare count as a no.
    """
    prefixes = tuple(ids[0] + mark for mark in _SUFFIX_MARKS)
    return len(ids) < MAX_PREFIX_MATCHES and all(id_.startswith(prefixes) for id_ in ids[1:])


class ReadableStore(Protocol):
    """The reading part of a store. The public `rekindle.open_store` returns this type.

    Any method may be called from any thread. Every method raises StoreUnavailable if the store
    cannot be used at the moment, StoreDamaged if its contents make no sense, and StoreTooNew if a
    newer Rekindle has upgraded it.

    Sessions are listed, and entries are read, in the order that the method names. Where it names
    none, the order is undefined.
    """

    def read(self, session_id: str, *, after: int = 0) -> Iterator[Entry]:
        """Yield the entries with a seq greater than `after`, in the order of their seqs.

        The session is read in pieces, so memory stays bounded. Entries that are appended meanwhile
        may be included. Raises SessionNotFound.
        """
        ...

    def session(self, session_id: str) -> Session:
        """Return one session, also if it is archived or deleted. Raises SessionNotFound."""
        ...

    def last_seq(self, session_id: str) -> int:
        """Return the seq of the last entry of a session; 0 if it has none, or does not exist."""
        ...

    def sessions(self, page: Page) -> list[Session]:
        """Return at most `page.limit` sessions that match `page`, last updated first."""
        ...

    def find(self, prefix: str) -> Session:
        """Return the session with this id, or with the only id that starts with `prefix`.

        A purged session is found by its whole id only. Sub-agents and branches, whose ids start
        with the id of their session, do not make it ambiguous.
        Raises SessionNotFound, SessionAmbiguous.
        """
        ...

    def subagents(self, *session_ids: str) -> list[Session]:
        """Return the sessions of the sub-agents of these sessions, and of theirs.

        Ordered by time of creation. Deleted ones are included (`Session.is_subagent`).
        """
        ...

    def titles(self, session_id: str) -> dict[TitleSource, str]:
        """Return the titles of a session by source, outranked ones too. Raises SessionNotFound."""
        ...

    def statuses(self, session_ids: Sequence[str]) -> dict[str, SessionStatus]:
        """Return the status of each known session, without reading whole sessions.

        A leased session is LIVE. Another one is INTERRUPTED if its last prompt has no end, as
        `StoreHooks.turn_has_ended` decides, and IDLE otherwise.
        """
        ...

    def overview(self) -> Overview:
        """Return totals of the whole store, without reading entries."""
        ...

    def close(self) -> None:
        """Release the leases that were acquired by this instance, and all resources."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


class Store(ReadableStore, Protocol):
    """Sessions, their entries, and the leases on them.

    Several processes may use one store at the same time. Each opens its own instance and writes
    through that one only. Threads and exceptions are as in `ReadableStore`.
    """

    # -- writing ---------------------------------------------------------------------------

    def write(
        self, changes: Sequence[Change], *, sync: bool = False, timeout: float | None = None
    ) -> None:
        """Apply `changes` in order, all or none.

        When the method returns, the changes survive a crash of this process. With `sync`, they
        also survive a crash of the machine, and so does everything written before them.

        If the method raises, the changes were not applied, or the result is unknown: a disk may
        fail to sync a commit, and a connection may break before the result arrives. Before the
        changes are written again, `uncertain_write` recognises them.

        Other writers are waited for at most `timeout` seconds; None means one second.

        Entries are fenced. If this instance has acquired the lease of a session, and another
        process has it now, or has had it since, EntryBatch and Truncated raise LeaseLost, and
        nothing is applied. This lasts until the instance acquires the lease again. Without a
        lease, and for all other changes, nothing is checked.

        - EntryBatch: appends its lines as entries. They get the next seqs of the session, which
          start at 1 and have no gaps. Kinds in ACTIVITY move `updated_us` forward, never back.
        - Opened: sets the fields that are not None, and undeletes a deleted session, with the
          sub-agents that were deleted with it.
        - Titled: sets or removes the title of one source. The user's title outranks the agent's,
          and the agent's outranks one made from a prompt. The first title made from a prompt
          stays; the other sources replace theirs.
        - Counted: adds to `turns` and `messages`. A write has it together with the entries that it
          counts, or with the fork, because an uncertain write is recognised by those. A rewind
          subtracts. Fewer turns set `saved_turns` to 0: the agent may still have the others.
        - Deleted: the session is not listed by default. Its sub-agents are deleted with it.
        - Archived: likewise; with False it is listed again. Archiving again keeps the first time.
        - AgentArchived: sets `is_archived_by_agent`. Opened with another `agent_session_id` sets it
          to False.
        - Forked: creates a session with the parent's entries up to `until_seq`, its agent, folder
          and titles. The parent does not change. With `owner_id`, that is the new session's
          `parent_id`, and not the session that was copied. Raises SessionNotFound.
        - Imported: sets the origin.
        - Truncated: removes the entries after `until_seq`; the next entry gets the seq after it.
          Only for sessions without a lease of another process. Raises SessionNotFound.
        - AgentSaved: sets `saved_turns` to `turns`. Opened with another `agent_session_id` sets it
          to 0.
        - AgentObserved: adds a trait to a release of an agent.
        - Forgotten: removes a session if `Session.is_unused` is true, and does nothing otherwise.
          With `hides_agents`, the agent's ids of it are remembered (see `forgotten_ids`).

        A change to an unknown session creates it. Deleted, Archived, AgentArchived, AgentSaved,
        AgentObserved and Forgotten create no session.
        """
        ...

    def uncertain_write(self, changes: Sequence[Change]) -> "UncertainWrite | None":
        """Return how to recognise `changes`, for which the last `write` raised.

        None means that they were not applied, or that it does no harm to apply them twice.
        """
        ...

    def branch_changes(self, lost: LeaseLost, changes: Sequence[Change]) -> list[Change]:
        """Return what to write instead of `changes`, for which `write` raised `lost`.

        The entries go to the branch `lost.branch_id` of the session. The first changes create it,
        unless it exists: it begins with the entries up to `lost.until_seq`. `fencing.branched`
        implements this for any store. Nothing is written.
        """
        ...

    def extend(
        self,
        session_id: str,
        after: int,
        changes: Iterable[Change],
        *,
        sync: bool = True,
        latest_us: int | None = None,
    ) -> bool:
        """Apply `changes` to one session if its last seq is `after`; return whether it was.

        All changes are of this session. A session that does not exist has the last seq 0. The
        changes are consumed one at a time, so memory stays bounded. If the iterable raises, none
        is applied. False means that another writer has appended to the session. Entries later than
        `latest_us` count as activity at `latest_us`, because they may come from a wrong clock.
        Raises LeaseLost as `write` does.
        """
        ...

    def apply_pending(
        self, token: str, changes: "Iterable[PendingChange]", *, timeout: float | None = None
    ) -> list[str]:
        """Apply the changes of a pending file that were not applied before, synced.

        `changes` are all changes that wait under `token`, from the first. The same transaction
        records how many were applied, so the call is idempotent: repeat it with the same changes
        and any that came since, also if the call raised. The changes of an uncertain write that
        was applied are skipped, and so are changes that are older than the purge of their session.

        Changes that follow a LeaseMark were made under that lease. If another process has acquired
        it since, and the session has other entries than then, or that process lives, they are
        applied to the branch of the session (see `fencing`). This call never raises LeaseLost.

        Returns the reasons why some changes can never be applied. They do not stop the others.
        """
        ...

    def forget_pending(self, token: str) -> None:
        """Forget how many changes of `token` were applied. Call it after its file is removed."""
        ...

    # -- more to read ----------------------------------------------------------------------

    def find_by_agent_id(self, agent_session_id: str) -> str | None:
        """Return the id of the session that an agent knows, or has known, by this id.

        The agent's ids are those of Opened, current and former. A current one is preferred.
        """
        ...

    def agent_commands(self, identities: Collection[str]) -> list[tuple[str, ...]]:
        """Return the commands that started agents with these identities, last used first.

        Each command is returned once. Identities (`AgentIdentity.identity`) are compared whole, and
        ignoring the case of ASCII letters; an empty one matches no agent. Sessions that are deleted
        or that no client has opened do not count.
        """
        ...

    def agent_traits(self, release: str) -> frozenset[AgentTrait]:
        """Return the traits that AgentObserved has recorded for a release of an agent."""
        ...

    def known_ids(self, session_ids: Sequence[str], *, recorded_only: bool = False) -> set[str]:
        """Return the ids that belong to a session, deleted or not: its own or its agent's.

        The agent's ids are those of Opened, current and former. With `recorded_only`, sessions for
        which `Session.is_blank` is true do not count.
        """
        ...

    def forgotten_ids(self, agent_session_ids: Sequence[str]) -> dict[str, int]:
        """Return the `Forgotten.at_us` of sessions that an agent knew by these ids.

        The agent's ids are those of Opened, current and former. Only sessions count that Forgotten
        has removed with `hides_agents`. An id is remembered for KEPT_FORGOTTEN_US; later calls of
        `write` may drop it.
        """
        ...

    def archive_differences(self, states: Mapping[str, bool]) -> list[Session]:
        """Return the sessions whose `is_archived_by_agent` differs from the agent's own state.

        `states` has that state by the current id of the agent. If several sessions have the same
        id, the last created session counts. Sessions that are deleted or that no client has
        opened are left out.
        """
        ...

    def imported(self) -> Iterator[ImportedSession]:
        """Yield all sessions that have an origin, deleted ones too."""
        ...

    # -- leases ----------------------------------------------------------------------------

    def acquire_lease(
        self, session_id: str, holder: LeaseHolder, *, takeover: bool = False
    ) -> LeaseResult:
        """Give `holder` the exclusive use of a session, unless another live process has it.

        The lease of a process that has ended does not count. With `takeover`, the lease of a live
        process does not count either. Idempotent for the same token; the other fields of the
        holder are updated. Raises SessionNotFound.

        The first lease of a session has the epoch 1. The epoch grows whenever the lease passes to
        another token, also after it was released, and never shrinks as long as the session is not
        purged or erased. With the epoch, the store remembers the last seq of the session at that
        time, or the last one that Truncated has left since: a process that has lost the lease has
        the entries up to it in common with its successor.
        """
        ...

    def lease_mark(self, session_id: str) -> "LeaseMark | None":
        """Return the lease that this instance has acquired and not released, lost or not.

        Reads nothing, so it also works while the store cannot be used.
        """
        ...

    def update_holder(self, holder: LeaseHolder) -> None:
        """Store the new fields of a holder in all its leases. The token stays."""
        ...

    def lease_holder(self, session_id: str) -> LeaseHolder | None:
        """Return the live process that holds the lease of a session. Raises SessionNotFound."""
        ...

    def leased_ids(self) -> set[str]:
        """Return the sessions whose lease is held by a live process."""
        ...

    def release_leases(self, holder: LeaseHolder, session_id: str | None = None) -> None:
        """Release the lease of one session, or all leases, if they are held by `holder`.

        A lease that was lost before stays fenced.
        """
        ...

    def continue_from(self, former: Self) -> None:
        """Take over the leases of an instance that is closed next.

        If the storage behind `former` was replaced, the sessions that it holds leases on are
        brought into this one by `StoreHooks.on_replaced`. If the method raises, `former` keeps
        its leases, and the call can be repeated with another instance.
        """
        ...

    # -- removing --------------------------------------------------------------------------

    def deleted_ids(self, before_us: int, limit: int = -1) -> list[str]:
        """Return the sessions that were deleted before this time and are not purged.

        Ordered by time of deletion, oldest first. A negative `limit` means no limit.
        """
        ...

    def unused_sessions(
        self, before_us: int, *, after: tuple[int, str] = (0, ""), limit: int = -1
    ) -> list[Session]:
        """Return the sessions with `is_unused` that were created before this time.

        Ordered by `(created_us, id)`, from the first one behind `after`. Sessions whose lease is
        held by a live process are left out. A negative `limit` means no limit.
        """
        ...

    def purge(self, *session_ids: str) -> None:
        """Remove everything about deleted sessions except the fact that they were deleted.

        The tombstone keeps an agent's own list from bringing a session back. Sessions that are not
        deleted do not change. Deleted sub-agents of a purged session are purged with it.
        """
        ...

    def erase(self, session_id: str) -> None:
        """Remove a session and its sub-agents without a tombstone.

        Does nothing if it does not exist.
        """
        ...


class ReplacedStore(Protocol):
    """A store whose storage was removed or replaced while it was open. It can still be read.

    A commit that was reported as failed is not visible in it, because the writer repeats it.
    """

    def leases(self) -> Mapping[str, LeaseHolder]:
        """Return the sessions whose lease was acquired through this store, with the holder."""
        ...

    def session(self, session_id: str) -> Session:
        """Return one session. Raises SessionNotFound, StoreDamaged."""
        ...

    def titles(self, session_id: str) -> dict[TitleSource, str]:
        """Return the titles of a session. Raises SessionNotFound, StoreDamaged."""
        ...

    def read(self, session_id: str, *, after: int = 0) -> Iterator[Entry]:
        """Yield the entries of a session in order. Raises SessionNotFound, StoreDamaged."""
        ...


def _plain_branch(
    store: ReadableStore,  # noqa: ARG001 - as in the hook
    session_id: str,
    branch_id: str,
    until_seq: int,
    at_us: int,
) -> list[Change]:
    return [Forked(session_id=branch_id, at_us=at_us, parent_id=session_id, until_seq=until_seq)]


class StoreHooks(Struct, frozen=True, kw_only=True):
    """Code that understands entries, injected into a store by the composition root."""

    turn_has_ended: Callable[[Iterable[Entry]], bool] = lambda _: True
    """Decides whether a turn has ended. Gets the answers and states that follow the last prompt."""
    title_from_prompt: Callable[[list[Any]], str | None] = lambda _: None
    """Returns a title for a prompt, given as its content blocks."""
    on_replaced: Callable[[ReplacedStore, Store], None] = lambda _, __: None
    """Brings the leased sessions of a replaced store into the new one. Raises StoreUnavailable."""
    branch: Callable[[ReadableStore, str, str, int, int], list[Change]] = _plain_branch
    """Returns the changes that create a branch. Gets the store, the ids of the session and of the
    branch, the last seq that they have in common, and the time."""


class UncertainWrite(Struct, frozen=True, kw_only=True):
    """Recognises the changes of a write whose result is unknown. They follow it.

    A write is applied as a whole, so one batch of entries stands for all changes: its place in
    the session, its time and its content. A fork without entries is recognised by its session,
    which did not exist before.
    """

    session_id: str
    at_us: int
    changes: int
    """The number of changes in the write."""
    after: int = 0
    """The last seq before the batch."""
    count: int = 0
    """The number of entries in the batch."""
    digest: bytes = b""

    @classmethod
    def of(cls, changes: Sequence[Change], batch: EntryBatch | None, after: int) -> Self | None:
        """Return how to recognise `changes`, with a batch of them and the last seq before it."""
        if batch is not None:
            return cls(
                session_id=batch.session_id,
                at_us=batch.at_us,
                changes=len(changes),
                after=after,
                count=batch.count,
                digest=_digest(batch.side, batch.kind, batch.at_us, batch.data),
            )
        for change in changes:
            if isinstance(change, Forked):
                id_, at_us = change.session_id, change.at_us
                return cls(session_id=id_, at_us=at_us, changes=len(changes))
        return None

    def is_applied(self, store: ReadableStore) -> bool:
        """Return whether the changes are in the store. Raises StoreError."""
        try:
            store.session(self.session_id)
            found = list(islice(store.read(self.session_id, after=self.after), self.count))
        except SessionNotFound:
            return False
        if not found:
            return self.count == 0
        data = b"\n".join(entry.line for entry in found)
        return _digest(found[0].side, found[0].kind, found[0].at_us, data) == self.digest


def _digest(side: str, kind: str, at_us: int, data: bytes) -> bytes:
    from hashlib import sha256  # noqa: PLC0415 - seldom needed

    return sha256(f"{side} {kind} {at_us}\n".encode() + data).digest()


class LeaseMark(Struct, frozen=True, kw_only=True):
    """The lease under which the changes of a session that follow were made."""

    session_id: str
    token: str
    """The token of its holder."""
    epoch: int


PendingChange = Change | UncertainWrite | LeaseMark
"""A waiting change, or a mark in front of some."""


def not_applied(
    store: ReadableStore, changes: Iterable[PendingChange]
) -> Iterator[Change | LeaseMark | None]:
    """Yield waiting changes and leases. None replaces changes that were applied already.

    The mark of an uncertain write is replaced by None, too.
    """
    applied = 0
    for change in changes:
        if applied:
            applied -= 1
            yield None
        elif isinstance(change, UncertainWrite):
            applied = change.changes if change.is_applied(store) else 0
            yield None
        else:
            yield change


class PendingChanges(Protocol):
    """Changes of one process that the store cannot take now, kept where they outlive the process.

    The owner appends to them and applies them itself if it can. Otherwise the next process that
    opens the store applies them. Methods that write raise OSError. Call them from one thread.
    """

    @property
    def location(self) -> str:
        """Where the changes are, as a user can find them."""
        ...

    @property
    def entries(self) -> int:
        """The number of entries among the changes."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether there are no changes."""
        ...

    def add(self, changes: Sequence[PendingChange]) -> list[str]:
        """Append changes, all or none; return the reasons why some can never be applied.

        Those keep their places without their contents, because the store counts the changes.
        """
        ...

    def sync(self) -> None:
        """Make the changes survive a crash of the machine."""
        ...

    def changes(self) -> Iterator[PendingChange]:
        """Yield all changes, from the first."""
        ...

    def remove(self) -> None:
        """Remove the changes, because they were applied."""
        ...

    def leave(self) -> None:
        """Leave the changes to the next process that opens the store."""
        ...


class PendingInfo(Struct, frozen=True):
    """Pending changes as another process sees them."""

    location: str
    is_alive: bool
    """Whether the owner still runs."""
    entries: int
    sessions: frozenset[str]
    problem: str = ""
    """Why they cannot be read."""
    is_leftover: bool = False
    """Whether they were applied, and are kept only because a part of them is damaged."""


class StoreBackend(Protocol):
    """The storage at one address, not opened yet. Every kind of store has one.

    It need not be a file. With a search index it is a `SearchBackend` as well. If it supports
    diagnosis and recovery, it is a `MaintenanceBackend`.
    """

    def exists(self) -> bool:
        """Return whether a store exists, even if it is damaged and waits for recovery."""
        ...

    def open(self, *, create: bool, report: Reporter, hooks: StoreHooks) -> Store:
        """Open the store. With `create`, create or upgrade it, and apply pending changes.

        Only pending changes of processes that have ended are applied. `report` receives a text
        about losses. Without `create`, a store that does not exist raises StoreMissing.
        Raises StoreUnavailable, StoreTooNew.
        """
        ...

    def open_pending(self, token: str) -> PendingChanges:
        """Create a place for changes that cannot be written now. Raises OSError.

        The store counts the applied ones under `token`, a random text for a file name.
        """
        ...

    def pending(self) -> list[PendingInfo]:
        """Return the pending changes of all processes, without changing anything."""
        ...


@runtime_checkable
class FileBackend(Protocol):
    """A back end whose store is one file."""

    def is_store_file(self) -> bool:
        """Return whether the file is a store of this kind, damaged or not. Raises OSError."""
        ...
