"""The recorder: writes the engine's changes, and never lets a failing store stop a conversation.

While the store fails, changes wait in the write buffer. They are written when it works again. If it
never does, the next process that opens the store writes them. The user is informed once when the
store fails, and once when it works again.

If another process has taken a session over, the store works, but refuses the entries of this one.
They are recorded in a branch of the session. The user is informed once, and the driver informs the
engine, which closes the session.

A damaged store does not heal by itself. A thread recovers it into a new store, and recording
continues there.
"""

import time
from collections.abc import Callable, Sequence
from threading import Thread
from typing import TypeVar

from rekindle.errors import (
    IndexDamaged,
    LeaseLost,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
)
from rekindle.model import Change
from rekindle.process.deadline import Deadline
from rekindle.runtime.log import Log
from rekindle.runtime.write_buffer import WriteBuffer
from rekindle.store.base import LeaseMark, PendingChanges, Store
from rekindle.store.fencing import fenced_sessions

KEPT_DELETED_US = 30 * 24 * 3600 * 1_000_000

T = TypeVar("T")

_SESSIONS_PER_PURGE = 50
_RETRY_TIMEOUT = 0.05
_FIRST_PAUSE = 1.0
_MAX_PAUSE = 30.0
# A disk that damages one store after another is not worth more attempts.
_MAX_RECOVERIES = 3
# As long as a store waits for other writers.
_QUERY_TIMEOUT = 1.0
_CLOSE_TIMEOUT = 10.0


class Recorder:
    """Owns the store of one driver. Call it from one thread at a time.

    `recover` recovers a damaged store and returns a text about the result, or None if the store is
    not damaged. It runs in a thread of its own. `open_pending` creates a place for changes that
    cannot be written now, under a token, or returns None if there is to be none.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        log: Log,
        recover: Callable[[], str | None] = lambda: None,
        open_pending: Callable[[str], PendingChanges | None] = lambda _: None,
    ) -> None:
        self._open_store = open_store
        self._log = log
        self._recover = recover
        self._recovery: Thread | None = None
        self._recoveries = 0
        self._queries_wait_until = 0.0
        self._store: Store | None = None
        self._buffer = WriteBuffer(open_pending, log)
        self.losses = LostLeases()
        """The leases that other processes have taken over."""
        self._is_failing = False
        self._pause = _FIRST_PAUSE
        self._retry_at = 0.0
        self._try(self._open)

    def record(self, changes: Sequence[Change], *, sync: bool) -> None:
        """Write `changes`: now if the store works, otherwise when it works again."""
        if not changes:
            return
        store = self._store
        if self._is_failing or store is None:
            self._buffer.add(changes, sync=sync, leases=_leases_of(store, changes))
            if self._is_due():
                self.catch_up()
            return
        try:
            if not self._try(lambda: store.write(changes, sync=sync)):
                self._buffer.add(
                    changes,
                    sync=sync,
                    uncertain=store.uncertain_write(changes),
                    leases=_leases_of(store, changes),
                )
        except LeaseLost as lost:
            self._record_in_branch(store, lost, changes, sync=sync)

    def _record_in_branch(
        self, store: Store, lost: LeaseLost, changes: Sequence[Change], *, sync: bool
    ) -> None:
        """Write changes that another process has fenced, with the entries in a branch."""
        branched: list[Change] = []
        if self._try(lambda: branched.extend(store.branch_changes(lost, changes))):
            # They may have entries of other sessions, whose leases are lost as well.
            self.record(branched, sync=sync)
        else:
            # They are applied to the branch, because the lease is lost.
            self._buffer.add(changes, sync=sync, leases=_leases_of(store, changes))
        if self.losses.branch_is_new(lost):
            self._log.report(
                f"session {lost.session_id} was taken over by process {lost.holder.pid} on"
                f" {lost.holder.machine}; its further messages here are in {lost.branch_id}"
            )
        self.losses.add(lost)

    def last_seqs(self, session_ids: Sequence[str]) -> dict[str, int]:
        """Return the seqs of the last entries of sessions; nothing while the store fails."""
        if self._is_failing or self._store is None:
            return {}
        try:
            return {it: self._store.last_seq(it) for it in session_ids}
        except StoreError:
            return {}

    def ask(self, query: Callable[[Store], T]) -> T:
        """Return the result of a query to the store. Raises StoreError, also while it fails."""
        try:
            return query(self._working_store())
        except IndexDamaged:
            raise
        except LeaseLost as lost:
            self.losses.add(lost)
            raise
        except StoreDamaged as error:
            self._fail(error)
            return query(self._working_store())

    def _working_store(self) -> Store:
        if self._recovery is not None:
            self._recovery.join(max(0.0, self._queries_wait_until - time.monotonic()))
        if self._is_failing and self._is_due():
            self.catch_up()
        if self._is_failing or self._store is None:
            is_recovering = self._recovery is not None
            state = "is being recovered" if is_recovering else "is not available at the moment"
            raise StoreUnavailable(f"the store {state}")
        return self._store

    def purge_deleted(self, now_us: int) -> bool:
        """Purge some sessions that were deleted long ago; return whether none is left.

        The conversation waits meanwhile, and there may be very many, so each call purges a few.
        """
        try:
            before_us = now_us - KEPT_DELETED_US
            due = self.ask(lambda store: store.deleted_ids(before_us, _SESSIONS_PER_PURGE))
            if due:
                self.ask(lambda store: store.purge(*due))
            for session_id in due:
                self._log.note(f"purged {session_id}, which was deleted over 30 days ago")
        except StoreError as error:
            self._log.note(f"could not purge all deleted sessions: {error}")
            return True
        return len(due) < _SESSIONS_PER_PURGE

    def catch_up(self) -> None:
        """Try to write the waiting changes."""

        def write() -> None:
            # The conversation waits meanwhile, so the timeout is short.
            losses = self._buffer.write_to(self._open(), _RETRY_TIMEOUT)
            self._is_failing = False
            self._pause = _FIRST_PAUSE
            self._log.report(f"recording again{losses}")

        if not self._try(write):
            self._buffer.move_to_file()

    def close(self) -> None:
        """Write the waiting changes, if possible, and close the store."""
        deadline = Deadline(_CLOSE_TIMEOUT)
        self._wait_for_recovery(deadline)
        store = self._store
        if store is not None and not self._is_failing:
            # The file may have been removed since the last turn. This is the last chance to notice.
            self._try(lambda: store.write((), sync=True))
        if self._is_failing:
            self.catch_up()
        if self._is_failing and self._recovery is not None:
            # The damage was found only now.
            self._wait_for_recovery(deadline)
            self.catch_up()
        self._buffer.leave()
        if self._store is not None:
            self._close_store(self._store)
            self._store = None

    def _wait_for_recovery(self, deadline: Deadline) -> None:
        if self._recovery is not None:
            self._recovery.join(deadline.remaining)

    def _open(self) -> Store:
        # A failed store is opened again, because its file may have been replaced or repaired. Until
        # that works, the former one keeps the leases alive.
        former, store = self._store, self._open_store()
        if former is not None:
            try:
                store.continue_from(former)
            except BaseException:
                # The former one may be the only copy of the record, so it is kept.
                self._close_store(store)
                raise
            self._close_store(former)
        self._store = store
        return store

    def _close_store(self, store: Store) -> None:
        try:
            store.close()
        except StoreError as error:
            self._log.note(f"could not close the store: {error}")

    def _try(self, action: Callable[[], object]) -> bool:
        try:
            action()
        except LeaseLost:
            raise
        except StoreError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - a bug must not end a conversation
            self._fail(StoreError(f"a bug in Rekindle, please report it: {error!r}"))
        else:
            return True
        return False

    def _fail(self, error: StoreError) -> None:
        if self._is_failing:
            self._pause = min(self._pause * 2, _MAX_PAUSE)
            self._log.note(f"still not recording: {error}")
        else:
            self._is_failing = True
            self._log.report(f"not recording: {error}. The conversation continues")
        self._retry_at = time.monotonic() + self._pause
        if isinstance(error, StoreDamaged):
            self._start_recovery()

    def _start_recovery(self) -> None:
        if self._recovery is None and self._recoveries < _MAX_RECOVERIES:
            self._queries_wait_until = time.monotonic() + _QUERY_TIMEOUT
            self._recovery = Thread(target=self._run_recovery, daemon=True)
            self._recovery.start()

    def _run_recovery(self) -> None:
        try:
            result = self._recover()
        except StoreError as error:
            self._log.note(f"could not recover the damaged store: {error}")
        except Exception as error:  # noqa: BLE001 - a bug must not end a conversation
            self._log.report("a bug in Rekindle, please report it", quote=repr(error))
        else:
            if result is not None:
                self._recoveries += 1
                self._retry_at = 0.0
                self._log.report(result)

    def _is_due(self) -> bool:
        """Return whether it is time to try the store again."""
        if self._recovery is not None:
            if self._recovery.is_alive():
                return False
            self._recovery = None
        return time.monotonic() >= self._retry_at


class LostLeases:
    """The leases that other processes have taken over, by the ids of the branches."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._with_branch: set[str] = set()
        self.new: list[LeaseLost] = []
        """The losses that were not taken yet."""

    def add(self, lost: LeaseLost) -> None:
        """Note a lost lease, unless it is known."""
        if lost.branch_id not in self._known:
            self._known.add(lost.branch_id)
            self.new.append(lost)

    def branch_is_new(self, lost: LeaseLost) -> bool:
        """Return, once, whether the user has yet to learn of a branch."""
        is_new = lost.branch_id not in self._with_branch
        self._with_branch.add(lost.branch_id)
        return is_new

    def take(self) -> list[LeaseLost]:
        """Return and remove the losses since the last call."""
        new, self.new = self.new, []
        return new


def _leases_of(store: Store | None, changes: Sequence[Change]) -> list[LeaseMark]:
    """Return the leases under which changes of entries wait."""
    if store is None:
        return []
    marks = (store.lease_mark(session_id) for session_id in fenced_sessions(changes))
    return [mark for mark in marks if mark is not None]
