"""The leases of a store in memory. No process can die here: a lease ends when it is released."""

from msgspec import Struct

from rekindle.errors import LeaseLost
from rekindle.model import LeaseHolder, LeaseResult
from rekindle.store.base import LeaseMark
from rekindle.store.fencing import lease_lost


class _Lease(Struct):
    holder: LeaseHolder
    epoch: int = 1
    starts: dict[int, int] = {}
    """The last seq of the session when an epoch began, by epoch."""
    is_over: bool = False

    def is_that_of(self, mark: LeaseMark) -> bool:
        """Return whether no other process has acquired the lease since.

        The epoch is lower if the session was removed, and the lease acquired again.
        """
        return mark.token == self.holder.token and self.epoch <= mark.epoch

    def lost(self, mark: LeaseMark, last_seq: int) -> LeaseLost:
        """Return the error of a write under an earlier epoch, or from before a purge."""
        later = (seq for epoch, seq in self.starts.items() if epoch > mark.epoch)
        until_seq = next(later, last_seq)
        return lease_lost(mark, self.holder, until_seq)


class MemoryLeases:
    """The leases of all sessions, as one instance of the store sees them."""

    def __init__(self, shared: "MemoryLeases | None" = None) -> None:
        self._leases: dict[str, _Lease] = {} if shared is None else shared._leases  # noqa: SLF001
        self.marks: dict[str, LeaseMark] = {}
        """The leases that were acquired through this instance, lost or not."""

    def acquire(
        self, session_id: str, holder: LeaseHolder, last_seq: int, *, takeover: bool
    ) -> LeaseResult:
        """Give `holder` a lease, unless another process has it."""
        lease = self._leases.setdefault(session_id, _Lease(holder))
        was = lease.holder
        is_another = was.token != holder.token
        is_held = is_another and not lease.is_over
        if is_held and not takeover:
            return LeaseResult(holder=was)
        if is_another:
            lease.epoch += 1
            lease.starts[lease.epoch] = last_seq
        lease.holder, lease.is_over = holder, False
        self.marks[session_id] = LeaseMark(
            session_id=session_id, token=holder.token, epoch=lease.epoch
        )
        return LeaseResult(
            was_held_by_another=is_another,
            epoch=lease.epoch,
            former=was if is_held else None,
            is_former_alive=is_held,
        )

    def update(self, holder: LeaseHolder) -> None:
        """Store the new fields of a holder."""
        for lease in self._leases.values():
            if lease.holder.token == holder.token:
                lease.holder = holder

    def holder(self, session_id: str) -> LeaseHolder | None:
        """Return the holder of a lease."""
        lease = self._leases.get(session_id)
        return None if lease is None or lease.is_over else lease.holder

    def held_ids(self) -> set[str]:
        """Return the sessions that have a lease."""
        return {session_id for session_id, it in self._leases.items() if not it.is_over}

    def release(self, holder: LeaseHolder, session_id: str | None) -> None:
        """Release the lease of one session, or all of them. Lost ones stay fenced."""
        for held, lease in self._leases.items():
            if lease.holder.token == holder.token and session_id in {None, held}:
                lease.is_over = True
                self.marks.pop(held, None)

    def release_own(self) -> None:
        """Release the leases that were acquired through this instance."""
        for session_id, mark in self.marks.items():
            lease = self._leases.get(session_id)
            if lease is not None and lease.is_that_of(mark):
                lease.is_over = True
        self.marks.clear()

    def drop(self, session_id: str) -> None:
        """Forget the lease of a session that is removed."""
        self._leases.pop(session_id, None)
        self.marks.pop(session_id, None)

    def truncate(self, session_id: str, until_seq: int) -> None:
        """Note that the entries after `until_seq` were removed: no process has them in common."""
        lease = self._leases.get(session_id)
        if lease is not None:
            lease.starts = {epoch: min(seq, until_seq) for epoch, seq in lease.starts.items()}

    def check(self, session_id: str, last_seq: int) -> None:
        """Raise LeaseLost if this instance has lost the lease of a session."""
        mark, lease = self.marks.get(session_id), self._leases.get(session_id)
        if mark is not None and lease is not None and not lease.is_that_of(mark):
            raise lease.lost(mark, last_seq)

    def find_lost(self, mark: LeaseMark, last_seq: int) -> LeaseLost | None:
        """Return the error for pending changes that must not be appended to their session."""
        lease = self._leases.get(mark.session_id)
        if lease is None or lease.is_that_of(mark):
            return None
        lost = lease.lost(mark, last_seq)
        return None if lease.is_over and last_seq == lost.until_seq else lost
