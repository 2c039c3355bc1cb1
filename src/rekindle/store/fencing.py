"""Fencing: the entries of a process that has lost a lease go to a branch of the session.

Each lease has an epoch, which grows when the lease passes to another process. A store compares the
epoch of the writer with that of the lease in the transaction of the write, and raises `LeaseLost`.
The writer then repeats the write, with the changes that `branched` returns. Changes that wait in a
pending file are treated alike when they are applied (`PendingBranches`).

The id of the branch is made from the holder's token and its epoch. So all entries of one lost
lease reach the same branch, whichever process writes them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from rekindle.errors import LeaseLost, SessionNotFound
from rekindle.model import (
    AgentSaved,
    Change,
    Counted,
    EntryBatch,
    LeaseHolder,
    Opened,
    Titled,
    TitleSource,
    Truncated,
)
from rekindle.store.base import LeaseMark, PendingChange, ReadableStore, StoreHooks

_FENCED = (EntryBatch, Truncated)
"""The changes that only the holder of the lease may write."""


def branch_id(mark: LeaseMark) -> str:
    """Return the id of the session for the entries that were written after a lease was lost."""
    from hashlib import sha256  # noqa: PLC0415 - seldom needed

    checksum = sha256(f"{mark.token} {mark.epoch}".encode()).hexdigest()
    return f"{mark.session_id}~{checksum[:12]}"


def lease_lost(mark: LeaseMark, holder: LeaseHolder, until_seq: int) -> LeaseLost:
    """Return the error of a write under a lease that `holder` has acquired since."""
    return LeaseLost(mark.session_id, holder, branch_id=branch_id(mark), until_seq=until_seq)


def fenced_sessions(changes: Iterable[Change]) -> list[str]:
    """Return the sessions of which entries are written, each once."""
    return list(dict.fromkeys(it.session_id for it in changes if isinstance(it, _FENCED)))


def branched(
    store: ReadableStore, hooks: StoreHooks, lost: LeaseLost, changes: Sequence[Change]
) -> list[Change]:
    """Return `changes` with those of the lost session for its branch, which they create."""
    redirected: list[Change] = []
    at_us = 0
    for change in changes:
        moved = _for_branch(change, lost)
        redirected += [change] if moved is None else moved
        at_us = at_us or change.at_us
    return [*_creation(store, hooks, lost, at_us), *redirected]


def _creation(store: ReadableStore, hooks: StoreHooks, lost: LeaseLost, at_us: int) -> list[Change]:
    """Return the changes that create the branch, unless it exists."""
    try:
        store.session(lost.branch_id)
    except SessionNotFound:
        return hooks.branch(store, lost.session_id, lost.branch_id, lost.until_seq, at_us)
    return []


def _for_branch(change: Change, lost: LeaseLost) -> list[Change] | None:
    """Return a change for the branch; None for a change that belongs to the session.

    The state of the session, and the user's own title, belong to the session itself. The agent's
    id stays with the session too, because two sessions with one id would receive the same updates.
    """
    if change.session_id != lost.session_id:
        return None
    match change:
        case EntryBatch() | Truncated() | Counted():
            return [replace(change, session_id=lost.branch_id)]
        case Titled() if change.source is not TitleSource.USER:
            return [replace(change, session_id=lost.branch_id)]
        case Opened() | AgentSaved():
            return []
        case _:
            return None


class PendingBranches:
    """Sends pending changes to branches if their leases are lost.

    `find_lost` returns the error of a write under a lease, or None if the lease is not lost. It is
    asked once for each lease, before any change that was made under it is applied.
    """

    def __init__(
        self,
        store: ReadableStore,
        hooks: StoreHooks,
        find_lost: Callable[[LeaseMark], LeaseLost | None],
    ) -> None:
        self.store = store
        self._hooks = hooks
        self._find_lost = find_lost
        self._lost: dict[str, LeaseLost | None] = {}

    def skip(self, changes: Iterable[PendingChange], count: int) -> Iterator[PendingChange]:
        """Yield the changes after the first `count`, and note the leases among these."""
        waiting = iter(changes)
        for change in islice(waiting, count):
            if isinstance(change, LeaseMark):
                self.note(change)
        yield from waiting

    def note(self, mark: LeaseMark) -> None:
        """Note the lease under which the further changes of a session were made."""
        self._lost[mark.session_id] = self._find_lost(mark)

    def redirect(self, change: Change) -> Sequence[Change]:
        """Return the changes to apply instead of `change`."""
        lost = self._lost.get(change.session_id)
        if lost is None or _for_branch(change, lost) is None:
            return (change,)
        return branched(self.store, self._hooks, lost, [change])
