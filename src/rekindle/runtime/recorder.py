"""Writes what the core decided to keep, and never lets a failing store stop a conversation.

While the store fails, changes wait, and are written once it works again; what still waits at the
end is left to whoever opens the store next. The user is told once when it fails and once when it
works again.

A store that is damaged does not work again by itself. So what can be read of it is saved in a new
one, by a thread of its own, and recording goes on there.
"""

import time
from collections.abc import Callable, Sequence
from threading import Thread
from typing import TypeVar

from rekindle.errors import IndexDamaged, StoreDamaged, StoreError, StoreUnavailable
from rekindle.model import Change
from rekindle.process.deadline import Deadline
from rekindle.runtime.log import Log
from rekindle.runtime.write_buffer import WriteBuffer
from rekindle.store.base import PendingChanges, Store

KEPT_DELETED_US = 30 * 24 * 3600 * 1_000_000

T = TypeVar("T")

_PURGED_AT_ONCE = 50
_PATIENCE_OF_A_RETRY = 0.05
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
# A disk that damages one store after the other is none to go on with.
_MOST_SALVAGES = 3
# As long as a store waits for others that write.
_PATIENCE_OF_QUESTIONS = 1.0
_PATIENCE_AT_THE_END = 10.0


class Recorder:
    """Owns the store of one connection. Call it from one thread at a time.

    `salvage` saves what can be read of a damaged store, and says how much; None if that was not
    to be done. It is called in a thread of its own. `open_pending` makes a file in which what waits
    outlives us; None where there is to be none.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        log: Log,
        salvage: Callable[[], str | None] = lambda: None,
        open_pending: Callable[[], PendingChanges | None] = lambda: None,
    ) -> None:
        self._open_store = open_store
        self._log = log
        self._salvage = salvage
        self._salvaging: Thread | None = None
        self._salvages = 0
        self._questions_wait_until = 0.0
        self._store: Store | None = None
        self._buffer = WriteBuffer(open_pending, log)
        self._is_failing = False
        self._pause = _FIRST_PAUSE
        self._retry_at = 0.0
        self._try(self._open)

    def record(self, changes: Sequence[Change], *, sync: bool) -> None:
        """Write `changes`, now if the store works, else when it works again."""
        if not changes:
            return
        if self._is_failing or self._store is None:
            self._buffer.add(changes, sync=sync)
            if self._is_due():
                self.catch_up()
            return
        store = self._store
        if not self._try(lambda: store.write(changes, sync=sync)):
            self._buffer.add(changes, sync=sync)

    def ask(self, question: Callable[[Store], T]) -> T:
        """Ask the store something. Raises StoreError, also while it fails."""
        try:
            return question(self._working_store())
        except IndexDamaged:
            raise
        except StoreDamaged as error:
            self._fail(error)
            return question(self._working_store())

    def _working_store(self) -> Store:
        if self._salvaging is not None:
            self._salvaging.join(max(0.0, self._questions_wait_until - time.monotonic()))
        if self._is_failing and self._is_due():
            self.catch_up()
        if self._is_failing or self._store is None:
            is_salvaged = self._salvaging is not None
            when = "until what can be read of it is saved" if is_salvaged else "at the moment"
            raise StoreUnavailable(f"the store does not work {when}")
        return self._store

    def purge_deleted(self, now_us: int) -> bool:
        """Remove for good some of what was deleted long ago; tell whether that was all.

        Some, because the conversation waits meanwhile, and there may be very many.
        """
        try:
            before_us = now_us - KEPT_DELETED_US
            some = self.ask(lambda store: store.deleted_ids(before_us, _PURGED_AT_ONCE))
            if some:
                self.ask(lambda store: store.purge(*some))
            for session_id in some:
                self._log.note(f"purged {session_id}, which was deleted over 30 days ago")
        except StoreError as error:
            self._log.note(f"not all that was deleted is purged: {error}")
            return True
        return len(some) < _PURGED_AT_ONCE

    def catch_up(self) -> None:
        """Try to write what waits."""

        def rewrite() -> None:
            # The conversation waits meanwhile, so others are hardly waited for.
            lost = self._buffer.write_to(self._open(), _PATIENCE_OF_A_RETRY)
            self._is_failing = False
            self._pause = _FIRST_PAUSE
            self._log.report(f"recording again{lost}")

        if not self._try(rewrite):
            self._buffer.move_to_file()

    def close(self) -> None:
        """Write what can still be written, and let the store go."""
        deadline = Deadline(_PATIENCE_AT_THE_END)
        self._wait_for_what_is_saved(deadline)
        store = self._store
        if store is not None and not self._is_failing:
            # Its file may have been removed since the last turn: then this is the last chance.
            self._try(lambda: store.write((), sync=True))
        if self._is_failing:
            self.catch_up()
        if self._is_failing and self._salvaging is not None:
            # The damage was met only now.
            self._wait_for_what_is_saved(deadline)
            self.catch_up()
        self._buffer.leave()
        if self._store is not None:
            self._let_go_of(self._store)
            self._store = None

    def _wait_for_what_is_saved(self, deadline: Deadline) -> None:
        if self._salvaging is not None:
            self._salvaging.join(deadline.remaining)

    def _open(self) -> Store:
        # A store that failed is opened anew: its file may have been replaced or repaired. Until
        # that works, the one before shows to others that its sessions are in use.
        former, store = self._store, self._open_store()
        if former is not None:
            try:
                store.continue_from(former)
            except BaseException:
                # The one before may be all that has what was recorded: it is tried again.
                self._let_go_of(store)
                raise
            self._let_go_of(former)
        self._store = store
        return store

    def _let_go_of(self, store: Store) -> None:
        try:
            store.close()
        except StoreError as error:
            self._log.note(f"closing the store: {error}")

    def _try(self, action: Callable[[], object]) -> bool:
        try:
            action()
        except StoreError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end a conversation
            self._fail(StoreError(f"a fault in Rekindle, please report it: {error!r}"))
        else:
            return True
        return False

    def _fail(self, error: StoreError) -> None:
        if self._is_failing:
            self._pause = min(self._pause * 2, _LONGEST_PAUSE)
            self._log.note(f"still not recording: {error}")
        else:
            self._is_failing = True
            self._log.report(f"not recording: {error}. The conversation goes on")
        self._retry_at = time.monotonic() + self._pause
        if isinstance(error, StoreDamaged):
            self._begin_to_salvage()

    def _begin_to_salvage(self) -> None:
        if self._salvaging is None and self._salvages < _MOST_SALVAGES:
            self._questions_wait_until = time.monotonic() + _PATIENCE_OF_QUESTIONS
            self._salvaging = Thread(target=self._save_what_can_be_read, daemon=True)
            self._salvaging.start()

    def _save_what_can_be_read(self) -> None:
        try:
            told = self._salvage()
        except StoreError as error:
            self._log.note(f"what can be read of the damaged store is not saved: {error}")
        except Exception as error:  # noqa: BLE001 - as above
            self._log.report("a fault in Rekindle, please report it", quote=repr(error))
        else:
            if told is not None:
                self._salvages += 1
                self._retry_at = 0.0
                self._log.report(told)

    def _is_due(self) -> bool:
        """Tell whether it is time to try the store again."""
        if self._salvaging is not None:
            if self._salvaging.is_alive():
                return False
            self._salvaging = None
        return time.monotonic() >= self._retry_at
