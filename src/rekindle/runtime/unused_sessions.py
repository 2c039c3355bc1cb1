"""Forget unused sessions whose process was killed before it could forget them itself."""

from rekindle.errors import StoreError
from rekindle.model import LeaseHolder
from rekindle.runtime.log import Log
from rekindle.runtime.recorder import Recorder
from rekindle.store.base import Store
from rekindle.transcript.unused import forgotten_if_empty

KEPT_UNUSED_US = 3600 * 1_000_000
"""A process that has just recorded a session may not have its lease yet."""

_SESSIONS_PER_CALL = 50


class UnusedSessions:
    """The unused sessions of a store that no live process has a lease on.

    The conversation waits while some of them are judged, so each call judges a few.
    """

    def __init__(self, recorder: Recorder, holder: LeaseHolder, log: Log) -> None:
        self._recorder = recorder
        self._holder = holder
        self._log = log
        self._last = (0, "")
        """The key of the session that was judged last."""

    def forget_some(self, now_us: int) -> bool:
        """Forget some sessions that hold nothing; return whether all were judged."""
        ask, before_us = self._recorder.ask, now_us - KEPT_UNUSED_US
        try:
            due = ask(
                lambda store: store.unused_sessions(
                    before_us, after=self._last, limit=_SESSIONS_PER_CALL
                )
            )
            for session in due:
                self._last = session.created_us, session.id
                if ask(lambda store, id_=session.id: self._forget(store, id_, now_us)):
                    self._log.note(f"forgot {session.id}, which was never used")
        except StoreError as error:
            self._log.note(f"could not forget all unused sessions: {error}")
            return True
        return len(due) < _SESSIONS_PER_CALL

    def _forget(self, store: Store, session_id: str, now_us: int) -> bool:
        if store.acquire_lease(session_id, self._holder).holder is not None:
            return False
        forgotten = forgotten_if_empty(session_id, list(store.read(session_id)), now_us)
        if forgotten is None:
            store.release_leases(self._holder, session_id)
            return False
        store.write([forgotten])
        return True
